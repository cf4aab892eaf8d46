package meta

import "fmt"

// A Change is a decoded metadata record, for tools that show one.
type Change struct {
	Kind       Kind
	Topic      *Topic   // KindTopic
	ID         [16]byte // KindDeleted, KindPartitions
	Partitions int32    // KindPartitions
	Resource   ResourceType
	Name       string // KindConfigs: of the resource
	Configs    []Config
	// NextProducerID: KindProducerIDs, the first id that is not reserved.
	NextProducerID int64
}

// Decode reads a metadata record without applying it. Errors as Apply's.
func Decode(record []byte) (Change, error) {
	if len(record) == 0 {
		return Change{}, fmt.Errorf("%w: no bytes", errMalformed)
	}
	c := Change{Kind: Kind(record[0])}
	r := &reader{b: record[1:]}
	switch c.Kind {
	case KindTopic:
		c.Topic = r.topic()
	case KindDeleted:
		c.ID = r.id()
	case KindPartitions:
		c.ID, c.Partitions = r.id(), r.int32()
	case KindConfigs:
		c.Resource, c.Name, c.Configs = r.resourceType(), r.string(), r.configs()
	case KindProducerIDs:
		c.NextProducerID = r.int64()
	default:
		return c, fmt.Errorf("%w: %d", ErrUnknownKind, c.Kind)
	}
	if !r.done() {
		return c, fmt.Errorf("%w: kind %d, %d bytes", errMalformed, c.Kind, len(record))
	}
	return c, nil
}

func (r *reader) topic() *Topic {
	return &Topic{ID: r.id(), Name: r.string(), Partitions: r.int32(), Created: r.int64(), Configs: r.configs()}
}

func (r *reader) resourceType() ResourceType {
	if b := r.take(1); b != nil {
		return ResourceType(b[0])
	}
	return 0
}
