package config

// A Listener is one address to serve Kafka's protocol on.
type Listener struct {
	// Name is in upper case, as "PLAINTEXT" or "EXTERNAL".
	Name string
	// Host and Port are what to bind; an empty Host is all addresses.
	Host string
	Port int
	// AdvertisedHost and AdvertisedPort are what clients are told. An empty host
	// means the local address of the connection that asks; port 0 means the bound
	// port.
	AdvertisedHost string
	AdvertisedPort int
}
