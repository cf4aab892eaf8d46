package vfs

import (
	"bytes"
	"math/rand/v2"
	"path"
	"slices"
)

// sectorSize is what a disk writes whole or not at all.
const sectorSize = 512

// Crashable is a Mem that knows which part of its content a power cut could not
// take away. Until a file is synced each of its sectors may be on disk in any
// version since the last sync, and so may its length; until a directory is
// synced each change of its entries may be on disk or not, in any combination
// (a rename happens as a whole).
type Crashable struct{ *Mem }

// crashState is what a Crashable tracks of directories.
type crashState struct {
	// durable holds each directory's entries on disk.
	durable map[*node]map[string]*node
	// pending are the changes that no directory sync covered yet, in order.
	pending [][]change
}

// NewCrashable returns an empty crashable file system.
func NewCrashable() *Crashable {
	m := NewMem()
	m.crash = &crashState{durable: map[*node]map[string]*node{}}
	return &Crashable{m}
}

// syncDir makes all changes that touch a directory durable.
func (c *crashState) syncDir(dir *node) {
	c.pending = slices.DeleteFunc(c.pending, func(changes []change) bool {
		if !slices.ContainsFunc(changes, func(ch change) bool { return ch.dir == dir }) {
			return false
		}
		applyTo(c.durable, changes)
		return true
	})
}

func applyTo(durable map[*node]map[string]*node, changes []change) {
	for _, ch := range changes {
		entries := durable[ch.dir]
		if entries == nil {
			entries = map[string]*node{}
			durable[ch.dir] = entries
		}
		if ch.node == nil {
			delete(entries, ch.name)
		} else {
			entries[ch.name] = ch.node
		}
	}
}

// unsynced is what is on disk of one file, and what is not yet.
type unsynced struct {
	data blob
	ops  []fileOp
}

// fileOp is a write, or a change of length (data nil).
type fileOp struct {
	off      int64 // write: where. Length: from where on bytes become zero
	data     []byte
	size     int64 // the file's length after it
	zeroUpTo int64 // length: end of the bytes that became zero
}

func (u *unsynced) last() int64 {
	if n := len(u.ops); n > 0 {
		return u.ops[n-1].size
	}
	return u.data.size
}

func (u *unsynced) write(p []byte, off int64) {
	data := zeros[:min(len(p), len(zeros))] // zeroing ahead is most of what is written
	if !bytes.Equal(p, data) {
		data = slices.Clone(p)
	}
	u.ops = append(u.ops, fileOp{off: off, data: data, size: max(u.last(), off+int64(len(p)))})
}

func (u *unsynced) resize(from, to int64) {
	u.ops = append(u.ops, fileOp{off: to, size: to, zeroUpTo: max(from, to)})
}

func (u *unsynced) sync() {
	for _, op := range u.ops {
		if op.data == nil {
			u.data.truncate(op.size)
		} else {
			u.data.writeAt(op.data, op.off)
		}
	}
	u.ops = nil
}

// span returns the bytes that an operation touches.
func (op *fileOp) span() (from, to int64) {
	if op.data == nil {
		return op.off, op.zeroUpTo
	}
	return op.off, op.off + int64(len(op.data))
}

// Thing is something unsynced of which a crash image keeps one version.
type Thing uint8

const (
	// Sector: 512 bytes of a file at Offset. Version 0 is what was synced, i what
	// the i-th unsynced operation on it made of it.
	Sector Thing = iota
	// Length: a file's length; version 0 is the synced one.
	Length
	// Entry: a change of directory entries; version 0 without, 1 with it.
	Entry
)

// Unsynced describes one Thing to a Pick.
type Unsynced struct {
	Thing    Thing
	Path     string // of the file, or the new name of an entry
	Offset   int64
	Versions int // 2 or more
}

// Pick chooses the version of a Thing that a crash leaves, 0..Versions-1.
type Pick func(u Unsynced) int

// KeepNone leaves only what was synced.
func KeepNone(Unsynced) int { return 0 }

// KeepAll leaves everything, as if the machine had stopped just after all was
// written back.
func KeepAll(u Unsynced) int { return u.Versions - 1 }

// Seeded leaves a random part. How much survives is itself random: some images
// keep nearly all, some nearly nothing.
func Seeded(seed uint64) Pick {
	r := rand.New(rand.NewPCG(seed, 0x6b636f6f7264))
	var keep [3]float64 // by Thing
	for i := range keep {
		keep[i] = [...]float64{0.05, 0.5, 0.5, 0.95}[r.IntN(4)]
	}
	return func(u Unsynced) int {
		if r.Float64() >= keep[u.Thing] {
			return 0
		}
		if r.IntN(2) == 0 {
			return u.Versions - 1
		}
		return 1 + r.IntN(u.Versions-1)
	}
}

// Crash returns a new file system with what is on disk if the power fails now.
// pick is asked for every unsynced thing in a fixed order: entries in the order
// of the operations, then files by path, each its length and its sectors. The
// receiver goes on unchanged.
func (c *Crashable) Crash(pick Pick) *Crashable {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := NewCrashable()
	out.now = c.now
	out.capacity.Store(c.capacity.Load())
	durable := map[*node]map[string]*node{}
	for dir, entries := range c.crash.durable {
		copied := make(map[string]*node, len(entries))
		for name, n := range entries {
			copied[name] = n
		}
		durable[dir] = copied
	}
	for _, changes := range c.crash.pending {
		last := changes[len(changes)-1]
		if choose(pick, Unsynced{Thing: Entry, Path: path.Join(last.dir.name, last.name), Versions: 2}) == 1 {
			applyTo(durable, changes)
		}
	}
	out.survive(out.root, durable, c.root, pick, map[*node]*node{c.root: out.root})
	return out
}

// survive fills dir with what is left of the directory from.
func (c *Crashable) survive(dir *node, durable map[*node]map[string]*node, from *node, pick Pick, done map[*node]*node) {
	for _, name := range sortedNames(durable[from]) {
		old := durable[from][name]
		n := done[old]
		if n == nil {
			n = c.newNode(path.Join(dir.name, name), old.dir)
			n.modTime.Store(old.modTime.Load())
			done[old] = n
			if old.dir {
				c.survive(n, durable, old, pick, done)
			} else {
				old.mu.RLock()
				n.data = old.disk.image(n.name, pick)
				old.mu.RUnlock()
				n.disk.data = n.data.clone()
				c.used.Add(n.data.size)
			}
		} else if n.dir {
			continue // a directory that two renames reach exists once
		}
		dir.children[name] = n
		applyTo(c.crash.durable, []change{{dir, name, n}})
	}
}

func choose(pick Pick, u Unsynced) int {
	k := pick(u)
	if k < 0 || k >= u.Versions {
		panic("vfs: Pick chose a version that is not there")
	}
	return k
}

// image is the content of a file after a crash.
func (u *unsynced) image(name string, pick Pick) blob {
	b := u.data.clone()
	if len(u.ops) == 0 {
		return b
	}
	sizes := []int64{u.data.size}
	touched := map[int64][]int{} // sector -> indexes of ops
	for i := range u.ops {
		op := &u.ops[i]
		if op.size != sizes[len(sizes)-1] {
			sizes = append(sizes, op.size)
		}
		from, to := op.span()
		for s := from / sectorSize; s*sectorSize < to; s++ {
			touched[s] = append(touched[s], i)
		}
	}
	size := sizes[0]
	if len(sizes) > 1 {
		size = sizes[choose(pick, Unsynced{Thing: Length, Path: name, Versions: len(sizes)})]
	}
	sectors := make([]int64, 0, len(touched))
	for s := range touched {
		sectors = append(sectors, s)
	}
	slices.Sort(sectors)
	for _, s := range sectors {
		ops := touched[s]
		k := choose(pick, Unsynced{Thing: Sector, Path: name, Offset: s * sectorSize, Versions: len(ops) + 1})
		for _, i := range ops[:k] {
			u.ops[i].applySector(&b, s*sectorSize)
		}
	}
	b.truncate(size)
	return b
}

// applySector does to b what the operation does to one sector.
func (op *fileOp) applySector(b *blob, at int64) {
	from, to := op.span()
	from, to = max(from, at), min(to, at+sectorSize)
	if op.data == nil {
		b.writeAt(make([]byte, to-from), from)
	} else {
		b.writeAt(op.data[from-op.off:to-op.off], from)
	}
}
