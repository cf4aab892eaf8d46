package broker_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/history"
)

var killsFlag = flag.Int("broker.kills", 3, "how often TestLinearizableThroughKills kills the broker")

// TestLinearizableThroughKills lets several clients commit and fetch a few offsets
// while the broker, a process of its own, is killed with -9 and started again,
// and asks whether one coordinator that never died could have answered so.
func TestLinearizableThroughKills(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, dir)
	createTopic(t, c.addr, "t", 2)
	operations := 0
	for round := range *killsFlag {
		n := &offsetClients{group: fmt.Sprintf("g%d", round), began: time.Now(), stop: make(chan struct{})}
		n.addr.Store(&c.addr)
		for id := range 3 {
			n.run(func() { n.commits(id) })
			n.run(func() { n.fetches(10 + id) })
		}
		n.more(t, 50+rand.Int64N(200))
		c.kill()
		c = startChild(t, dir)
		n.addr.Store(&c.addr)
		n.more(t, 100)
		close(n.stop)
		n.running.Wait()
		if err := n.history.Check(time.Minute); err != nil {
			t.Errorf("kill %d: %v", round, err)
		}
		operations += n.history.Len()
	}
	t.Logf("%d operations around %d kills", operations, *killsFlag)
}

// offsetClients commit and fetch two offsets of one group.
type offsetClients struct {
	group              string
	addr               atomic.Pointer[string] // of the broker, as of now
	began              time.Time
	history            history.History
	values             atomic.Int64
	acknowledged, read atomic.Int64
	stop               chan struct{}
	running            sync.WaitGroup
}

// more waits until so many more commits and fetches have succeeded.
func (n *offsetClients) more(t *testing.T, count int64) {
	commits, fetches := n.acknowledged.Load()+count, n.read.Load()+count
	for end := time.Now().Add(deadline); n.acknowledged.Load() < commits || n.read.Load() < fetches; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d commits and %d fetches within %v", n.acknowledged.Load(), n.read.Load(), deadline)
		}
	}
}

func (n *offsetClients) run(f func()) { n.running.Go(f) }

func (n *offsetClients) now() int64 { return int64(time.Since(n.began)) }

// until calls f again and again, with a connection that is made anew when f
// fails, until the end.
func (n *offsetClients) until(f func(p *plainConn) error) {
	var p *plainConn
	for {
		select {
		case <-n.stop:
			if p != nil {
				p.Close()
			}
			return
		default:
		}
		if p == nil {
			conn, err := net.DialTimeout("tcp", *n.addr.Load(), time.Second)
			if err != nil { // it is down
				time.Sleep(time.Millisecond)
				continue
			}
			p = &plainConn{Conn: conn}
		}
		if f(p) != nil {
			p.Close()
			p = nil
		}
	}
}

func (n *offsetClients) commits(client int) {
	n.until(func(p *plainConn) error {
		value, partition := n.values.Add(1), rand.Int32N(2)
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, n.group, -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "t"
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset = partition, value
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		call := n.now()
		resp, err := p.ask(req)
		outcome := history.Unknown
		if err == nil {
			switch kerr.ErrorForCode(resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode) {
			case nil:
				outcome = history.Done
				n.acknowledged.Add(1)
			case kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
				outcome = history.Refused
			}
		}
		n.history.Commit(client, fmt.Sprint(partition), value, call, n.now(), outcome)
		return err
	})
}

func (n *offsetClients) fetches(client int) {
	n.until(func(p *plainConn) error {
		partition := rand.Int32N(2)
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = 7, n.group
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = "t", []int32{partition}
		req.Topics = append(req.Topics, rt)
		call := n.now()
		resp, err := p.ask(req)
		if err != nil {
			return err
		}
		if r := resp.(*kmsg.OffsetFetchResponse); r.ErrorCode == 0 && r.Topics[0].Partitions[0].ErrorCode == 0 {
			n.history.Fetch(client, fmt.Sprint(partition), r.Topics[0].Partitions[0].Offset, call, n.now())
			n.read.Add(1)
		}
		return nil
	})
}

// A plainConn sends one request at a time and never sends one again: a client
// that does would commit the same value twice.
type plainConn struct {
	net.Conn
	correlation int32
}

func (p *plainConn) ask(req kmsg.Request) (kmsg.Response, error) {
	p.correlation++
	if err := p.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := p.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, p.correlation)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(p, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(p, frame); err != nil {
		return nil, err
	}
	if int32(binary.BigEndian.Uint32(frame)) != p.correlation {
		return nil, errors.New("an answer to another request")
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	frame = frame[4:]
	if resp.IsFlexible() {
		frame = frame[1:]
	}
	return resp, resp.ReadFrom(frame)
}
