package history

import (
	"strings"
	"testing"
	"time"
)

// TestCheck judges small histories that are easy to judge by hand.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  func(h *History)
		bad  bool
	}{
		{"nothing", func(*History) {}, false},
		{"read what was written", func(h *History) {
			h.Commit(0, "a", 1, 1, 2, Done)
			h.Fetch(1, "a", 1, 3, 4)
		}, false},
		{"lost", func(h *History) {
			h.Commit(0, "a", 1, 1, 2, Done)
			h.Fetch(1, "a", None, 3, 4)
		}, true},
		{"invented", func(h *History) { h.Fetch(0, "a", 7, 1, 2) }, true},
		{"refused and there", func(h *History) {
			h.Commit(0, "a", 1, 1, 2, Refused)
			h.Fetch(1, "a", 1, 3, 4)
		}, true},
		{"unknown and there, late", func(h *History) {
			h.Commit(0, "a", 1, 1, 2, Unknown)
			h.Commit(1, "a", 2, 3, 4, Done)
			h.Fetch(1, "a", 2, 5, 6)
			h.Fetch(1, "a", 1, 7, 8)
		}, false},
		{"unknown and gone again", func(h *History) {
			h.Commit(0, "a", 1, 1, 2, Unknown)
			h.Fetch(1, "a", 1, 3, 4)
			h.Fetch(1, "a", None, 5, 6)
		}, true},
		{"two offsets", func(h *History) {
			h.Commit(0, "a", 1, 1, 2, Done)
			h.Fetch(1, "b", None, 3, 4)
		}, false},
		{"deleted", func(h *History) {
			h.Commit(0, "a", 1, 1, 2, Done)
			h.Commit(0, "a", None, 3, 4, Done)
			h.Fetch(1, "a", 1, 5, 6)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h History
			c.ops(&h)
			err := h.Check(10 * time.Second)
			if (err != nil) != c.bad || (err != nil && !strings.Contains(err.Error(), "not linearizable")) {
				t.Errorf("judged %v", err)
			}
		})
	}
}
