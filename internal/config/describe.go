package config

import (
	"cmp"
	"slices"
	"strings"
)

// An Entry is one property as DescribeConfigs answers it.
type Entry struct {
	*Property
	// Value is nil for null, and for a password.
	Value    *string
	Source   Source
	ReadOnly bool
	// Synonyms are the settings behind the value, the strongest first, defaults
	// included.
	Synonyms []EntrySynonym
}

// An EntrySynonym is one setting behind an Entry. Value is nil for a password.
type EntrySynonym struct {
	Name   string
	Value  *string
	Source Source
}

// Sensitive reports whether the value is hidden.
func (e *Entry) Sensitive() bool { return e.Type == Password }

// brokerFamilies are broker properties of one meaning in several units, the
// strongest first.
var brokerFamilies = [][]string{
	{"log.roll.ms", "log.roll.hours"},
	{"log.roll.jitter.ms", "log.roll.jitter.hours"},
	{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
	{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"},
}

// family is the family of a property; the last one of the log.flush family is
// described alone.
func family(name string) []string {
	for _, names := range brokerFamilies {
		if slices.Contains(names, name) && name != "log.flush.scheduler.interval.ms" {
			return names
		}
	}
	return []string{name}
}

// DescribeBroker returns the entries of this broker's properties, sorted by name:
// all that are not internal.
func (c *Config) DescribeBroker() []Entry {
	var entries []Entry
	for _, table := range tables {
		for i := range table {
			if !table[i].Internal {
				entries = append(entries, c.brokerEntry(&table[i]))
			}
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}

// DescribeCluster returns the entries of the empty broker name: what was set for
// all brokers while they ran.
func (c *Config) DescribeCluster() []Entry {
	var entries []Entry
	for name, s := range c.set[slices.Index(layers[:], DynamicDefaultSource)] {
		p, _ := Find(name)
		entries = append(entries, Entry{Property: p, Value: p.shown(s.Value), Source: DynamicDefaultSource, ReadOnly: p.Mode == ReadOnly,
			Synonyms: []EntrySynonym{{name, p.shown(s.Value), DynamicDefaultSource}}})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}

func (c *Config) brokerEntry(p *Property) Entry {
	e := Entry{Property: p, Source: DefaultSource, ReadOnly: p.Mode == ReadOnly}
	if s, ok := c.Lookup(p.Name); ok {
		e.Value = p.shown(s.Value)
	} else if !p.Null {
		e.Value = p.shown(p.Default)
	}
	e.Synonyms = c.synonyms(p.Name)
	if len(e.Synonyms) > 0 {
		e.Source = e.Synonyms[0].Source
	}
	return e
}

// synonyms are the settings of a broker property's family by layer, from the first
// one under its own name on.
func (c *Config) synonyms(name string) []EntrySynonym {
	var list []EntrySynonym
	names := family(name)
	for i, layer := range layers {
		for _, n := range names {
			if s, ok := c.set[i][n]; ok {
				p, _ := Find(n)
				list = append(list, EntrySynonym{n, p.shown(s.Value), layer})
			}
		}
	}
	for _, n := range names {
		if p, ok := Find(n); ok && !p.Null {
			list = append(list, EntrySynonym{n, p.shown(p.Default), DefaultSource})
		}
	}
	own := slices.IndexFunc(list, func(s EntrySynonym) bool { return s.Name == name })
	if own < 0 {
		return nil
	}
	return list[own:]
}

// DescribeTopic returns the entries of a topic with these properties set on it,
// sorted by name.
func (c *Config) DescribeTopic(set map[string]string) []Entry {
	return c.describe(topicProperties, set, TopicSource)
}

// DescribeGroup returns the entries of a group with these properties set on it,
// sorted by name.
func (c *Config) DescribeGroup(set map[string]string) []Entry {
	entries := c.describe(groupLevelProperties, set, GroupSource)
	for i := range entries {
		// Unlike a topic's, a group's property names its own default.
		if e := &entries[i]; len(e.Property.Synonyms) == 0 {
			e.Synonyms = append(e.Synonyms, EntrySynonym{e.Name, e.shown(e.Default), DefaultSource})
		}
	}
	return entries
}

func (c *Config) describe(table []Property, set map[string]string, source Source) []Entry {
	var entries []Entry
	for i := range table {
		p := &table[i]
		if p.Internal {
			continue
		}
		e := Entry{Property: p, Source: DefaultSource, Value: p.shown(c.valueOf(p, set))}
		if value, ok := set[p.Name]; ok {
			e.Synonyms = append(e.Synonyms, EntrySynonym{p.Name, p.shown(value), source})
		}
		if len(p.Synonyms) > 0 {
			e.Synonyms = append(e.Synonyms, c.synonyms(p.Synonyms[0].Name)...)
		}
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}

// shown is a value as DescribeConfigs shows it.
func (p *Property) shown(value string) *string {
	if p.Type == Password {
		return nil
	}
	value = p.normal(value)
	return &value
}

// normal is a valid value in Kafka's form: no blanks around it or around the
// elements of a list, truth in lower case.
func (p *Property) normal(value string) string {
	switch value = strings.TrimSpace(value); p.Type {
	case Boolean:
		return strings.ToLower(value)
	case List:
		return strings.Join(SplitList(value), ",")
	}
	return value
}
