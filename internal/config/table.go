package config

import "slices"

// Properties returns the table of broker properties, in groups. It is a copy.
func Properties() []Property {
	return slices.Concat(groupProperties, logProperties, requestProperties, clusterProperties, kcoordProperties,
		securityProperties, laterProperties, absentProperties)
}

// tables are the parts of the table of broker properties.
var tables = [...][]Property{groupProperties, logProperties, requestProperties, clusterProperties, kcoordProperties,
	securityProperties, laterProperties, absentProperties}

// Find returns the row of a broker property, and false if there is none.
func Find(name string) (*Property, bool) {
	for _, table := range tables {
		for i := range table {
			if table[i].Name == name {
				return &table[i], true
			}
		}
	}
	return nil, false
}
