package broker

// A Broker serves Kafka's protocol from one data folder.
//
// Owners: see locks.go.
type Broker struct {
	clock Clock
}
