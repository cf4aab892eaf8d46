package netloop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// limitHandler gives every frame that begins with byte k the limit limits[k].
type limitHandler struct {
	testHandler
	limits map[byte]int
}

func (h *limitHandler) FrameLimit(head [6]byte) int { return h.limits[head[4]] }

func framerConn(limits map[byte]int) *conn {
	s, err := New(Options{Handler: &limitHandler{limits: limits}})
	if err != nil {
		panic(err)
	}
	c := &conn{server: s}
	c.slots.pools = &s.buffers
	return c
}

func raw(length uint32, body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, length), body...)
}

func TestFrameLength(t *testing.T) {
	c := framerConn(map[byte]int{1: 10, 2: 1 << 20, 3: 0, 4: -1, 5: 1<<31 - 1})
	for _, test := range []struct {
		name string
		in   []byte
		size int
		err  error
	}{
		{"nothing", nil, 0, nil},
		{"part of the prefix", []byte{0, 0, 0}, 0, nil},
		{"prefix only", raw(9), 0, nil},
		{"prefix and one byte", raw(9, 1), 0, nil},
		{"empty", raw(0), 0, ErrFrameTooShort},
		{"one under the least", raw(7), 0, ErrFrameTooShort},
		{"the least", raw(8, 1, 0), 12, nil},
		{"negative", raw(1 << 31), 0, ErrFrameTooShort},
		{"minus one", raw(1<<32 - 1), 0, ErrFrameTooShort},
		{"at the limit", raw(10, 1, 0), 14, nil},
		{"one past the limit", raw(11, 1, 0), 0, ErrFrameTooLong},
		{"at a large limit", raw(1<<20, 2, 0), 1<<20 + 4, nil},
		{"one past a large limit", raw(1<<20+1, 2, 0), 0, ErrFrameTooLong},
		{"the longest", raw(1<<31-1, 5, 0), 1<<31 + 3, nil},
		{"refused", raw(8, 3, 0), 0, ErrFrameRefused},
		{"refused by a negative limit", raw(8, 4, 0), 0, ErrFrameRefused},
	} {
		size, err := c.frameSize(test.in)
		if size != test.size || !errors.Is(err, test.err) {
			t.Errorf("%s: %d, %v; want %d, %v", test.name, size, err, test.size, test.err)
		}
	}
}

// framesOf is the model: the whole frames of a stream and the error behind them.
func framesOf(c *conn, in []byte) (frames [][]byte, err error) {
	for {
		size, err := c.frameSize(in)
		if err != nil || size == 0 || len(in) < size {
			return frames, err
		}
		frames = append(frames, in[4:size])
		in = in[size:]
	}
}

// feed gives a stream to the framer in pieces whose lengths cuts tells, keeping at
// some points what is left, as a connection that applies nothing for a while does.
func feed(t *testing.T, c *conn, in []byte, cuts []byte) (frames [][]byte, err error) {
	pools := &c.server.buffers
	for step := 0; len(in) > 0; step++ {
		n, stop := len(in), false
		if step < len(cuts) {
			n = min(n, 1+int(cuts[step]&0x7f)*int(cuts[step]&0x7f))
			stop = cuts[step]&0x80 != 0
		}
		fresh := append([]byte(nil), in[:n]...)
		in = in[n:]
		for !stop || len(in) == 0 {
			before := fresh
			frame, more, ok, err := c.in.next(c, fresh)
			if err != nil {
				return frames, err
			}
			if fresh = more; !ok {
				break
			}
			if step%5 == 0 { // as for the verdict Bulk
				fresh = c.in.undo(frame, before, fresh)
				again, more, ok, err := c.in.next(c, fresh)
				if !ok || err != nil {
					t.Fatalf("the frame that was given back: %v, %v", ok, err)
				}
				frame, fresh = again, more
			}
			frames = append(frames, append([]byte(nil), frame...))
		}
		c.in.keep(pools, fresh)
		for i := range n { // what was read is valid in its pass only
			if i < len(fresh) {
				fresh[i] = 0xaa
			}
		}
		if c.in.at > len(c.in.b) {
			t.Fatalf("%d of %d bytes applied", c.in.at, len(c.in.b))
		}
		c.in.settle(pools)
	}
	return frames, nil
}

func FuzzFramer(f *testing.F) {
	f.Add(append(raw(8, 1, 0, 0, 0, 0, 0, 0, 0), raw(9, 2, 0)...), []byte{1, 2, 3})
	f.Add(append(raw(8, 1, 0, 0, 0, 0, 0, 0, 0), raw(7)...), []byte{0x81, 0x82})
	f.Add(append(raw(600, append([]byte{2}, make([]byte, 599)...)...), raw(8, 3, 0)...), []byte{0x85, 10, 0x90})
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		limits := map[byte]int{0: 10000, 1: 10, 2: 1 << 20}
		want, wantErr := framesOf(framerConn(limits), in)
		got, err := feed(t, framerConn(limits), in, cuts)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if len(got) != len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("frame %d differs", i)
			}
		}
	})
}

func TestFramerWithRandomCuts(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var in []byte
		for range 1 + rnd.IntN(60) {
			body := make([]byte, 8+rnd.IntN([]int{10, 100, 5000, 50000}[rnd.IntN(4)]))
			for i := range body {
				body[i] = byte(rnd.Uint32())
			}
			body[0] = 2
			in = append(in, raw(uint32(len(body)), body...)...)
		}
		cuts := make([]byte, rnd.IntN(300))
		for i := range cuts {
			cuts[i] = byte(rnd.Uint32())
		}
		c := framerConn(map[byte]int{2: 1 << 20})
		want, _ := framesOf(c, in)
		got, err := feed(t, c, in, cuts)
		if err != nil || len(got) != len(want) {
			t.Fatalf("seed %d: %d frames, want %d: %v", seed, len(got), len(want), err)
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("seed %d: frame %d differs", seed, i)
			}
		}
	}
}

// Announcing a long frame costs nothing; the buffer grows with what comes.
func TestKeptInputGrowsWithWhatComes(t *testing.T) {
	c := framerConn(map[byte]int{2: 8 << 20})
	const length = 8 << 20
	piece := append(raw(length, 2), 0)
	came := 0
	for came < 4+length {
		_, fresh, ok, err := c.in.next(c, piece)
		if err != nil {
			t.Fatal(err)
		}
		came += len(piece)
		if ok != (came == 4+length) {
			t.Fatalf("whole %v after %d of %d bytes", ok, came, 4+length)
		}
		c.in.keep(&c.server.buffers, fresh)
		if limit := max(2*firstGrow, 3*came); cap(c.in.b) > limit {
			t.Fatalf("a buffer of %d bytes for %d that came", cap(c.in.b), came)
		}
		piece = make([]byte, min(10000, 4+length-came))
	}
}

func BenchmarkFramer(b *testing.B) {
	c := framerConn(map[byte]int{2: 1 << 20})
	var in []byte
	for range 32 {
		in = append(in, raw(56, append([]byte{2}, make([]byte, 55)...)...)...)
	}
	b.ReportAllocs()
	for b.Loop() {
		fresh := in
		for len(fresh) > 0 {
			_, more, ok, err := c.in.next(c, fresh)
			if !ok || err != nil {
				b.Fatal(err)
			}
			fresh = more
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(32*b.N), "ns/frame")
}
