package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/kcoord/kcoord/coordinator/records"
	"github.com/kcoord/kcoord/log/record"
)

// groupsTopic is the topic whose partitions the groups are spread over.
const groupsTopic = "__consumer_offsets"

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// batch shows a batch that passed Validate and the records in it.
func (d *dumper) batch(topic string, b record.Batch, where ...field) {
	fs := append(fields{{"offset", b.BaseOffset()}, {"last_offset", b.LastOffset()}}, where...)
	fs = append(fs, fields{
		{"size", b.Size()}, {"records", b.Count()}, {"leader_epoch", b.LeaderEpoch()},
		{"timestamp", millis(b.MaxTimestamp())}, {"codec", codecNames[b.Codec()]},
	}...)
	if b.LogAppendTime() {
		fs = append(fs, field{"log_append_time", true})
	}
	if b.HasDeleteHorizon() {
		fs = append(fs, field{"delete_horizon", millis(b.BaseTimestamp())})
	}
	if b.ProducerID() >= 0 {
		fs = append(fs, field{"producer", b.ProducerID()}, field{"producer_epoch", b.ProducerEpoch()}, field{"sequence", b.BaseSequence()})
	}
	if b.Transactional() {
		fs = append(fs, field{"transactional", true})
	}
	if b.Control() {
		fs = append(fs, field{"control", true})
	}
	d.line("batch", fs...)
	if d.batches {
		return
	}
	err := d.reader.Each(b, func(r record.Record) error {
		d.record(topic, b.Control(), r)
		return nil
	})
	if err != nil {
		d.damage(fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err))
	}
}

func (d *dumper) record(topic string, control bool, r record.Record) {
	fs := fields{{"offset", r.Offset}, {"timestamp", millis(r.Timestamp)}}
	switch {
	case control:
		fs = append(fs, marker(r)...)
	case topic == groupsTopic:
		fs = append(fs, groupRecord(r)...)
	default:
		fs = append(fs, bytesField("key", r.Key), bytesField("value", r.Value))
	}
	if r.HeaderCount() > 0 {
		var headers []any
		r.EachHeader(func(key, value []byte) {
			headers = append(headers, fields{bytesField("key", key), bytesField("value", value)})
		})
		fs = append(fs, field{"headers", headers})
	}
	d.line("record", fs...)
}

// marker decodes a control record.
func marker(r record.Record) fields {
	kind, err := record.ControlKey(r.Key)
	if err != nil {
		return fields{bytesField("key", r.Key), bytesField("value", r.Value), {"error", err.Error()}}
	}
	names := map[record.ControlType]string{record.ControlAbort: "abort", record.ControlCommit: "commit"}
	name, ok := names[kind]
	if !ok {
		return fields{{"control", int16(kind)}, bytesField("value", r.Value)}
	}
	epoch, err := record.EndTransaction(r.Value)
	if err != nil {
		return fields{{"control", name}, bytesField("value", r.Value), {"error", err.Error()}}
	}
	return fields{{"control", name}, {"coordinator_epoch", epoch}}
}

// groupRecord decodes a record of the offsets topic. What cannot be decoded is
// shown as bytes.
func groupRecord(r record.Record) fields {
	raw := func(err error) fields {
		fs := fields{bytesField("key", r.Key), bytesField("value", r.Value)}
		if err != nil {
			fs = append(fs, field{"error", err.Error()})
		}
		return fs
	}
	key, err := records.DecodeKey(r.Key)
	if err != nil || !key.Type.Known() {
		return raw(err)
	}
	fs := fields{{"record", typeName(key.Type)}, {"group", key.Group}}
	switch key.Type {
	case records.OffsetCommit, records.OffsetCommitV0:
		fs = append(fs, field{"topic", key.Name}, field{"partition", key.Partition})
	case records.ConsumerGroupRegularExpression:
		fs = append(fs, field{"regex", key.Name})
	default:
		if key.Name != "" {
			fs = append(fs, field{"member", key.Name})
		}
	}
	if r.Value == nil {
		return append(fs, field{"value", nil})
	}
	value, err := groupValue(key.Type, r.Value)
	if err != nil {
		return append(fs, bytesField("value", r.Value), field{"error", err.Error()})
	}
	if value == nil {
		return append(fs, bytesField("value", r.Value))
	}
	return append(fs, field{"value", value})
}

var typeNames = map[records.Type]string{
	records.OffsetCommitV0:                       "OffsetCommit",
	records.OffsetCommit:                         "OffsetCommit",
	records.GroupMetadata:                        "GroupMetadata",
	records.ConsumerGroupMetadata:                "ConsumerGroupMetadata",
	records.ConsumerGroupPartitionMetadata:       "ConsumerGroupPartitionMetadata",
	records.ConsumerGroupMemberMetadata:          "ConsumerGroupMemberMetadata",
	records.ConsumerGroupTargetMetadata:          "ConsumerGroupTargetAssignmentMetadata",
	records.ConsumerGroupTargetMember:            "ConsumerGroupTargetAssignmentMember",
	records.ConsumerGroupCurrentMemberAssignment: "ConsumerGroupCurrentMemberAssignment",
	records.ConsumerGroupRegularExpression:       "ConsumerGroupRegularExpression",
}

func typeName(t records.Type) any {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return int16(t)
}

// groupValue decodes a value; nil without an error: its type is shown as bytes.
func groupValue(t records.Type, b []byte) (any, error) {
	switch t {
	case records.OffsetCommit, records.OffsetCommitV0:
		v, err := records.DecodeOffsetCommitValue(b)
		return offsetFields(&v), err
	case records.GroupMetadata:
		v, err := records.DecodeGroupMetadataValue(b)
		return groupFields(&v), err
	case records.ConsumerGroupMetadata:
		var v records.ConsumerGroupMetadataValue
		err := v.Decode(b)
		return fields{{"epoch", v.Epoch}, {"metadata_hash", v.MetadataHash}}, err
	case records.ConsumerGroupMemberMetadata:
		var v records.ConsumerGroupMemberMetadataValue
		err := v.Decode(b)
		return memberFields(&v), err
	case records.ConsumerGroupTargetMetadata:
		var v records.ConsumerGroupTargetMetadataValue
		err := v.Decode(b)
		return fields{{"assignment_epoch", v.AssignmentEpoch}, {"timestamp", millis(v.AssignmentTimestamp)}}, err
	case records.ConsumerGroupTargetMember:
		var v records.ConsumerGroupTargetMemberValue
		err := v.Decode(b)
		return fields{{"partitions", partitionsOf(v.TopicPartitions)}}, err
	case records.ConsumerGroupCurrentMemberAssignment:
		var v records.ConsumerGroupCurrentMemberAssignmentValue
		err := v.Decode(b)
		return fields{
			{"epoch", v.MemberEpoch}, {"previous_epoch", v.PreviousMemberEpoch}, {"state", v.State},
			{"assigned", partitionsOf(v.AssignedPartitions)}, {"revoking", partitionsOf(v.PartitionsPendingRevocation)},
		}, err
	case records.ConsumerGroupRegularExpression:
		var v records.ConsumerGroupRegularExpressionValue
		err := v.Decode(b)
		return fields{{"topics", list(v.Topics)}, {"version", v.Version}, {"timestamp", millis(v.Timestamp)}}, err
	}
	return nil, nil
}

func offsetFields(v *records.OffsetCommitValue) fields {
	fs := fields{
		{"offset", v.Offset}, {"leader_epoch", v.LeaderEpoch}, {"metadata", v.Metadata},
		{"committed", millis(v.CommitTimestamp)},
	}
	if v.ExpireTimestamp != records.NoTimestamp {
		fs = append(fs, field{"expires", millis(v.ExpireTimestamp)})
	}
	if v.TopicID != ([16]byte{}) {
		fs = append(fs, field{"topic_id", idText(v.TopicID)})
	}
	return fs
}

func groupFields(v *records.GroupMetadataValue) fields {
	members := make([]any, len(v.Members))
	for i := range v.Members {
		m := &v.Members[i]
		members[i] = fields{
			{"member", m.MemberID}, {"instance", optional(m.GroupInstanceID)}, {"client", m.ClientID}, {"host", m.ClientHost},
			{"rebalance_timeout_ms", m.RebalanceTimeout}, {"session_timeout_ms", m.SessionTimeout},
			{"subscription_hex", hex.EncodeToString(m.Subscription)}, {"assignment_hex", hex.EncodeToString(m.Assignment)},
		}
	}
	return fields{
		{"protocol_type", v.ProtocolType}, {"generation", v.Generation}, {"protocol", optional(v.Protocol)},
		{"leader", optional(v.Leader)}, {"state_since", millis(v.CurrentStateTimestamp)}, {"members", members},
	}
}

func memberFields(v *records.ConsumerGroupMemberMetadataValue) fields {
	fs := fields{
		{"instance", optional(v.InstanceID)}, {"rack", optional(v.RackID)}, {"client", v.ClientID}, {"host", v.ClientHost},
		{"topics", list(v.SubscribedTopicNames)}, {"regex", optional(v.SubscribedTopicRegex)},
		{"rebalance_timeout_ms", v.RebalanceTimeout}, {"assignor", optional(v.ServerAssignor)},
	}
	if v.Classic != nil {
		var protocols []any
		for _, p := range v.Classic.SupportedProtocols {
			protocols = append(protocols, fields{{"name", p.Name}, {"metadata_hex", hex.EncodeToString(p.Metadata)}})
		}
		fs = append(fs, field{"classic", fields{{"session_timeout_ms", v.Classic.SessionTimeout}, {"protocols", protocols}}})
	}
	return fs
}

func partitionsOf(topics []records.TopicPartitions) []any {
	out := make([]any, len(topics))
	for i, t := range topics {
		out[i] = fields{{"topic_id", idText(t.TopicID)}, {"partitions", list(t.Partitions)}}
	}
	return out
}

// idText is Kafka's form of a topic id.
func idText(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
