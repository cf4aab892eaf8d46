package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/log/record"
)

const (
	// maxLine is the longest line that the console producer takes.
	maxLine = 1 << 20
	// consoleWait is how long a Fetch of the console consumer waits for records.
	consoleWait = 500 * time.Millisecond
	// The newest versions that name topics instead of giving their ids.
	namedProduce, namedFetch = 12, 12
	// offsetAtEnd and offsetAtStart are the timestamps that ListOffsets knows.
	offsetAtEnd, offsetAtStart = -1, -2
)

// consoleProperties are those of --property that the two tools understand.
func consoleProperties(list repeated) map[string]string {
	set := make(map[string]string)
	for _, assignment := range list {
		name, value, _ := strings.Cut(assignment, "=")
		set[name] = value
	}
	return set
}

// producerTool is kafka-console-producer: each line of standard input becomes a
// record, acknowledged before the next is read. Lines without a key go to the
// partitions in turn, those with one (--property parse.key=true) where Kafka's
// clients send that key.
func producerTool(args []string, _, stderr io.Writer) int {
	f := newToolFlags("kafka-console-producer")
	f.StringVar(&f.bootstrap, "broker-list", "", "the older name of bootstrap-server")
	topic := f.String("topic", "", "the topic")
	var properties repeated
	f.Var(&properties, "property", "parse.key=true, key.separator=:")
	f.Var(&properties, "reader-property", "the same")
	c, code := f.connect(args, stderr)
	if code != nil {
		return *code
	}
	defer c.close()
	if err := produceLines(c, os.Stdin, *topic, consoleProperties(properties)); err != nil {
		fmt.Fprintf(stderr, "kafka-console-producer: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func produceLines(c *client, lines io.Reader, topic string, properties map[string]string) error {
	n, err := c.partitions(topic, true)
	if err != nil {
		return err
	}
	separator := cmp.Or(properties["key.separator"], "\t")
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, maxLine)
	for turn := 0; scanner.Scan(); turn++ {
		key, value := []byte(nil), scanner.Bytes()
		partition := int32(turn) % n
		if properties["parse.key"] == "true" {
			var ok bool
			if key, value, ok = bytes.Cut(value, []byte(separator)); !ok {
				return fmt.Errorf("no key separator %q in the line %q", separator, scanner.Text())
			}
			partition = int32(murmur2(key)&0x7fffffff) % n
		}
		if err := c.produce(topic, partition, key, value); err != nil {
			return err
		}
	}
	return scanner.Err()
}

// partitions asks how many partitions a topic has. With create it is created if the
// broker does that.
func (c *client) partitions(topic string, create bool) (int32, error) {
	if topic == "" {
		return 0, errors.New("--topic is missing")
	}
	for deadline := time.Now().Add(c.timeout); ; time.Sleep(50 * time.Millisecond) {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = create
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		req.Topics = append(req.Topics, t)
		resp, err := c.ask(req)
		if err != nil {
			return 0, err
		}
		answer := resp.(*kmsg.MetadataResponse).Topics[0]
		if answer.ErrorCode == 0 && len(answer.Partitions) > 0 {
			return int32(len(answer.Partitions)), nil
		}
		if !create || time.Now().After(deadline) {
			return 0, topicError("reading", topic, answer.ErrorCode, nil)
		}
	}
}

func (c *client) produce(topic string, partition int32, key, value []byte) error {
	var b record.Builder
	b.Reset(nil, record.Plain(0, -1))
	b.Append(time.Now().UnixMilli(), key, value)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, int32(c.timeout.Milliseconds())
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, b.Close()
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := c.askAtMost(req, namedProduce)
	if err != nil {
		return err
	}
	if got := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 {
		return topicError("producing to", topic, got.ErrorCode, got.ErrorMessage)
	}
	return nil
}

// murmur2 is the hash by which Kafka's clients choose the partition of a key.
func murmur2(data []byte) uint32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	for i := len(data) - 1; i >= 0; i-- {
		h ^= uint32(data[i]) << (8 * i)
	}
	if len(data) > 0 {
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// consumerTool is kafka-console-consumer without a group: it prints the values of
// all partitions, from now on or from the beginning, until it has printed as many
// as it was asked for, nothing came for --timeout-ms, or it is ended.
func consumerTool(args []string, stdout, stderr io.Writer) int {
	f := newToolFlags("kafka-console-consumer")
	topic := f.String("topic", "", "the topic")
	beginning := f.Bool("from-beginning", false, "from the first record there is")
	most := f.Int("max-messages", -1, "stop after so many records")
	idle := f.Int("timeout-ms", -1, "stop when nothing came for so long")
	var properties repeated
	f.Var(&properties, "property", "print.key=true, key.separator=:")
	f.Var(&properties, "formatter-property", "the same")
	c, code := f.connect(args, stderr)
	if code != nil {
		return *code
	}
	defer c.close()
	r := &consoleReader{client: c, topic: *topic, out: stdout, left: *most, idle: time.Duration(*idle) * time.Millisecond, properties: consoleProperties(properties)}
	if err := r.run(*beginning); err != nil {
		fmt.Fprintf(stderr, "kafka-console-consumer: %v\n", err)
		return exitFailed
	}
	fmt.Fprintf(stderr, "Processed a total of %d messages\n", r.printed)
	return exitOK
}

// A consoleReader reads a topic for the console consumer.
type consoleReader struct {
	*client
	topic         string
	out           io.Writer
	left, printed int           // left below zero: no limit
	idle          time.Duration // below zero: no limit
	properties    map[string]string
	offsets       []int64 // by partition: the next to read
	reader        record.Reader
}

func (r *consoleReader) run(beginning bool) error {
	n, err := r.partitions(r.topic, false)
	if err != nil {
		return err
	}
	if err := r.begin(n, beginning); err != nil {
		return err
	}
	for last := time.Now(); r.left != 0; {
		before := r.printed
		if err := r.fetch(); err != nil {
			return err
		}
		if r.printed > before {
			last = time.Now()
		} else if r.idle >= 0 && time.Since(last) >= r.idle {
			break
		}
	}
	return nil
}

// begin finds where reading begins.
func (r *consoleReader) begin(partitions int32, beginning bool) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = r.topic
	for i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = i, offsetAtEnd
		if beginning {
			p.Timestamp = offsetAtStart
		}
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := r.ask(req)
	if err != nil {
		return err
	}
	r.offsets = make([]int64, partitions)
	for _, p := range resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		if p.ErrorCode != 0 {
			return topicError("reading", r.topic, p.ErrorCode, nil)
		}
		r.offsets[p.Partition] = p.Offset
	}
	return nil
}

// fetch reads once and prints.
func (r *consoleReader) fetch() error {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MinBytes, req.MaxBytes, req.SessionEpoch = -1, 1, maxAnswerBytes/2, -1
	req.MaxWaitMillis = int32(consoleWait.Milliseconds())
	t := kmsg.NewFetchRequestTopic()
	t.Topic = r.topic
	for i, offset := range r.offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = int32(i), offset, maxLine, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := r.askAtMost(req, namedFetch)
	if err != nil {
		return err
	}
	for _, topic := range resp.(*kmsg.FetchResponse).Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				return topicError("reading", r.topic, p.ErrorCode, nil)
			}
			if err := r.print(p.Partition, p.RecordBatches); err != nil {
				return err
			}
		}
	}
	return nil
}

// print prints the records of batches; an answer may end in the middle of one.
func (r *consoleReader) print(partition int32, batches []byte) error {
	for len(batches) > 0 && r.left != 0 {
		b, rest, err := record.Next(batches, maxAnswerBytes)
		if errors.Is(err, record.ErrShort) {
			return nil
		}
		if err != nil {
			return err
		}
		batches = rest
		err = r.reader.Each(b, func(rec record.Record) error {
			if rec.Offset >= r.offsets[partition] && r.left != 0 && !b.Control() {
				r.printRecord(&rec)
			}
			return nil
		})
		if err != nil {
			return err
		}
		r.offsets[partition] = b.LastOffset() + 1
	}
	return nil
}

func (r *consoleReader) printRecord(rec *record.Record) {
	text := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return string(b)
	}
	if r.properties["print.key"] == "true" {
		fmt.Fprint(r.out, text(rec.Key), cmp.Or(r.properties["key.separator"], "\t"))
	}
	fmt.Fprintln(r.out, text(rec.Value))
	r.printed++
	r.left--
}
