package coordinator

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestSubscription reads subscriptions as Apache Kafka does: as version 0,
// whatever version they name.
func TestSubscription(t *testing.T) {
	for _, tt := range []struct {
		name, bytes string
		topics      string
		ok          bool
	}{
		{"no topics, no user data", "\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", "", true},
		{"two topics, user data", "\x00\x00\x00\x00\x00\x02\x00\x01a\x00\x01b\x00\x00\x00\x01u", "a b", true},
		{"a later version with more behind", "\x00\x09\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xffmore", "a", true},
		{"nothing", "", "", false},
		{"half a version", "\x00", "", false},
		{"a version below zero", "\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff", "", false},
		{"fewer topics than announced", "\x00\x00\x00\x00\x00\x02\x00\x01a", "", false},
		{"a null list", "\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", "", false},
		{"a null topic", "\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff", "", false},
		{"no user data field", "\x00\x00\x00\x00\x00\x01\x00\x01a", "", false},
		{"user data cut short", "\x00\x00\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x02u", "", false},
		{"user data of a length below null", "\x00\x00\x00\x00\x00\x00\xff\xff\xff\xfe", "", false},
	} {
		topics := map[string]struct{}{}
		ok := subscription([]byte(tt.bytes), topics)
		got := strings.Join(slices.Sorted(maps.Keys(topics)), " ")
		if ok != tt.ok || ok && got != tt.topics {
			t.Errorf("%s: %v %q, want %v %q", tt.name, ok, got, tt.ok, tt.topics)
		}
	}
}
