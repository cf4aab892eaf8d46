package coordinator

// Config is the coordinator's immutable configuration, by Kafka's property names.
type Config struct{}

type scratch struct{}
