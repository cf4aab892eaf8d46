// Package log is the store: one journal in front of many partition logs. What
// is appended, to any partition, during the sync of one round becomes the next
// round: one write and one fdatasync of one file, whatever was written. The
// partition logs are Kafka's own format and follow behind without syncs.
//
// The package does not know what a record means and starts no goroutine: its
// loops are step functions that the broker runs.
package log
