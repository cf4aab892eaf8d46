// Package metrics has what a broker counts with, and writes it in Prometheus'
// text format. Its types are updated by atomic operations and read when somebody
// asks.
package metrics
