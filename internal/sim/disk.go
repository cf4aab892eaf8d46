package sim

import (
	"strings"
	"syscall"
	"time"

	"github.com/kcoord/kcoord/log/vfs"
)

// A machine is the computer: its disk outlives the process.
type machine struct {
	world *World
	clock *clock
	disk  *vfs.Crashable
	// fuse is how many more file operations until the power fails, and syncFuse how
	// many more syncs until one fails; negative: it does not.
	fuse, syncFuse int
	// failed: a sync has failed in this process. full: the disk has no space.
	failed, full bool
	fullAt       time.Duration // when it got space again; 0: it was never full
}

// A slowDisk lets others work while a sync of the journal goes on. (A hook could
// not: it is called under a lock.)
type slowDisk struct {
	vfs.FS
	machine *machine
}

func (d *slowDisk) Open(name string, flag vfs.OpenFlag) (vfs.File, error) {
	f, err := d.FS.Open(name, flag)
	if err != nil || !strings.Contains(name, "journal") {
		return f, err
	}
	return &slowFile{File: f, machine: d.machine}, nil
}

type slowFile struct {
	vfs.File
	machine *machine
	entry   bool // what was written last is an entry, not a header
}

func (f *slowFile) WriteAt(p []byte, off int64) (int, error) {
	f.entry = off > 0
	return f.File.WriteAt(p, off)
}

func (f *slowFile) Datasync() error {
	if f.entry {
		f.machine.world.duringSync()
	}
	return f.File.Datasync()
}

// diskSize is far more than any run writes.
const diskSize = int64(1) << 40

// powerCut is what a file operation panics with when the fuse has burnt down.
type powerCut struct{}

// files is the disk as the process sees it.
func (m *machine) files() vfs.FS {
	var fs vfs.FS = &slowDisk{&vfs.Hooked{FS: m.disk, Before: m.before}, m}
	if f := m.world.options.Sabotage.Files; f != nil {
		fs = f(fs)
	}
	return fs
}

// before is called before each file operation and may make it fail.
func (m *machine) before(op vfs.Op) *vfs.Failure {
	if m.fuse == 0 {
		panic(powerCut{})
	}
	if m.fuse > 0 {
		m.fuse--
	}
	if !op.IsSync() {
		return nil
	}
	// After a sync has failed the operating system forgets what was not written.
	if m.syncFuse == 0 {
		m.syncFuse, m.failed = -1, true
		m.world.report.FailedSyncs++
		m.world.trace("%s fails", op)
		return &vfs.Failure{Err: syscall.EIO, Lose: true, Revert: m.world.chance(2)}
	}
	if m.syncFuse > 0 {
		m.syncFuse--
	}
	return nil
}

// duringSync lets others work while the flusher waits for the disk.
func (w *World) duringSync() {
	p := w.process
	if w.calm || p == nil || !p.opened {
		return
	}
	flusher, preparer := p.loop("flusher"), p.loop("preparer")
	if !flusher.running || preparer.running || !w.chance(4) {
		return
	}
	w.report.SlowSyncs++
	events, end := 1+w.random.IntN(20), never
	if w.chance(20) { // the disk hangs
		events, end = 500, w.machine.clock.mono+w.upTo(12*time.Second)
	}
	// The preparer may be about the same file: the flusher would wait for it.
	preparer.running = true
	for i := 0; i < events && w.process == p && w.machine.clock.mono < end; i++ {
		w.event()
	}
	preparer.running = false
	if w.process != p {
		panic(powerCut{})
	}
}

// relief is how long after a full disk the broker may still refuse writes: it
// looks once a second, and the one who looks may be stalled.
const relief = 10 * time.Second

// troubled reports whether the disk has failed in this process, or is or was
// full just now: then some of what is asked for cannot be had.
func (m *machine) troubled() bool {
	return m.failed || m.full || m.clock.mono < m.fullAt+relief
}

// cut makes the disk what a power failure, or only the death of the process,
// leaves of it.
func (m *machine) cut() {
	m.fuse, m.syncFuse = -1, -1
	pick := vfs.KeepAll // the process was killed, the operating system lives
	switch m.world.random.IntN(3) {
	case 0:
		pick = vfs.Seeded(m.world.random.Uint64())
	case 1:
		pick = vfs.KeepNone
	}
	m.disk = m.disk.Crash(pick)
}

// fillUp gives the disk no more space than it uses, or a little more.
func (m *machine) fillUp(room int64) {
	m.disk.SetCapacity(diskSize)
	free, err := m.disk.Free("/")
	if err != nil {
		panic(err)
	}
	m.disk.SetCapacity(diskSize - free + room)
	m.full = true
}

// letGo gives the disk space again.
func (m *machine) letGo() {
	m.disk.SetCapacity(diskSize)
	if m.full {
		m.full, m.fullAt = false, m.clock.mono
	}
}

func (m *machine) fill(b []byte) {
	for i := range b {
		b[i] = byte(m.world.random.Uint32())
	}
}
