// Package broker puts the parts together: it takes frames from netloop, decodes
// them with wire, gives group requests to coordinator shards and data requests
// to the store, and lets answers go when what they depend on is durable.
//
// A Go program can embed a broker; see Options and New.
package broker
