package broker

import (
	"fmt"

	"github.com/kcoord/kcoord/internal/meta"
)

// Problems tells in lines what is not served: groups that are loading or whose
// partition is damaged, writes that are refused for want of space. None: the broker
// is ready for everything.
func (b *Broker) Problems() []string {
	if err := b.Err(); err != nil {
		return []string{err.Error()}
	}
	if !b.Ready() {
		return []string{"loading"}
	}
	var problems []string
	for _, sh := range b.allShards() {
		if sh.failed.Load() {
			problems = append(problems, fmt.Sprintf("groups of partition %d of %s are not served", sh.index, offsetsTopic))
		} else if sh.partition.Err() != nil {
			problems = append(problems, fmt.Sprintf("partition %d of %s cannot be written", sh.index, offsetsTopic))
		}
	}
	if why := b.store.Refusing(); why != "" {
		problems = append(problems, "no space ("+why+"): writes are refused")
	}
	return problems
}

// groupsFailed reports whether t is the offsets topic and the groups of its partition
// i could not be loaded.
func (b *Broker) groupsFailed(t *meta.Topic, i int) bool {
	if t.Name != offsetsTopic {
		return false
	}
	all := b.allShards()
	return i < len(all) && all[i].failed.Load()
}

// tellNotServed warns, once per partition and minute, that a client asked for a group
// that is not served because its partition is damaged.
func (b *Broker) tellNotServed(sh *shard, group string, r *request) {
	if sh == nil || !sh.failed.Load() {
		return
	}
	if e := b.rarely("groups not served", fmt.Sprint(sh.index), b.logger.Warn); e != nil {
		e.Str("group", group).Str("topic", offsetsTopic).Int32("partition", sh.index).Str("client", r.clientID).Str("peer", r.session.host).
			Msg("a client asks for a group that is not served, its partition is damaged")
	}
}
