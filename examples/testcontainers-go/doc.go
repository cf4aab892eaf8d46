// Package testcontainers shows how the Kafka module of Testcontainers for Go starts
// kcoord in the place of Kafka: see the test.
package testcontainers
