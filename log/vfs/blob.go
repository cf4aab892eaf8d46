package vfs

import (
	"bytes"
	"io"
)

// pageSize is the unit in which a blob takes memory.
const pageSize = 32 << 10

// blob is sparse file content: pages that were never written, or only with
// zeros, take no memory. Bytes at and beyond size are zero in every page.
type blob struct {
	pages []*[pageSize]byte // nil: zeros
	size  int64
}

func (b *blob) readAt(p []byte, off int64) (int, error) {
	if off >= b.size {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	want := len(p)
	p = p[:min(int64(len(p)), b.size-off)]
	for done := 0; done < len(p); {
		i, at := int((off+int64(done))/pageSize), int((off+int64(done))%pageSize)
		n := min(len(p)-done, pageSize-at)
		if i < len(b.pages) && b.pages[i] != nil {
			copy(p[done:done+n], b.pages[i][at:])
		} else {
			clear(p[done : done+n])
		}
		done += n
	}
	if len(p) < want {
		return len(p), io.EOF
	}
	return len(p), nil
}

func (b *blob) writeAt(p []byte, off int64) {
	b.size = max(b.size, off+int64(len(p)))
	for len(p) > 0 {
		i, at := int(off/pageSize), int(off%pageSize)
		n := min(len(p), pageSize-at)
		for i >= len(b.pages) {
			b.pages = append(b.pages, nil)
		}
		if b.pages[i] == nil && !allZero(p[:n]) {
			b.pages[i] = new([pageSize]byte)
		}
		if b.pages[i] != nil {
			copy(b.pages[i][at:], p[:n])
		}
		p, off = p[n:], off+int64(n)
	}
}

func (b *blob) truncate(size int64) {
	if size < b.size {
		keep := int((size + pageSize - 1) / pageSize)
		if keep < len(b.pages) {
			clear(b.pages[keep:])
			b.pages = b.pages[:keep]
		}
		if at := int(size % pageSize); at != 0 && keep <= len(b.pages) && b.pages[keep-1] != nil {
			clear(b.pages[keep-1][at:])
		}
	}
	b.size = size
}

func (b *blob) clone() blob {
	c := blob{pages: make([]*[pageSize]byte, len(b.pages)), size: b.size}
	for i, p := range b.pages {
		if p != nil {
			q := *p
			c.pages[i] = &q
		}
	}
	return c
}

// bytes is the memory that the pages take.
func (b *blob) bytes() int64 {
	n := int64(0)
	for _, p := range b.pages {
		if p != nil {
			n += pageSize
		}
	}
	return n
}

// zeros is never written to.
var zeros [256 << 10]byte

func allZero(p []byte) bool {
	for len(p) > len(zeros) {
		if !bytes.Equal(p[:len(zeros)], zeros[:]) {
			return false
		}
		p = p[len(zeros):]
	}
	return bytes.Equal(p, zeros[:len(p)])
}
