package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

// describeLogDirs serves DescribeLogDirs (1 to 5): the one data folder and the
// sizes of the partitions in it. While writes are refused for want of space the
// folder has KAFKA_STORAGE_ERROR, as one that Kafka can no longer write.
func (b *Broker) describeLogDirs(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.DescribeLogDirsRequest)
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = b.options.DataDir
	dir.TotalBytes, dir.UsableBytes = -1, -1
	if free, err := b.options.FS.Free(dir.Dir); err == nil && free >= 0 {
		dir.UsableBytes = free
	}
	if b.store.Refusing() != "" {
		dir.ErrorCode = codeStorageError
	}
	snapshot := b.meta.Load()
	if req.Topics == nil {
		for _, t := range snapshot.Topics() {
			all := make([]int32, t.Partitions)
			for i := range all {
				all[i] = int32(i)
			}
			dir.Topics = b.appendSizes(dir.Topics, t, all)
		}
	}
	for i := range req.Topics {
		if t := snapshot.Topic(req.Topics[i].Topic); t != nil {
			dir.Topics = b.appendSizes(dir.Topics, t, req.Topics[i].Partitions)
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	return r.answer(out, resp)
}

func (b *Broker) appendSizes(dst []kmsg.DescribeLogDirsResponseDirTopic, t *meta.Topic, partitions []int32) []kmsg.DescribeLogDirsResponseDirTopic {
	at := kmsg.NewDescribeLogDirsResponseDirTopic()
	at.Topic = t.Name
	for _, i := range partitions {
		if i < 0 || i >= t.Partitions {
			continue
		}
		p := b.store.Partition(log.TopicID(t.ID), i)
		if p == nil {
			continue
		}
		_ = catchUp(p) // a partition that cannot be written has the size it has
		ap := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		ap.Partition, ap.Size = i, p.Size()
		at.Partitions = append(at.Partitions, ap)
	}
	if len(at.Partitions) == 0 {
		return dst
	}
	return append(dst, at)
}
