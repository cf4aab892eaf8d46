package log

import (
	"encoding/binary"
	"hash/crc32"
	"path"
	"slices"
)

// A clean stop writes what a partition knows of its producers the way Apache Kafka
// keeps it, in a file named after the log's end, so that a Kafka started on the
// folder need not read the log for it. kcoord itself reads the log.
//
// The format (integers big-endian): version i16 = 1, CRC-32C u32 of what follows,
// count i32, then for each producer: id i64, epoch i16, last sequence i32, last offset
// i64, offset delta of the last batch i32, timestamp i64, epoch of the transaction
// coordinator i32, first offset of the open transaction i64; -1 for none.
const (
	producerSnapshotVersion = 1
	keptProducerSnapshots   = 2
)

// producerSnapshot is the content of the file, nil if nothing is known of any
// producer.
func (p *Partition) producerSnapshot() []byte {
	s := &p.producers
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.known) == 0 {
		return nil
	}
	return appendProducerSnapshot(nil, s.mu.known)
}

func appendProducerSnapshot(dst []byte, known map[int64]*producer) []byte {
	ids := make([]int64, 0, len(known))
	for id, k := range known {
		if len(k.batches) > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, producerSnapshotVersion)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(ids)))
	for _, id := range ids {
		k := known[id]
		newest := k.batches[len(k.batches)-1]
		delta := (newest.last - newest.first) & (1<<31 - 1)
		dst = binary.BigEndian.AppendUint64(dst, uint64(id))
		dst = binary.BigEndian.AppendUint16(dst, uint16(k.epoch))
		dst = binary.BigEndian.AppendUint32(dst, uint32(newest.last))
		dst = binary.BigEndian.AppendUint64(dst, uint64(newest.base+int64(delta)))
		dst = binary.BigEndian.AppendUint32(dst, uint32(delta))
		dst = binary.BigEndian.AppendUint64(dst, uint64(k.time))
		dst = append(dst, 0xff, 0xff, 0xff, 0xff)
		dst = append(dst, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	}
	binary.BigEndian.PutUint32(dst[start+2:], crc32.Checksum(dst[start+6:], castagnoli))
	return dst
}

// saveProducers writes the file, synced, and removes all but the newest ones. The
// folder's sync is the caller's. REQUIRES p.disk.
func (p *Partition) saveProducers(content []byte) error {
	s := p.s
	name := segmentName(p.hw.Load(), suffixSnapshot)
	p.disk.dirUnsynced, p.disk.dirty = true, true
	if err := writeFileSync(s.fs, path.Join(p.disk.dir, name), content); err != nil {
		return err
	}
	files, err := listSegments(s.fs, p.disk.dir)
	if err != nil {
		return err
	}
	var names []string // ascending
	for _, f := range files.names {
		if f.suffix == suffixSnapshot {
			names = append(names, f.name())
		}
	}
	for len(names) > keptProducerSnapshots {
		if err := removeIfThere(s.fs, path.Join(p.disk.dir, names[0])); err != nil {
			return err
		}
		names = names[1:]
	}
	return nil
}
