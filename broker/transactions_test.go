package broker

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A transactional producer is refused with an error whose name speaks of
// authorization; the log says what is meant.
func TestTransactionsAreExplained(t *testing.T) {
	var out strings.Builder
	logger := zerolog.New(&out).Level(zerolog.WarnLevel)
	_, tr := startTest(t, Options{Logger: &logger})
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = kmsg.StringPtr("orders-1"), -1, -1
	if resp := ask[*kmsg.InitProducerIDResponse](t, tr.open(0), at(req, 4)); resp.ErrorCode != codeTransactionalIDAuthorization {
		t.Errorf("error code %d", resp.ErrorCode)
	}
	if line := out.String(); !strings.Contains(line, `"transactional_id":"orders-1"`) || !strings.Contains(line, "no transactions in kcoord") {
		t.Errorf("logged: %q", line)
	}
}
