package broker

import (
	"runtime"
	"sync"

	"github.com/kcoord/kcoord/log/record"
)

const (
	// inflateSmall is what a batch may inflate to while many are at work. It is above
	// the window that clients' zstd announces, 2 MiB at the usual level.
	inflateSmall = 4 << 20
	// surelyLarge is the size of compressed batches that are not tried as small ones.
	surelyLarge = 1 << 20
	// smallInflaters is how many small batches are inflated at a time, at least.
	smallInflaters = 8
	// largeInflaters bounds the others: each may take kcoord.inflate.max.bytes.
	largeInflaters = 4
)

// plainTools are what checking batches needs that are not compressed.
type plainTools struct {
	reader  record.Reader
	options record.ProduceOptions
}

// inflateTools are what it takes to inflate a batch, and to compress it anew.
type inflateTools struct {
	reader   record.Reader
	rewriter record.Rewriter
	buf      []byte // of a recompressed batch
	large    bool
}

// trim drops what a large batch has left behind.
func (t *inflateTools) trim() {
	t.reader.Trim(inflateSmall)
	if cap(t.buf) > inflateSmall {
		t.buf, t.rewriter = nil, record.Rewriter{} // whose buffers are of that size, too
	}
}

// toolbox keeps tools between requests. Those to inflate with are all there are: a
// few bytes of a compressed batch can stand for a thousand times as many, and who has
// no tools waits with nothing but the frame.
type toolbox struct {
	plain sync.Pool
	// Invariant: the tools in small and large and those at work are as many as init put
	// in. Those in large are as few as the processors and the memory allow, so that
	// loops keep running.
	small, large chan *inflateTools
}

// init makes the tools; memory is what all large batches together may take.
func (t *toolbox) init(memory, inflateMax int64) {
	processors := runtime.GOMAXPROCS(0)
	t.small = make(chan *inflateTools, max(smallInflaters, 2*processors))
	for range cap(t.small) {
		t.small <- &inflateTools{}
	}
	t.large = make(chan *inflateTools, max(1, min(largeInflaters, processors-1, int(memory/max(1, inflateMax)))))
	for range cap(t.large) {
		t.large <- &inflateTools{large: true}
	}
}

func (t *toolbox) get() *plainTools {
	if tools, ok := t.plain.Get().(*plainTools); ok {
		return tools
	}
	return &plainTools{}
}

func (t *toolbox) put(tools *plainTools) { t.plain.Put(tools) }

// check checks one batch as sent. It may wait for tools; they are given back by
// giveTools when the batch is not needed any more.
func (p *producing) check(data []byte, compressionType string) (record.Batch, *record.ProduceError) {
	compressed := record.Compressed(data)
	if codec, named := codecs[compressionType]; !compressed && (!named || codec == record.CodecNone) {
		return p.plain.reader.CheckProduce(data, &p.plain.options)
	}
	box, limit := &p.b.data.tools, p.b.values().InflateMaxBytes
	if len(data) <= surelyLarge {
		p.tools = <-box.small
		p.tools.reader.InflateMax = min(limit, inflateSmall)
		batch, refused := p.tools.reader.CheckProduce(data, &p.plain.options)
		if refused == nil || !refused.TooLarge || limit <= inflateSmall {
			return batch, refused
		}
		p.giveTools()
	}
	p.tools = <-box.large
	p.tools.reader.InflateMax = limit
	return p.tools.reader.CheckProduce(data, &p.plain.options)
}

func (p *producing) giveTools() {
	t := p.tools
	if t == nil {
		return
	}
	p.tools = nil
	t.trim()
	if t.large {
		p.b.data.tools.large <- t
	} else {
		p.b.data.tools.small <- t
	}
}

// codecs are the values of compression.type that name one.
var codecs = map[string]record.Codec{
	"uncompressed": record.CodecNone, "gzip": record.CodecGzip, "snappy": record.CodecSnappy,
	"lz4": record.CodecLZ4, "zstd": record.CodecZstd,
}

// compress makes the batch's compression what the topic asks for; "producer"
// asks for nothing.
func (p *producing) compress(batch *record.Batch, compressionType string) int16 {
	codec, named := codecs[compressionType]
	if !named || codec == batch.Codec() {
		return 0
	}
	buf, err := p.tools.rewriter.Recompress(p.tools.buf[:0], &p.tools.reader, *batch, codec)
	if err != nil {
		return record.CodeCorruptMessage
	}
	p.tools.buf, *batch = buf, buf
	return 0
}
