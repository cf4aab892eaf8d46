package broker

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/record"
)

// packed is a batch whose records inflate to about size bytes.
func packed(t *testing.T, size int, codec record.Codec) []byte {
	t.Helper()
	var r record.Reader
	var w record.Rewriter
	b, err := w.Recompress(nil, &r, batchOf(strings.Repeat("0", size)), codec)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// However many connections send batches that inflate to much, as many are inflated at
// a time as there are tools; small batches do not wait for the large ones, and nothing
// large is kept.
func TestLargeBatchesAreInflatedInTurn(t *testing.T) {
	for codec := record.CodecGzip; codec <= record.CodecZstd; codec++ {
		b, tr := startTest(t, Options{})
		tr.bulk = true
		box := &b.data.tools
		c := tr.open(0)
		createTopic(t, c, "a", 1)
		bomb := packed(t, 3*inflateSmall, codec)
		if len(bomb) > surelyLarge {
			t.Fatalf("codec %d: a bomb of %d bytes", codec, len(bomb))
		}
		var taken []*inflateTools
		for range cap(box.large) {
			taken = append(taken, <-box.large)
		}
		answers := make(chan int16)
		for range 3 {
			attacker := tr.open(0)
			go func() { answers <- put(t, attacker, "a", 0, bomb).ErrorCode }()
		}
		for range 20 {
			if p := put(t, c, "a", 0, packed(t, 10_000, codec)); p.ErrorCode != 0 {
				t.Errorf("codec %d: error %d beside large batches", codec, p.ErrorCode)
			}
			if p := put(t, c, "a", 0, batchOf("plain")); p.ErrorCode != 0 {
				t.Errorf("codec %d: error %d beside large batches", codec, p.ErrorCode)
			}
		}
		select {
		case <-answers:
			t.Errorf("codec %d: a large batch was inflated without the tools", codec)
		case <-time.After(10 * time.Millisecond):
		}
		for _, tools := range taken {
			box.large <- tools
		}
		for range 3 {
			if code := <-answers; code != 0 {
				t.Errorf("codec %d: error %d", codec, code)
			}
		}
		if len(box.small) != cap(box.small) || len(box.large) != cap(box.large) {
			t.Errorf("codec %d: tools are missing", codec)
		}
		for range cap(box.large) {
			tools := <-box.large
			if held := tools.reader.Held(); held > inflateSmall {
				t.Errorf("codec %d: %d bytes are kept", codec, held)
			}
			box.large <- tools
		}
	}
}

// A batch that inflates to more than is allowed is refused and gives its tools back.
func TestBatchBeyondInflateMax(t *testing.T) {
	b, tr := startTest(t, Options{Properties: map[string]string{"kcoord.inflate.max.bytes": "5000000"}})
	tr.bulk = true
	c := tr.open(0)
	createTopic(t, c, "a", 1, "compression.type", "gzip")
	for size, want := range map[int]int16{100: 0, 4_990_000: 0, 5_000_000: 87} {
		req := production(-1, "a", 0, packed(t, size, record.CodecZstd))
		resp := ask[*kmsg.ProduceResponse](t, c, at(req, produceByName))
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != want {
			t.Errorf("%d bytes: error %d, want %d", size, code, want)
		}
	}
	if box := &b.data.tools; len(box.small) != cap(box.small) || len(box.large) != cap(box.large) {
		t.Error("tools are missing")
	}
}
