package config

// Sources are what a configuration is made from, the strongest first.
type Sources struct {
	// Flags are settings of the command line in its order; of several under one
	// name the last holds.
	Flags []Setting
	// Environ is the environment as "NAME=value".
	Environ []string
	// FileName and File are a properties file; an empty name means none.
	FileName string
	File     []byte
}

// Loaded is a configuration and what there is to say about it.
type Loaded struct {
	*Config
	// Topics are to be created at the start, as KAFKA_CREATE_TOPICS gives them.
	Topics string
	// Warnings are lines for a person.
	Warnings []string
}

// Load makes a configuration: a flag wins over the environment, the environment
// over the file, the file over the defaults. The error is an *Error about the
// first wrong setting.
func Load(from Sources) (*Loaded, error) {
	var settings []Setting
	if from.FileName != "" {
		file, err := ParseFile(from.FileName, from.File)
		if err != nil {
			return nil, err
		}
		settings = file
	}
	env := FromEnvironment(from.Environ)
	settings = append(settings, env.Settings...)
	settings = append(settings, from.Flags...)
	for _, s := range settings { // those that are overridden too
		if err := brokerScope.check(s); err != nil {
			return nil, err
		}
	}
	c, err := Static(settings...)
	if err != nil {
		return nil, err
	}
	return &Loaded{Config: c, Topics: env.Topics, Warnings: env.Warnings}, nil
}

// WithoutEffect returns the settings of properties that are accepted and do
// nothing here, when their value is not Kafka's default.
func (c *Config) WithoutEffect() []Setting {
	var list []Setting
	for _, s := range c.Settings() {
		if p, ok := Find(s.Name); ok && p.Stance == Accepted && p.normal(s.Value) != p.Default {
			list = append(list, s)
		}
	}
	return list
}
