package broker

import (
	"fmt"
	"net"
	"strconv"
)

// A boundListener is a listener and what clients are told of it.
type boundListener struct {
	name           string
	bound          net.Listener
	advertisedHost string // empty: the local address of the connection that asks
	advertisedPort int32
}

// listen opens the configured listeners and begins to accept.
func (b *Broker) listen() error {
	for _, l := range b.values().Listeners {
		address := net.JoinHostPort(l.Host, strconv.Itoa(l.Port))
		bound, err := b.options.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
		at := boundListener{name: l.Name, bound: bound, advertisedHost: l.AdvertisedHost, advertisedPort: int32(l.AdvertisedPort)}
		if host, port, ok := hostPort(bound.Addr()); ok {
			if at.advertisedHost == "" && !net.ParseIP(host).IsUnspecified() {
				at.advertisedHost = host
			}
			if at.advertisedPort == 0 {
				at.advertisedPort = port
			}
		}
		b.listeners = append(b.listeners, at)
	}
	for _, l := range b.listeners {
		b.options.Executor.Go("accept "+l.name, func() {
			if err := b.transport.Serve(l.name, l.bound); err != nil {
				b.fail(fmt.Errorf("listener %s: %w", l.name, err))
			}
		})
	}
	return nil
}

func hostPort(a net.Addr) (host string, port int32, ok bool) {
	if a == nil {
		return "", 0, false
	}
	host, text, err := net.SplitHostPort(a.String())
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return host, int32(n), err == nil
}

// advertised is the address of this broker as the peer of s should use it: that
// of the listener it came in by; for a listener on all addresses that has no
// other, the one it connected to.
func (b *Broker) advertised(s *session) (host string, port int32) {
	host, port, _ = hostPort(s.conn.LocalAddr())
	for i := range b.listeners {
		l := &b.listeners[i]
		if l.name != s.conn.Listener() {
			continue
		}
		if l.advertisedHost != "" {
			host = l.advertisedHost
		}
		if l.advertisedPort != 0 {
			port = l.advertisedPort
		}
	}
	return host, port
}

// Addr is the address of the first listener; empty before Start.
func (b *Broker) Addr() string {
	if len(b.listeners) == 0 {
		return ""
	}
	return b.listeners[0].bound.Addr().String()
}

// Addrs are the addresses of all listeners by name.
func (b *Broker) Addrs() map[string]string {
	all := make(map[string]string, len(b.listeners))
	for _, l := range b.listeners {
		all[l.name] = l.bound.Addr().String()
	}
	return all
}
