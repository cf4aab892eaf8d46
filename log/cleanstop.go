package log

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/kcoord/kcoord/log/journal"
)

// Close makes the clean stop, after the loops were stopped: the last round, all
// partition logs, a clean snapshot, Kafka's checkpoint files and marker. After
// an error the folder is as after a kill, which is safe.
func (s *Store) Close() error {
	s.BeginStop()
	stop := s.cleanStop
	if s.waiting.Load() {
		stop = s.stopWaiting
	}
	err := stop()
	s.abandon()
	return err
}

func (s *Store) cleanStop() error {
	for {
		next, err := s.FlushStep()
		if err != nil {
			return err
		}
		if next > 0 && s.flushPending() {
			return fmt.Errorf("log: clean stop: %w", journal.ErrNoSpace)
		}
		if next != 0 {
			break
		}
	}
	s.check.Lock()
	defer s.check.Unlock()
	if err := s.anyFailed(); err != nil {
		return err
	}
	if err := s.writeMetaProperties(true); err != nil {
		return err
	}
	if err := s.checkpoint(true); err != nil {
		return err
	}
	if err := s.j.Close(); err != nil {
		return err
	}
	s.j = nil
	return s.leaveClean()
}

// loadCleanerFile takes over the cleaner's checkpoints, as far as the file can be
// read: they only save work.
func (s *Store) loadCleanerFile() {
	b, err := readFile(s.fs, s.path(cleanerFile), 16<<20)
	if err != nil {
		return
	}
	lines, err := parseCheckpoint(b, 3)
	if err != nil {
		s.warn("cleaner-checkpoint", err.Error())
		return
	}
	at := map[string]string{}
	for _, l := range lines {
		at[l[0]+"-"+l[1]] = l[2]
	}
	s.EachPartition(func(p *Partition) {
		if offset, err := strconv.ParseInt(at[p.String()], 10, 64); err == nil {
			p.firstDirty.Store(offset)
		}
	})
}

// flushPending reports whether a round could not be written.
func (s *Store) flushPending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.inflight != nil
}

// anyFailed: with a partition that cannot be written the stop cannot be clean.
func (s *Store) anyFailed() error {
	var errs []error
	s.EachPartition(func(p *Partition) {
		if f := p.failed.Load(); f != nil && f.permanent {
			errs = append(errs, f.err)
		}
	})
	return errors.Join(errs...)
}

// writeKafkaFiles writes the checkpoint files that Apache Kafka reads when it is
// started on the folder.
func (s *Store) writeKafkaFiles(points []point, sync bool) error {
	var recovery, high, start, cleaner checkpointFile
	for i := range points {
		pt := &points[i]
		name := pt.p.topic.Load().Name
		recovery.add(name, pt.partition, pt.offset)
		high.add(name, pt.partition, pt.offset)
		if l := pt.p.list(); len(l) > 0 && pt.p.logStart.Load() > l[0].base {
			start.add(name, pt.partition, pt.p.logStart.Load())
		}
		if at := pt.p.CleanerCheckpoint(); at > pt.p.logStart.Load() {
			cleaner.add(name, pt.partition, at)
		}
	}
	for _, f := range []struct {
		name string
		file *checkpointFile
	}{{recoveryPointFile, &recovery}, {highWatermarkFile, &high}, {logStartFile, &start}, {cleanerFile, &cleaner}} {
		if err := replaceFile(s.fs, s.path(f.name), f.file.bytes(), sync); err != nil {
			return err
		}
	}
	if sync {
		return syncDir(s.fs, s.o.Dir)
	}
	return nil
}
