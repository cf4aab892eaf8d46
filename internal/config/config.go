package config

import (
	"maps"
	"slices"
)

// A Source says where a value comes from, with the numbers of DescribeConfigs
// answers.
type Source int8

const (
	TopicSource          Source = 1 // set on the topic
	DynamicBrokerSource  Source = 2 // set on this broker while it ran
	DynamicDefaultSource Source = 3 // set on all brokers while they ran
	StaticSource         Source = 4 // a flag, the environment or a file
	DefaultSource        Source = 5
	GroupSource          Source = 8 // set on the group
)

// A Setting is a value that somebody gave.
type Setting struct {
	Name, Value string
	Source      Source
	// Origin says where, in words for a person: "--set", "server.properties:12",
	// "KAFKA_NODE_ID".
	Origin string
}

// layers are the sources of a broker's settings, the strongest first.
var layers = [...]Source{DynamicBrokerSource, DynamicDefaultSource, StaticSource}

// A Config is the configuration of a broker: what was set, and the defaults. It
// is immutable.
type Config struct {
	set    [len(layers)]map[string]Setting // by layer and property name
	values Values
}

// Default returns the configuration with nothing set.
func Default() *Config {
	c := &Config{}
	if err := c.build(); err != nil {
		panic("config: the defaults are not valid: " + err.Error())
	}
	return c
}

// Static returns the configuration with these settings (their Source is made
// StaticSource). Of several under one name the last holds. The error is an *Error.
func Static(settings ...Setting) (*Config, error) {
	set := make(map[string]Setting, len(settings))
	for _, s := range settings {
		s.Source = StaticSource
		set[s.Name] = s
	}
	c := &Config{}
	c.set[len(layers)-1] = set
	return c, c.build()
}

// With returns the configuration with all that was changed while the broker ran
// in one layer, DynamicBrokerSource or DynamicDefaultSource, replaced by values.
// The error is an *Error: an unknown, invalid or read-only property.
func (c *Config) With(layer Source, values map[string]string) (*Config, error) {
	set := make(map[string]Setting, len(values))
	for name, value := range values {
		s := Setting{Name: name, Value: value, Source: layer}
		if p, ok := Find(name); ok && !p.changeable(layer) {
			message := "Cannot update these configs dynamically: [" + name + "]"
			if p.changeable(DynamicBrokerSource) {
				message = "Cannot update these configs at default cluster level, broker id must be specified: [" + name + "]"
			}
			return nil, &Error{Setting: s, Problem: "cannot be changed while the broker runs", message: message}
		}
		set[name] = s
	}
	next := &Config{set: c.set}
	next.set[slices.Index(layers[:], layer)] = set
	return next, next.build()
}

// changeable reports whether a property can be set in a layer while the broker
// runs. What Kafka changes for one broker are its listeners and their security;
// kcoord's listeners stay as they were at the start.
func (p *Property) changeable(layer Source) bool {
	switch p.Mode {
	case ClusterWide:
		return true
	case PerBroker:
		return layer == DynamicBrokerSource && p.Stance != Honoured
	}
	return false
}

// Values returns the typed values. They are shared and must not be changed.
func (c *Config) Values() *Values { return &c.values }

// Lookup returns the setting that holds for a property, and false if there is
// none.
func (c *Config) Lookup(name string) (Setting, bool) {
	for _, set := range c.set {
		if s, ok := set[name]; ok {
			return s, true
		}
	}
	return Setting{}, false
}

// Get returns a property's value in text form: what was set, else the default.
// The name has to be in the table of broker properties.
func (c *Config) Get(name string) string {
	if s, ok := c.Lookup(name); ok {
		return s.Value
	}
	p, ok := Find(name)
	if !ok {
		panic("config: no property " + name)
	}
	return p.Default
}

// Settings returns all that was set, sorted by name.
func (c *Config) Settings() []Setting {
	all := make(map[string]Setting)
	for _, set := range slices.Backward(c.set[:]) {
		maps.Copy(all, set)
	}
	list := make([]Setting, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// build checks every setting and fills in the typed values.
func (c *Config) build() error {
	for _, s := range c.Settings() {
		if err := brokerScope.check(s); err != nil {
			return err
		}
	}
	return c.values.fill(c)
}
