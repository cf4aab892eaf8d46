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

// The rows by name.
var (
	brokerIndex = index(tables[:]...)
	topicIndex  = index(topicProperties)
	groupIndex  = index(groupLevelProperties)
)

func index(tables ...[]Property) map[string]*Property {
	rows := make(map[string]*Property)
	for _, table := range tables {
		for i := range table {
			rows[table[i].Name] = &table[i]
		}
	}
	return rows
}

// Find returns the row of a broker property, and false if there is none. The row
// must not be changed.
func Find(name string) (*Property, bool) {
	if p, ok := brokerIndex[name]; ok {
		return p, true
	}
	for i := range prefixes {
		if strings.HasPrefix(name, prefixes[i].Name) {
			return &prefixes[i], true
		}
	}
	return nil, false
}

// FindTopic and FindGroup are Find for the properties of a topic and of a group.
func FindTopic(name string) (*Property, bool) { return indexed(topicIndex, name) }
func FindGroup(name string) (*Property, bool) { return indexed(groupIndex, name) }

func indexed(rows map[string]*Property, name string) (*Property, bool) {
	p, ok := rows[name]
	return p, ok
}
