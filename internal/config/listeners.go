package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// A Listener is one address to serve Kafka's protocol on.
type Listener struct {
	// Name is in upper case, as "PLAINTEXT" or "EXTERNAL".
	Name string
	// Host and Port are what to bind; an empty Host is all addresses, port 0 a free
	// one.
	Host string
	Port int
	// AdvertisedHost and AdvertisedPort are what clients are told. An empty host
	// means the local address of the connection that asks; port 0 means the bound
	// port.
	AdvertisedHost string
	AdvertisedPort int
}

// Address is what net.Listen takes.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

// An endpoint is one element of listeners or advertised.listeners.
type endpoint struct {
	name, host string
	port       int
}

// listenerForm is how an element of listeners is written.
const listenerForm = "NAME://HOST:PORT, with commas between several"

// parseEndpoints reads the value of listeners or advertised.listeners.
func parseEndpoints(value string) ([]endpoint, bool) {
	var list []endpoint
	for _, word := range SplitList(value) {
		name, address, ok := strings.Cut(word, "://")
		if !ok || name == "" {
			return nil, false
		}
		i := strings.LastIndexByte(address, ':')
		if i < 0 {
			return nil, false
		}
		host, digits := address[:i], address[i+1:]
		if bare, ok := strings.CutPrefix(host, "["); ok {
			if host, ok = strings.CutSuffix(bare, "]"); !ok || net.ParseIP(host) == nil {
				return nil, false
			}
		} else if strings.ContainsAny(host, ":/ ") {
			return nil, false
		}
		port, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			return nil, false
		}
		list = append(list, endpoint{name: strings.ToUpper(name), host: host, port: int(port)})
	}
	return list, true
}

// listeners makes the listeners for clients of listeners, advertised.listeners,
// listener.security.protocol.map and controller.listener.names.
func (c *Config) listeners() ([]Listener, error) {
	bound, ok := parseEndpoints(c.Get("listeners"))
	if !ok {
		return nil, c.wrong("listeners", "must be "+listenerForm)
	}
	advertised, ok := parseEndpoints(c.Get("advertised.listeners"))
	if !ok {
		return nil, c.wrong("advertised.listeners", "must be "+listenerForm)
	}
	if _, set := c.Lookup("listeners"); !set && len(advertised) > 0 {
		// As the usual images do: listen everywhere on what is advertised.
		bound = slices.Clone(advertised)
		for i := range bound {
			bound[i].host = ""
		}
	}
	controller := c.controllerListeners()
	isController := func(e endpoint) bool { return slices.Contains(controller, e.name) }
	bound, advertised = slices.DeleteFunc(bound, isController), slices.DeleteFunc(advertised, isController)
	if len(bound) == 0 {
		return nil, c.wrong("listeners", "has no listener for clients")
	}
	if err := c.checkEndpoints(bound, advertised); err != nil {
		return nil, err
	}
	list := make([]Listener, len(bound))
	for i, b := range bound {
		list[i] = Listener{Name: b.name, Host: b.host, Port: b.port}
		told := slices.IndexFunc(advertised, func(a endpoint) bool { return a.name == b.name })
		switch {
		case told >= 0:
			list[i].AdvertisedHost, list[i].AdvertisedPort = advertised[told].host, advertised[told].port
		case b.host != "0.0.0.0" && b.host != "::":
			list[i].AdvertisedHost = b.host
		}
	}
	return list, nil
}

// controllerListeners are the names of listeners that Kafka's controller would
// open.
func (c *Config) controllerListeners() []string {
	names := SplitList(strings.ToUpper(c.Get("controller.listener.names")))
	if len(names) == 0 {
		return []string{"CONTROLLER"}
	}
	return names
}

// checkEndpoints finds what cannot be served among the listeners for clients.
func (c *Config) checkEndpoints(bound, advertised []endpoint) error {
	protocols, err := c.protocols()
	if err != nil {
		return err
	}
	for i, b := range bound {
		protocol, known := protocols[b.name]
		switch {
		case !known:
			return c.wrong("listeners", "has listener %s, which listener.security.protocol.map does not name", b.name)
		case protocol != "PLAINTEXT":
			return c.wrong("listeners", "has listener %s with protocol %s; only PLAINTEXT is served", b.name, protocol)
		}
		for _, other := range bound[:i] {
			if other.name == b.name {
				return c.wrong("listeners", "names %s twice", b.name)
			}
			if other.port == b.port && b.port != 0 && overlap(other.host, b.host) {
				return c.wrong("listeners", "has port %d twice", b.port)
			}
		}
	}
	for _, a := range advertised {
		switch {
		case !slices.ContainsFunc(bound, func(b endpoint) bool { return a.name == b.name }):
			return c.wrong("advertised.listeners", "has listener %s, which listeners does not have", a.name)
		case a.host == "0.0.0.0" || a.host == "::":
			return c.wrong("advertised.listeners", "cannot tell clients to connect to %s", a.host)
		}
	}
	return nil
}

// overlap reports whether two hosts may be bound on the same address: only two
// different addresses certainly are not.
func overlap(a, b string) bool {
	x, y := net.ParseIP(a), net.ParseIP(b)
	if x == nil || y == nil || x.IsUnspecified() || y.IsUnspecified() {
		// An address of each family may be bound side by side.
		return x == nil || y == nil || (x.To4() == nil) == (y.To4() == nil)
	}
	return x.Equal(y)
}

// protocols reads listener.security.protocol.map.
func (c *Config) protocols() (map[string]string, error) {
	protocols := make(map[string]string)
	for _, word := range SplitList(c.Get("listener.security.protocol.map")) {
		name, protocol, ok := strings.Cut(word, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if !ok || name == "" || !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, protocol) {
			return nil, c.wrong("listener.security.protocol.map", "must be NAME:PROTOCOL, with commas between several; protocols are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")
		}
		protocols[name] = protocol
	}
	return protocols, nil
}
