package config

import (
	"slices"
	"strings"
)

// tables are the parts of the table of broker properties.
var tables = [...][]Property{groupProperties, logProperties, requestProperties, clusterProperties, kcoordProperties,
	securityProperties, laterProperties, absentProperties, removedProperties}

// Properties returns the table of broker properties, in parts that belong
// together. It is a copy.
func Properties() []Property { return slices.Concat(tables[:]...) }

// TopicProperties and GroupProperties return the tables of what can be set on a
// topic and on a group. They are copies.
func TopicProperties() []Property { return slices.Clone(topicProperties) }
func GroupProperties() []Property { return slices.Clone(groupLevelProperties) }

// Find returns the row of a broker property, and false if there is none. The row
// must not be changed.
func Find(name string) (*Property, bool) {
	for _, table := range tables {
		if p, ok := find(table, name); ok {
			return p, true
		}
	}
	for i := range prefixes {
		if strings.HasPrefix(name, prefixes[i].Name) {
			return &prefixes[i], true
		}
	}
	return nil, false
}

// FindTopic and FindGroup are Find for the properties of a topic and of a group.
func FindTopic(name string) (*Property, bool) { return find(topicProperties, name) }
func FindGroup(name string) (*Property, bool) { return find(groupLevelProperties, name) }

func find(table []Property, name string) (*Property, bool) {
	for i := range table {
		if table[i].Name == name {
			return &table[i], true
		}
	}
	return nil, false
}
