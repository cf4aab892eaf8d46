//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

func loopTransports() []transport {
	return []transport{{name: "loop"}, {name: "moving", moving: true}}
}
