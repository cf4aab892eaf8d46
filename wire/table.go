package wire

import "slices"

// Frame limits of the classes of APIs, in bytes of a frame without its length
// prefix. They are a matter of memory safety: a decoded request can take many
// times the bytes of its frame.
const (
	// SmallFrame is for requests of a few fixed fields.
	SmallFrame = 64 << 10
	// MediumFrame is for requests that carry lists of groups, members, topics or
	// partitions, and member metadata.
	MediumFrame = 8 << 20
	// LargeFrame stands for socket.request.max.bytes.
	LargeFrame = 0
)

// An API is one row of the table of supported APIs.
type API struct {
	Key int16
	// Min and Max are the lowest and the highest version served.
	Min, Max int16
	// Advertised is the lowest version that ApiVersions answers name. It is Min
	// for every API but Produce, which Kafka advertises from 0 because old clients
	// built on librdkafka refuse to work without, although it closes a connection
	// that uses a version below 3.
	Advertised int16
	// Flexible is the first version with tagged fields (KIP-482), noFlexible if
	// there is none. From it on a request has header v2 and its answer header v1.
	Flexible int16
	// Name is Kafka's name of the API.
	Name string
	// FrameLimit is the largest frame in bytes; LargeFrame means
	// socket.request.max.bytes.
	FrameLimit int
}

// noFlexible is the first flexible version of an API that has none.
const noFlexible = 1<<15 - 1

// KeyApiVersions is the API key with rules of its own: its answer always has
// response header v0, and an unsupported version is answered.
const KeyApiVersions int16 = 18

// The requests that a Decoder reuses.
const (
	keyOffsetCommit int16 = 8
	keyOffsetFetch  int16 = 9
	keyHeartbeat    int16 = 12
)

// keyListGroups has an answer of its own making.
const keyListGroups int16 = 16

// apis is the table of supported APIs, indexed by API key: a version is in it
// only when its behaviour exists. Everything that depends on what is supported
// (ApiVersions answers, header checks, frame limits, documentation) is made from
// it, so removing a row here takes an API out of service.
var apis = [...]API{
	0:  row(3, 13, 9, "Produce", LargeFrame).advertised(0),
	1:  row(4, 18, 12, "Fetch", LargeFrame),
	2:  row(1, 11, 6, "ListOffsets", MediumFrame),
	3:  row(0, 13, 9, "Metadata", MediumFrame),
	8:  row(2, 10, 8, "OffsetCommit", MediumFrame),
	9:  row(1, 10, 6, "OffsetFetch", MediumFrame),
	10: row(0, 6, 3, "FindCoordinator", MediumFrame),
	11: row(0, 9, 6, "JoinGroup", MediumFrame),
	12: row(0, 4, 4, "Heartbeat", SmallFrame),
	13: row(0, 5, 4, "LeaveGroup", MediumFrame),
	14: row(0, 5, 4, "SyncGroup", MediumFrame),
	15: row(0, 6, 5, "DescribeGroups", MediumFrame),
	16: row(0, 5, 3, "ListGroups", MediumFrame),
	18: row(0, 5, 3, "ApiVersions", SmallFrame),
	19: row(2, 7, 5, "CreateTopics", LargeFrame),
	20: row(1, 6, 4, "DeleteTopics", MediumFrame),
	21: row(0, 2, 2, "DeleteRecords", MediumFrame),
	22: row(0, 5, 2, "InitProducerId", SmallFrame),
	23: row(2, 4, 4, "OffsetForLeaderEpoch", MediumFrame),
	32: row(1, 4, 4, "DescribeConfigs", MediumFrame),
	35: row(1, 5, 2, "DescribeLogDirs", MediumFrame),
	37: row(0, 3, 2, "CreatePartitions", MediumFrame),
	42: row(0, 3, 2, "DeleteGroups", MediumFrame),
	44: row(0, 1, 1, "IncrementalAlterConfigs", MediumFrame),
	47: row(0, 0, noFlexible, "OffsetDelete", MediumFrame),
	60: row(0, 2, 0, "DescribeCluster", MediumFrame),
	74: row(0, 1, 0, "ListConfigResources", MediumFrame),
	75: row(0, 0, 0, "DescribeTopicPartitions", MediumFrame),
}

func row(lowest, highest, flexible int16, name string, frameLimit int) API {
	return API{Min: lowest, Max: highest, Advertised: lowest, Flexible: flexible, Name: name, FrameLimit: frameLimit}
}

func (a API) advertised(lowest int16) API {
	a.Advertised = lowest
	return a
}

// Lookup returns the row of an API key, and false if the API is not supported.
func Lookup(key int16) (API, bool) {
	if key < 0 || int(key) >= len(apis) || apis[key].Name == "" {
		return API{}, false
	}
	a := apis[key]
	a.Key = key
	return a, true
}

// APIs returns the rows of all supported APIs in the order of their keys.
func APIs() []API {
	all := make([]API, 0, len(apis))
	for key := range apis {
		if a, ok := Lookup(int16(key)); ok {
			all = append(all, a)
		}
	}
	return slices.Clip(all)
}

// FrameLimit returns the largest length that a frame beginning with these six
// bytes may announce, in bytes without the length prefix: head is the prefix and
// the first two bytes of the frame, which are the API key. Zero refuses the frame
// (the key is not supported); no limit is above socketRequestMax
// (socket.request.max.bytes).
func FrameLimit(head [6]byte, socketRequestMax int) int {
	key := int(head[4])<<8 | int(head[5])
	if key >= len(apis) || apis[key].Name == "" {
		return 0
	}
	if limit := apis[key].FrameLimit; limit != LargeFrame {
		return min(limit, socketRequestMax)
	}
	return socketRequestMax
}
