package log

import (
	"errors"
	"path"
	"testing"
	"time"

	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// Whoever meets a damaged batch in a closed segment tells of it, and where it ends if
// that can be seen. The partition is not closed. What lies below the log start is none
// any more.
func TestDamageIsToldOf(t *testing.T) {
	read := func(r *rig, p *Partition) error { _, err := p.Read(2, 1<<20, true, nil); return err }
	const lastOfFirst = 14 // the end of the first segment
	load := func(r *rig, p *Partition) error { return p.Load(func(record.Batch) error { return nil }) }
	for what, w := range map[string]struct {
		at    int64 // byte of the second batch
		use   func(r *rig, p *Partition) error
		quiet bool // told of by whoever called
		fine  bool // goes on all the same
		end   int64
	}{
		"read a record":  {at: record.HeaderSize + 3, use: read, end: 4},
		"read a length":  {at: 8, use: read, end: lastOfFirst},
		"load":           {at: record.HeaderSize + 3, use: load, quiet: true, end: 4},
		"time":           {at: record.HeaderSize + 3, use: func(r *rig, p *Partition) error { _, _, _, err := p.OffsetForTimestamp(testTime + 5); return err }, end: 4},
		"time, a length": {at: 8, use: func(r *rig, p *Partition) error { _, _, _, err := p.OffsetForTimestamp(testTime + 5); return err }, end: lastOfFirst},
		"producers":      {at: 8, use: func(r *rig, p *Partition) error { _, _, err := p.AppendBatch(produced(1, 0, 0, 1)); return err }, end: lastOfFirst},
		"max timestamp":  {at: 8, use: func(r *rig, p *Partition) error { _, _, _, err := p.MaxTimestamp(); return err }, end: lastOfFirst},
		"cleaning":       {at: 8, use: func(r *rig, p *Partition) error { _, err := p.BeginCleaning(); return err }, end: lastOfFirst},
		"retention":      {at: 8, use: func(r *rig, p *Partition) error { return p.retain(true) }, fine: true, end: lastOfFirst},
	} {
		t.Run(what, func(t *testing.T) {
			fs := vfs.NewMem()
			r := newRig(t, fs)
			var told []*CorruptError
			r.options = func(o *Options) {
				o.Events.Damaged = func(topic string, partition int32, damage *CorruptError) {
					if topic != "short" || partition != 0 {
						t.Errorf("damage in %s-%d", topic, partition)
					}
					told = append(told, damage)
				}
			}
			r.open()
			r.meta(topicRecord(3, "short", 1, 3))
			p := r.partition(3, 0)
			for range 40 {
				r.produce(p, 2)
				r.now += 10 * time.Millisecond
			}
			r.flush()
			r.write()
			name := path.Join(p.disk.dir, segmentName(0, suffixLog))
			b, err := p.Read(0, 1, true, nil)
			if err != nil || record.Batch(b).NextOffset() != 2 {
				t.Fatal(err)
			}
			if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
			content, err := readFile(fs, name, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			content[int64(len(b))+w.at] ^= 0xff
			put(t, fs, name, content)
			r.open()
			p = r.partition(3, 0)
			if p.Damage() != nil || p.Err() != nil {
				t.Fatalf("after the start: %v, %v", p.Damage(), p.Err())
			}
			for range 2 {
				if err := w.use(r, p); !w.fine && !errors.Is(err, ErrDamaged) || w.fine && err != nil {
					t.Errorf("error %v", err)
				}
			}
			d := p.Damage()
			if d == nil || d.Path != name || d.Position != int64(len(b)) || d.Offset != 2 || d.End != w.end {
				t.Fatalf("damage %+v", d)
			}
			if (len(told) == 0) != w.quiet {
				t.Errorf("told of %v", told)
			}
			r.produce(p, 1)
			p.logStart.Store(w.end)
			if d := p.Damage(); d != nil || p.Err() != nil {
				t.Errorf("below the log start: %v, %v", d, p.Err())
			}
		})
	}
}
