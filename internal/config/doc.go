// Package config is kcoord's configuration: one table of properties under
// Kafka's names, and what is made from it: the values a broker runs on, the
// answers of DescribeConfigs, and one-line errors for what a person got wrong.
//
// Properties come from flags, the environment, a file and the defaults, in this
// order of precedence (see Load). A Config is immutable; a change at run time
// makes a new one (Config.With).
package config
