package sim

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ask sends a request of any version whose only possible answer is success, and
// calls look with it.
func (a *admin) ask(what string, req kmsg.Request, done func(), look func(resp kmsg.Response) (code int16)) {
	w := a.world
	w.anyVersion(req)
	a.client.call(req, func(resp kmsg.Response) {
		defer done()
		if resp == nil {
			return
		}
		switch err := kerr.ErrorForCode(look(resp)); {
		case err == nil:
			w.succeed(what)
		case err == kerr.CoordinatorLoadInProgress, err == kerr.CoordinatorNotAvailable, err == kerr.RequestTimedOut:
		case err == kerr.KafkaStorageError && w.machine.troubled():
		default:
			w.violated(checkErrors, "%s: %v", what, err)
		}
	})
}

func (a *admin) apiVersions(done func()) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "sim", "1"
	a.ask("ApiVersions", req, done, func(resp kmsg.Response) int16 { return resp.(*kmsg.ApiVersionsResponse).ErrorCode })
}

func (a *admin) findCoordinator(done func()) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = "group-0", []string{"group-0"}
	a.ask("FindCoordinator", req, done, func(resp kmsg.Response) int16 {
		r := resp.(*kmsg.FindCoordinatorResponse)
		if len(r.Coordinators) > 0 {
			return r.Coordinators[0].ErrorCode
		}
		return r.ErrorCode
	})
}

func (a *admin) describeCluster(done func()) {
	a.ask("DescribeCluster", kmsg.NewPtrDescribeClusterRequest(), done, func(resp kmsg.Response) int16 {
		return resp.(*kmsg.DescribeClusterResponse).ErrorCode
	})
}

func (a *admin) describeLogDirs(done func()) {
	a.ask("DescribeLogDirs", kmsg.NewPtrDescribeLogDirsRequest(), done, func(resp kmsg.Response) int16 {
		return resp.(*kmsg.DescribeLogDirsResponse).Dirs[0].ErrorCode
	})
}

func (a *admin) listConfigResources(done func()) {
	a.ask("ListConfigResources", kmsg.NewPtrListConfigResourcesRequest(), done, func(resp kmsg.Response) int16 {
		return resp.(*kmsg.ListConfigResourcesResponse).ErrorCode
	})
}

func (a *admin) leaderEpoch(done func()) {
	w := a.world
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = dataTopic
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.CurrentLeaderEpoch = -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	a.ask("OffsetForLeaderEpoch", req, done, func(resp kmsg.Response) int16 {
		r := resp.(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
		if r.ErrorCode == 0 && r.EndOffset > w.log(0).end && w.log(0).end > 0 && r.LeaderEpoch < 0 {
			w.violated(checkRecords, "epoch 0 of %s-0 ends at %d", dataTopic, r.EndOffset)
		}
		return r.ErrorCode
	})
}

// deleteRecords deletes what was read of one partition, up to some offset.
func (a *admin) deleteRecords(done func()) {
	w, l := a.world, a.world.log(deletedPartition)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = dataTopic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition = deletedPartition
	p.Offset = l.start + w.random.Int64N(max(0, l.end-l.start)+1)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	before := l.bounds()
	a.ask("DeleteRecords", req, done, func(resp kmsg.Response) int16 {
		r := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		if r.ErrorCode == kerr.OffsetOutOfRange.Code {
			return 0 // somebody's deletion without an answer went further
		}
		if r.ErrorCode == 0 {
			l.ends(w, "DeleteRecords", before, r.LowWatermark, -1)
			l.forget(l.start)
		}
		return r.ErrorCode
	})
}
