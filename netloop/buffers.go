package netloop

import (
	"math/bits"
	"sync"
	"unsafe"
)

const (
	minClassBits = 9  // 512 B
	maxClassBits = 21 // 2 MiB
)

// buffers lends byte slices whose capacity is a power of two between 512 B and
// 2 MiB; larger ones come from the allocator and return to it.
type buffers struct {
	// A pool holds pointers to the first byte of arrays of its class's size: a
	// pointer goes into an interface without an allocation, a slice does not.
	pools [maxClassBits - minClassBits + 1]sync.Pool
}

// get returns an empty slice with a capacity of at least n.
func (p *buffers) get(n int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), minClassBits)
	if class > maxClassBits {
		return make([]byte, 0, n)
	}
	if first, ok := p.pools[class-minClassBits].Get().(*byte); ok {
		return unsafe.Slice(first, 1<<class)[:0]
	}
	return make([]byte, 0, 1<<class)
}

// put takes b back if it is of a class; the caller must not use it any more.
func (p *buffers) put(b []byte) {
	n := cap(b)
	class := bits.Len(uint(n)) - 1
	if n == 0 || n != 1<<class || class < minClassBits || class > maxClassBits {
		return
	}
	p.pools[class-minClassBits].Put(unsafe.SliceData(b[:n]))
}

// grow returns a slice with b's bytes and room for n in all; b is given back.
func (p *buffers) grow(b []byte, n int) []byte {
	if n <= cap(b) {
		return b
	}
	bigger := append(p.get(n), b...)
	p.put(b)
	return bigger
}
