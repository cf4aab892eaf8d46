package load_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/bench/load"
)

func fake(t *testing.T) (*kfake.Cluster, string) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster, cluster.ListenAddrs()[0]
}

func TestProbe(t *testing.T) {
	_, addr := fake(t)
	r, err := load.Probe(load.Spec{Addr: addr, Kind: load.Heartbeat, Conns: 3, Depth: 1, Rate: 500, Duration: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.Answers != 100 || r.Failed != 0 || r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 {
		t.Errorf("%+v", r)
	}
}

// Members of a swarm ask again when they are told to, and codes are counted.
func TestComeBack(t *testing.T) {
	cluster, addr := fake(t)
	peer, err := load.Dial(addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if err := peer.EnsureTopic("t", 1); err != nil {
		t.Fatal(err)
	}
	var members []load.Member
	for i := range 5 {
		m, err := peer.Join(fmt.Sprintf("group-%d", i), "t")
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	members = append(members, load.Member{Group: "group-0", ID: "nobody", Generation: 1})
	for _, greet := range []bool{false, true} {
		loading := 2
		cluster.ControlKey(kmsg.Heartbeat.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if loading == 0 {
				return nil, nil, false
			}
			loading--
			cluster.KeepControl()
			resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
			resp.ErrorCode = 14
			return resp, nil, true
		})
		swarm, r, err := load.ComeBack(addr, members, greet, time.Millisecond, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		swarm.Close()
		if r.Again != 2 || r.Codes[0] != 5 || r.Codes[25] != 1 || r.Answered.Before(r.Opened) {
			t.Errorf("%+v", r)
		}
	}
}
