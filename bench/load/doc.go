// Package load puts pipelined load on a Kafka-compatible broker over plain
// connections and counts what comes back.
//
// One goroutine drives one connection. It keeps Depth requests on the way and
// writes as many new ones as it has just read answers, in one write, as busy
// clients do. So at a depth above 1 a request's latency is that of its batch. Where
// that would measure the generator, one thread drives all connections with system
// calls: Probe at a low rate, ComeBack with very many of them.
//
// A request is encoded once, with kmsg, and sent again and again with a new
// correlation id (and a new offset in a commit). An answer must carry the
// correlation id that is due; one that equals an answer already decoded and
// found free of error codes is not decoded again. Every other answer is decoded
// and its codes are counted. A run is a success only when answers came, no
// connection broke, and the share of answers with an error code is at most
// Spec.MaxErrorRatio.
//
// Generator and server share the machine here, so besides answers per second
// Report has the server's CPU time per answer, which is the steadier figure.
package load
