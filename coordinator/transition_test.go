package coordinator

import (
	"strings"
	"testing"
)

// A transition is kept and logged: it has only the beginning of what a client
// gave as its reason, which may be of 32 KiB.
func TestLongReasonIsClipped(t *testing.T) {
	long := strings.Repeat("r", 1<<15-1)
	c := cause{what: memberLeft, member: "m"}.because(&long)
	if text := c.text(); len(text) > 400 || !strings.HasSuffix(text, "client reason: "+long[:256]) {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}
