package records

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// golden reads testdata/kafka.txt.
func golden(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/kafka.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if out[name], err = hex.DecodeString(digits); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return out
}

func ptr(s string) *string { return &s }

var id = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

const now = 1_700_000_000_000

func TestKeys(t *testing.T) {
	for name, key := range map[string]Key{
		"key1":  {Type: OffsetCommit, Group: "grüp", Name: "t", Partition: 7},
		"key2":  {Type: GroupMetadata, Group: "g"},
		"key3":  {Type: ConsumerGroupMetadata, Group: "g"},
		"key4":  {Type: ConsumerGroupPartitionMetadata, Group: "g"},
		"key5":  {Type: ConsumerGroupMemberMetadata, Group: "g", Name: "m"},
		"key6":  {Type: ConsumerGroupTargetMetadata, Group: "g"},
		"key7":  {Type: ConsumerGroupTargetMember, Group: "g", Name: "m"},
		"key8":  {Type: ConsumerGroupCurrentMemberAssignment, Group: "g", Name: "m"},
		"key10": {Type: ShareGroupMemberMetadata, Group: "g", Name: "m"},
		"key11": {Type: ShareGroupMetadata, Group: "g"},
		"key15": {Type: ShareGroupStatePartitionMetadata, Group: "g"},
		"key16": {Type: ConsumerGroupRegularExpression, Group: "g", Name: "a.*"},
		"key17": {Type: StreamsGroupMetadata, Group: "g"},
		"key23": {Type: StreamsGroupTopology, Group: "g"},
	} {
		want := golden(t)[name]
		if got := AppendKey(nil, &key); !bytes.Equal(got, want) {
			t.Errorf("%s is encoded as %x, want %x", name, got, want)
		}
		if got, err := DecodeKey(want); err != nil || got != key {
			t.Errorf("%s is decoded as %+v, %v", name, got, err)
		}
		for n := range want {
			if _, err := DecodeKey(want[:n]); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s cut to %d bytes: %v", name, n, err)
			}
		}
	}
}

func TestUnknownKeyTypes(t *testing.T) {
	for _, typ := range []Type{9, 18, 24, 99, -1} {
		k, err := DecodeKey([]byte{byte(uint16(typ) >> 8), byte(typ), 1, 2, 3})
		if err != nil || k != (Key{Type: typ}) || typ.Known() {
			t.Errorf("type %d: %+v, %v", typ, k, err)
		}
	}
	for typ := Type(0); typ < 24; typ++ {
		if typ != 9 && typ != 18 && !typ.Known() {
			t.Errorf("type %d is unknown", typ)
		}
	}
}

func TestOffsetCommitValues(t *testing.T) {
	v := OffsetCommitValue{Offset: 5, LeaderEpoch: -1, Metadata: "mé", CommitTimestamp: now, ExpireTimestamp: NoTimestamp}
	v1, v3, v4 := v, v, v
	v1.ExpireTimestamp = now + 1000
	v3.LeaderEpoch = 3
	v4.LeaderEpoch, v4.TopicID = 3, id
	for name, want := range map[string]OffsetCommitValue{
		"offset0": v, "offset1": v1, "offset2": v, "offset3": v3, "offset4": v4,
		"offset4plain": {Offset: 5, LeaderEpoch: -1, CommitTimestamp: 1, ExpireTimestamp: NoTimestamp},
	} {
		b := golden(t)[name]
		got, err := DecodeOffsetCommitValue(b)
		if err != nil || got != want {
			t.Errorf("%s is decoded as %+v, %v", name, got, err)
		}
		if written := AppendOffsetCommitValue(nil, &want); strings.HasPrefix(name, "offset4") || name == "offset1" {
			if !bytes.Equal(written, b) {
				t.Errorf("%s is encoded as %x, want %x", name, written, b)
			}
		}
		cut(t, name, b, func(b []byte) error { _, err := DecodeOffsetCommitValue(b); return err })
	}
	// A commit with its own retention is written as version 1, which has no leader
	// epoch and no topic id.
	v4.ExpireTimestamp = now + 1000
	again, err := DecodeOffsetCommitValue(AppendOffsetCommitValue(nil, &v4))
	if err != nil || again != v4.Written() || again.LeaderEpoch != -1 || again.TopicID != [16]byte{} {
		t.Errorf("%+v is read back as %+v, %v", v4, again, err)
	}
}

func TestGroupMetadataValues(t *testing.T) {
	for version := range 5 {
		name := "group" + string(rune('0'+version))
		want := GroupMetadataValue{
			ProtocolType: "consumer", Generation: 4, Protocol: ptr("range"), Leader: ptr("m1"), CurrentStateTimestamp: NoTimestamp,
			Members: []GroupMetadataMember{
				{MemberID: "m1", ClientID: "c", ClientHost: "/h", RebalanceTimeout: -1, SessionTimeout: 10000, Subscription: []byte{1, 2}, Assignment: []byte{3}},
				{MemberID: "m2", ClientHost: "/h", RebalanceTimeout: -1, SessionTimeout: 6000, Subscription: []byte{}, Assignment: []byte{}},
			},
		}
		if version >= 1 {
			want.Members[0].RebalanceTimeout = 20000
		}
		if version >= 2 {
			want.CurrentStateTimestamp = now
		}
		if version >= 3 {
			want.Members[0].GroupInstanceID = ptr("i")
		}
		b := golden(t)[name]
		got, err := DecodeGroupMetadataValue(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is decoded as %+v, %v", name, got, err)
		}
		if version == 3 && !bytes.Equal(AppendGroupMetadataValue(nil, &want), b) {
			t.Errorf("%s is encoded as %x, want %x", name, AppendGroupMetadataValue(nil, &want), b)
		}
		cut(t, name, b, func(b []byte) error { _, err := DecodeGroupMetadataValue(b); return err })
	}
	empty := GroupMetadataValue{CurrentStateTimestamp: 1}
	if got := AppendGroupMetadataValue(nil, &empty); !bytes.Equal(got, golden(t)["group3empty"]) {
		t.Errorf("an empty group is encoded as %x", got)
	}
}

// cut checks that no truncation of b is taken for a value, that bytes behind it are
// ignored and that a newer version is refused.
func cut(t *testing.T, name string, b []byte, decode func([]byte) error) {
	t.Helper()
	for n := range b {
		if err := decode(b[:n:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s cut to %d bytes: %v", name, n, err)
		}
	}
	if err := decode(append(bytes.Clone(b), 1, 2, 3)); err != nil {
		t.Errorf("%s with bytes behind it: %v", name, err)
	}
	for _, version := range []byte{5, 9, 0xff} {
		c := bytes.Clone(b)
		c[1] = version
		if version == 0xff {
			c[0] = 0xff
		}
		if err := decode(c); !errors.Is(err, ErrVersion) {
			t.Errorf("%s with version %d: %v", name, version, err)
		}
	}
}

type consumerValue interface {
	Append([]byte) []byte
	Decode([]byte) error
}

func TestConsumerGroupValues(t *testing.T) {
	member := ConsumerGroupMemberMetadataValue{
		InstanceID: ptr("i"), ClientID: "c", ClientHost: "/h", SubscribedTopicNames: []string{"a", "b"},
		SubscribedTopicRegex: ptr("x.*"), RebalanceTimeout: 300000, ServerAssignor: ptr("range"),
	}
	classic := member
	classic.Classic = &ClassicMemberMetadata{SessionTimeout: 45000, SupportedProtocols: []ClassicProtocol{{Name: "range", Metadata: []byte{9}}}}
	for name, want := range map[string]consumerValue{
		"cg3":        &ConsumerGroupMetadataValue{Epoch: 7},
		"cg3hash":    &ConsumerGroupMetadataValue{Epoch: 7, MetadataHash: -5},
		"cg5":        &member,
		"cg5classic": &classic,
		"cg6":        &ConsumerGroupTargetMetadataValue{AssignmentEpoch: 8},
		"cg6ts":      &ConsumerGroupTargetMetadataValue{AssignmentEpoch: 8, AssignmentTimestamp: 9},
		"cg7":        &ConsumerGroupTargetMemberValue{TopicPartitions: []TopicPartitions{{TopicID: id, Partitions: []int32{0, 1}}}},
		"cg8": &ConsumerGroupCurrentMemberAssignmentValue{
			MemberEpoch: 3, PreviousMemberEpoch: 2, State: 1,
			AssignedPartitions:          []TopicPartitions{{TopicID: id, Partitions: []int32{0, 1}, AssignmentEpochs: []int32{2, 3}}},
			PartitionsPendingRevocation: []TopicPartitions{{TopicID: id, Partitions: []int32{5}}},
		},
		"cg16": &ConsumerGroupRegularExpressionValue{Topics: []string{"t"}, Version: 3, Timestamp: 4},
	} {
		b := golden(t)[name]
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(consumerValue)
		if err := got.Decode(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is decoded as %+v, %v", name, got, err)
		}
		if name == "cg8" { // Kafka writes a null list of epochs as a tag, here it is left out
			again := new(ConsumerGroupCurrentMemberAssignmentValue)
			if err := again.Decode(want.Append(nil)); err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("%s is read back as %+v, %v", name, again, err)
			}
		} else if e := want.Append(nil); !bytes.Equal(e, b) {
			t.Errorf("%s is encoded as %x, want %x", name, e, b)
		}
		cut(t, name, b, got.Decode)
	}
}

// TestUnknownTags checks that fields of a later release are skipped.
func TestUnknownTags(t *testing.T) {
	b := golden(t)["offset4"]
	n := len(b) - 19
	with := append(bytes.Clone(b[:n]), 2, 0, 16)
	with = append(with, id[:]...)
	with = append(with, 5, 2, 0xaa, 0xbb)
	v, err := DecodeOffsetCommitValue(with)
	if err != nil || v.TopicID != id {
		t.Errorf("with an unknown tag: %+v, %v", v, err)
	}
	for _, bad := range [][]byte{{1, 0, 15}, {1, 0, 17}, {3, 5, 1}, {1, 5, 0x80}, {0xff, 0xff, 0xff, 0xff, 0x7f}} {
		if _, err := DecodeOffsetCommitValue(append(bytes.Clone(b[:n]), bad...)); !errors.Is(err, ErrDamaged) {
			t.Errorf("tag section %x: %v", bad, err)
		}
	}
}

// FuzzDecode checks that no bytes make a decoder panic, and that what is decoded
// is the same after it was encoded.
func FuzzDecode(f *testing.F) {
	for name, b := range golden(f) {
		f.Add(strings.HasPrefix(name, "key"), b)
	}
	f.Fuzz(func(t *testing.T, key bool, b []byte) {
		if key {
			k, err := DecodeKey(b)
			if err != nil || !k.Type.Known() || len(k.Group) > 32767 || len(k.Name) > 32767 {
				return
			}
			if again, err := DecodeKey(AppendKey(nil, &k)); err != nil || again != k {
				t.Fatalf("%+v is read back as %+v, %v", k, again, err)
			}
			return
		}
		if v, err := DecodeOffsetCommitValue(b); err == nil && len(v.Metadata) <= 32767 {
			if again, err := DecodeOffsetCommitValue(AppendOffsetCommitValue(nil, &v)); err != nil || again != v.Written() {
				t.Fatalf("%+v is read back as %+v, %v", v, again, err)
			}
		}
		if v, err := DecodeGroupMetadataValue(b); err == nil {
			e := AppendGroupMetadataValue(nil, &v)
			again, err := DecodeGroupMetadataValue(e)
			if err == nil && !bytes.Equal(AppendGroupMetadataValue(nil, &again), e) {
				t.Fatalf("%+v is read back as %+v", v, again)
			}
		}
		for _, v := range []consumerValue{
			new(ConsumerGroupMetadataValue), new(ConsumerGroupMemberMetadataValue), new(ConsumerGroupTargetMetadataValue),
			new(ConsumerGroupTargetMemberValue), new(ConsumerGroupCurrentMemberAssignmentValue), new(ConsumerGroupRegularExpressionValue),
		} {
			if v.Decode(b) != nil {
				continue
			}
			again := reflect.New(reflect.TypeOf(v).Elem()).Interface().(consumerValue)
			if err := again.Decode(v.Append(nil)); err != nil || !reflect.DeepEqual(again, v) {
				t.Fatalf("%+v is read back as %+v, %v", v, again, err)
			}
		}
	})
}
