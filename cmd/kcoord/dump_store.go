package main

import (
	"fmt"
	"strings"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/log/journal"
	"github.com/kcoord/kcoord/log/record"
	"github.com/kcoord/kcoord/log/vfs"
)

// journal shows the entries of a journal file. It returns where the next file goes
// on, nil if that is not known.
func (d *dumper) journal(name string, after *journal.Position) (*journal.Position, error) {
	sum, err := journal.InspectFile(d.fs, name, after, func(e *journal.FileEntry) error {
		kind := "items"
		if e.Kind == journal.Start {
			kind = "start"
		}
		d.line("entry", field{"position", e.At.Offset}, field{"size", e.Length}, field{"sequence", e.At.Sequence},
			field{"kind", kind}, field{"synced_before", e.Synced}, field{"items", len(e.Pieces)})
		for i := range e.Pieces {
			d.piece(&e.Pieces[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.line("end", field{"position", sum.Next.Offset}, field{"entries", sum.Entries}, field{"followed_by", sum.Ending.String()})
	if sum.Entries == 0 {
		return after, nil
	}
	return &sum.Next, nil
}

// piece shows an item of a journal entry.
func (d *dumper) piece(p *journal.Piece) {
	if p.Continued || p.GoesOn {
		d.line("item", field{"topic", d.topicName(log.TopicID(p.Topic))}, field{"partition", p.Partition}, field{"size", len(p.Data)},
			field{"continues", p.Continued}, field{"goes_on", p.GoesOn})
		return
	}
	if p.Kind == journal.Metadata {
		d.learnTopic(p.Data)
		d.metadataRecord("item", p.Data)
		return
	}
	topic := d.topicName(log.TopicID(p.Topic))
	b := record.Batch(p.Data)
	if err := b.Validate(); err != nil {
		d.line("item", field{"topic", topic}, field{"partition", p.Partition}, field{"size", len(p.Data)}, field{"error", err.Error()})
		d.failed = true
		return
	}
	d.batch(topic, b, field{"topic", topic}, field{"partition", p.Partition})
}

// topicName is a topic's name, or its id if the name is not known.
func (d *dumper) topicName(id log.TopicID) string {
	if name, ok := d.topics[id]; ok {
		return name
	}
	return idText(id)
}

// metadata shows the metadata snapshot.
func (d *dumper) metadata(name string) error {
	s, err := log.ReadMetadata(d.fs, name)
	if err != nil {
		return err
	}
	state := "open"
	if s.Clean {
		state = "clean"
	}
	d.line("snapshot", field{"state", state}, field{"replay_file", s.Replay.File}, field{"replay_position", s.Replay.Offset},
		field{"next_sequence", s.Replay.Sequence}, field{"records", len(s.Records)})
	for _, r := range s.Records {
		d.metadataRecord("record", r)
	}
	return nil
}

// metadataRecord shows one metadata record.
func (d *dumper) metadataRecord(kind string, b []byte) {
	fs, err := d.metadataFields(b)
	if err != nil {
		d.failed = true
		fs = append(fs, field{"error", err.Error()})
	}
	d.line(kind, fs...)
}

func (d *dumper) metadataFields(b []byte) (fields, error) {
	r, own, err := log.ParseStoreRecord(b)
	if err != nil {
		return fields{{"metadata", r.Kind}}, err
	}
	if own {
		switch r.Kind {
		case "start":
			return fields{{"metadata", r.Kind}, {"leader_epoch", r.Epoch}, {"durability", r.Durability.String()}, {"version", r.Version}}, nil
		case "log start":
			return fields{{"metadata", r.Kind}, {"topic", d.topicName(r.Topic)}, {"partition", r.Partition}, {"offset", r.Offset}}, nil
		}
		return fields{{"metadata", r.Kind}, {"topic", d.topicName(r.Topic)}, {"partition", r.Partition}, {"offset", r.Offset},
			{"segment", r.Base}, {"position", r.Position}}, nil
	}
	c, err := meta.Decode(b)
	if err != nil {
		return fields{{"metadata", "unknown"}, {"size", len(b)}}, err
	}
	switch c.Kind {
	case meta.KindTopic:
		return fields{{"metadata", "topic"}, {"topic", c.Topic.Name}, {"topic_id", idText(c.Topic.ID)}, {"partitions", c.Topic.Partitions},
			{"created", millis(c.Topic.Created)}, {"configs", configsOf(c.Topic.Configs)}}, nil
	case meta.KindDeleted:
		return fields{{"metadata", "topic deleted"}, {"topic", d.topicName(log.TopicID(c.ID))}, {"topic_id", idText(c.ID)}}, nil
	case meta.KindPartitions:
		return fields{{"metadata", "partitions"}, {"topic", d.topicName(log.TopicID(c.ID))}, {"partitions", c.Partitions}}, nil
	case meta.KindConfigs:
		return fields{{"metadata", "configs"}, {"resource", resourceName(c.Resource)}, {"name", c.Name}, {"configs", configsOf(c.Configs)}}, nil
	}
	return fields{{"metadata", "producer ids"}, {"next", c.NextProducerID}}, nil
}

func resourceName(t meta.ResourceType) string {
	switch t {
	case meta.ResourceTopic:
		return "topic"
	case meta.ResourceBroker:
		return "broker"
	case meta.ResourceGroup:
		return "group"
	}
	return fmt.Sprintf("type %d", t)
}

func configsOf(configs []meta.Config) fields {
	fs := fields{}
	for _, c := range configs {
		fs = append(fs, field{c.Name, c.Value})
	}
	return fs
}

// maxProperties bounds a file of properties.
const maxProperties = 1 << 20

// properties shows a file of lines. The folder's id, which salts the checksums of
// the journal, is not shown.
func (d *dumper) properties(name string, size int64) error {
	if size > maxProperties {
		return fmt.Errorf("%s has %d bytes, at most %d are expected", name, size, maxProperties)
	}
	f, err := d.fs.Open(name, vfs.ReadOnly)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, size)
	n, _ := f.ReadAt(b, 0) // shorter: it was replaced a moment ago
	for line := range strings.Lines(string(b[:n])) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || strings.HasPrefix(line, "folder.id=") {
			continue
		}
		d.line("line", field{"text", line})
	}
	return nil
}
