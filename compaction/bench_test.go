package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// BenchmarkRound cleans a log of commits of which one in ten is live.
func BenchmarkRound(b *testing.B) {
	for _, merge := range []bool{false, true} {
		b.Run(fmt.Sprintf("merge=%v", merge), func(b *testing.B) {
			var bytes int64
			for range b.N {
				b.StopTimer()
				r := newRig(b, vfs.NewMem())
				r.config.SegmentBytes = 100 << 20
				r.open()
				value := strings.Repeat("v", 24)
				for i := range 2000 {
					var batch []kv
					for k := range 50 {
						batch = append(batch, kv{fmt.Sprintf("group-%d topic-%d", (i*50+k)%10_000, k), value})
					}
					_, err := r.p.AppendRecords(r.wall(), toRecords(batch))
					must(b, err)
				}
				must(b, r.flush())
				must(b, r.roll())
				b.StartTimer()
				got := r.compact(merge)
				bytes += got.BytesBefore
				if got.RecordsBefore != 100_000 || got.RecordsAfter != 10_000 {
					b.Fatalf("%+v", got)
				}
			}
			b.SetBytes(bytes / int64(b.N))
		})
	}
}

func BenchmarkOffsetMap(b *testing.B) {
	m := newOffsetMap(64<<20, DefaultLoadFactor)
	var keys [][]byte
	for i := range 100_000 {
		keys = append(keys, fmt.Appendf(nil, "a group with a name/a topic with a name/%d", i))
	}
	b.ResetTimer()
	for i := range b.N {
		m.put(m.hash(keys[i%len(keys)]), int64(i))
	}
}
