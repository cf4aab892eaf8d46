//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package netloop

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"github.com/panjf2000/gnet/v2"
)

// bare is the least a server of length-prefixed frames can do on the library: it
// answers each whole frame and writes once per pass.
type bare struct {
	gnet.BuiltinEventEngine
	answer []byte
}

type bareConn struct{ kept, out []byte }

func (h *bare) OnTraffic(gc gnet.Conn) gnet.Action {
	c := gc.Context().(*bareConn)
	in, _ := gc.Next(-1)
	if len(c.kept) > 0 {
		c.kept = append(c.kept, in...)
		in = c.kept
	}
	c.out = c.out[:0]
	for len(in) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(in))
		if len(in) < n {
			break
		}
		in = in[n:]
		c.out = append(c.out, h.answer...)
	}
	c.kept = append(c.kept[:0], in...)
	if _, err := gc.Write(c.out); err != nil {
		return gnet.Close
	}
	return gnet.None
}

func bareEcho(b *testing.B) string {
	h := &bare{answer: newEchoHandler().answer}
	client, err := gnet.NewClient(h, gnet.WithNumEventLoop(defaultLoops()), gnet.WithLogger(libraryLog{}), gnet.WithTCPNoDelay(gnet.TCPDelay))
	if err != nil {
		b.Fatal(err)
	}
	if err := client.Start(); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := client.EnrollContext(c, &bareConn{}); err != nil {
				b.Error(err)
			}
		}
	}()
	b.Cleanup(func() {
		l.Close()
		wg.Wait()
		if err := client.Stop(); err != nil {
			b.Error(err)
		}
	})
	return l.Addr().String()
}
