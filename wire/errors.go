package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// ErrorResponse returns an API's answer to req that says nothing but an error
// code: at the top where the schema has a place there, else on each item of the
// request, as Kafka answers what its handler could not. It is nil where the schema
// has no place for it: a Produce with acks=0 has no answer (Kafka closes the
// connection), nor has an API that is not in the table. ApiVersions is answered
// without its list. Strings of the request are shared, not copied.
func ErrorResponse(req kmsg.Request, code int16) kmsg.Response {
	resp := req.ResponseKind()
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		return produceError(req, resp.(*kmsg.ProduceResponse), code)
	case *kmsg.FetchRequest:
		fetchError(req, resp.(*kmsg.FetchResponse), code)
	case *kmsg.ListOffsetsRequest:
		listOffsetsError(req, resp.(*kmsg.ListOffsetsResponse), code)
	case *kmsg.MetadataRequest:
		metadataError(req, resp.(*kmsg.MetadataResponse), code)
	case *kmsg.OffsetCommitRequest:
		offsetCommitError(req, resp.(*kmsg.OffsetCommitResponse), code)
	case *kmsg.OffsetFetchRequest:
		offsetFetchError(req, resp.(*kmsg.OffsetFetchResponse), code)
	case *kmsg.FindCoordinatorRequest:
		findCoordinatorError(req, resp.(*kmsg.FindCoordinatorResponse), code)
	case *kmsg.JoinGroupRequest:
		joinGroupError(resp.(*kmsg.JoinGroupResponse), code)
	case *kmsg.HeartbeatRequest:
		resp.(*kmsg.HeartbeatResponse).ErrorCode = code
	case *kmsg.LeaveGroupRequest:
		resp.(*kmsg.LeaveGroupResponse).ErrorCode = code
	case *kmsg.SyncGroupRequest:
		resp.(*kmsg.SyncGroupResponse).ErrorCode = code
	case *kmsg.DescribeGroupsRequest:
		resp := resp.(*kmsg.DescribeGroupsResponse)
		resp.Groups = each(req.Groups, func(name string, group *kmsg.DescribeGroupsResponseGroup) {
			group.Default()
			group.Group, group.ErrorCode = name, code
		})
	case *kmsg.ListGroupsRequest:
		resp.(*kmsg.ListGroupsResponse).ErrorCode = code
	case *kmsg.ApiVersionsRequest:
		resp.(*kmsg.ApiVersionsResponse).ErrorCode = code
	case *kmsg.DeleteGroupsRequest:
		resp := resp.(*kmsg.DeleteGroupsResponse)
		resp.Groups = each(req.Groups, func(name string, group *kmsg.DeleteGroupsResponseGroup) {
			group.Group, group.ErrorCode = name, code
		})
	case *kmsg.OffsetDeleteRequest:
		resp.(*kmsg.OffsetDeleteResponse).ErrorCode = code
	case *kmsg.InitProducerIDRequest:
		resp := resp.(*kmsg.InitProducerIDResponse)
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code, -1, -1
	case *kmsg.OffsetForLeaderEpochRequest:
		offsetForLeaderEpochError(req, resp.(*kmsg.OffsetForLeaderEpochResponse), code)
	default:
		return adminError(req, resp, code)
	}
	return resp
}

// adminError is ErrorResponse for the APIs of administrators.
func adminError(req kmsg.Request, resp kmsg.Response, code int16) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		resp := resp.(*kmsg.CreateTopicsResponse)
		resp.Topics = each(req.Topics, func(asked kmsg.CreateTopicsRequestTopic, topic *kmsg.CreateTopicsResponseTopic) {
			topic.Default()
			topic.Topic, topic.ErrorCode = asked.Topic, code
		})
	case *kmsg.DeleteTopicsRequest:
		deleteTopicsError(req, resp.(*kmsg.DeleteTopicsResponse), code)
	case *kmsg.DeleteRecordsRequest:
		deleteRecordsError(req, resp.(*kmsg.DeleteRecordsResponse), code)
	case *kmsg.CreatePartitionsRequest:
		resp := resp.(*kmsg.CreatePartitionsResponse)
		resp.Topics = each(req.Topics, func(asked kmsg.CreatePartitionsRequestTopic, topic *kmsg.CreatePartitionsResponseTopic) {
			topic.Topic, topic.ErrorCode = asked.Topic, code
		})
	case *kmsg.DescribeConfigsRequest:
		resp := resp.(*kmsg.DescribeConfigsResponse)
		resp.Resources = each(req.Resources, func(asked kmsg.DescribeConfigsRequestResource, r *kmsg.DescribeConfigsResponseResource) {
			r.ResourceType, r.ResourceName, r.ErrorCode = asked.ResourceType, asked.ResourceName, code
		})
	case *kmsg.IncrementalAlterConfigsRequest:
		resp := resp.(*kmsg.IncrementalAlterConfigsResponse)
		resp.Resources = each(req.Resources, func(asked kmsg.IncrementalAlterConfigsRequestResource, r *kmsg.IncrementalAlterConfigsResponseResource) {
			r.ResourceType, r.ResourceName, r.ErrorCode = asked.ResourceType, asked.ResourceName, code
		})
	case *kmsg.DescribeLogDirsRequest:
		resp.(*kmsg.DescribeLogDirsResponse).ErrorCode = code
	case *kmsg.DescribeClusterRequest:
		resp.(*kmsg.DescribeClusterResponse).ErrorCode = code
	case *kmsg.ListConfigResourcesRequest:
		resp.(*kmsg.ListConfigResourcesResponse).ErrorCode = code
	case *kmsg.DescribeTopicPartitionsRequest:
		resp := resp.(*kmsg.DescribeTopicPartitionsResponse)
		resp.Topics = each(req.Topics, func(asked kmsg.DescribeTopicPartitionsRequestTopic, topic *kmsg.DescribeTopicPartitionsResponseTopic) {
			topic.Default()
			topic.Topic, topic.ErrorCode = kmsg.StringPtr(asked.Topic), code
		})
	default:
		return nil
	}
	return resp
}

// each makes a list with one element for each of another.
func each[In, Out any](list []In, fill func(In, *Out)) []Out {
	out := make([]Out, len(list))
	for i := range list {
		fill(list[i], &out[i])
	}
	return out
}

func produceError(req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse, code int16) kmsg.Response {
	if req.Acks == 0 {
		return nil
	}
	resp.Topics = each(req.Topics, func(asked kmsg.ProduceRequestTopic, topic *kmsg.ProduceResponseTopic) {
		topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
		topic.Partitions = each(asked.Partitions, func(asked kmsg.ProduceRequestTopicPartition, p *kmsg.ProduceResponseTopicPartition) {
			p.Default()
			p.Partition, p.ErrorCode, p.BaseOffset = asked.Partition, code, -1
		})
	})
	return resp
}

// fetchError names the partitions in the versions before topic ids, whose clients
// look for errors there as well.
func fetchError(req *kmsg.FetchRequest, resp *kmsg.FetchResponse, code int16) {
	resp.ErrorCode, resp.SessionID = code, req.SessionID
	if req.Version >= 13 {
		return
	}
	resp.Topics = each(req.Topics, func(asked kmsg.FetchRequestTopic, topic *kmsg.FetchResponseTopic) {
		topic.Topic = asked.Topic
		topic.Partitions = each(asked.Partitions, func(asked kmsg.FetchRequestTopicPartition, p *kmsg.FetchResponseTopicPartition) {
			p.Default()
			// An empty set of records: some clients fail on null.
			p.Partition, p.ErrorCode, p.HighWatermark, p.RecordBatches = asked.Partition, code, -1, []byte{}
		})
	})
}

func listOffsetsError(req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse, code int16) {
	resp.Topics = each(req.Topics, func(asked kmsg.ListOffsetsRequestTopic, topic *kmsg.ListOffsetsResponseTopic) {
		topic.Topic = asked.Topic
		topic.Partitions = each(asked.Partitions, func(asked kmsg.ListOffsetsRequestTopicPartition, p *kmsg.ListOffsetsResponseTopicPartition) {
			p.Default()
			p.Partition, p.ErrorCode = asked.Partition, code
		})
	})
}

func metadataError(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse, code int16) {
	resp.Topics = each(req.Topics, func(asked kmsg.MetadataRequestTopic, topic *kmsg.MetadataResponseTopic) {
		topic.Default()
		topic.Topic, topic.TopicID, topic.ErrorCode = asked.Topic, asked.TopicID, code
		if topic.Topic == nil {
			topic.Topic = new(string)
		}
	})
}

func offsetCommitError(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, code int16) {
	resp.Topics = each(req.Topics, func(asked kmsg.OffsetCommitRequestTopic, topic *kmsg.OffsetCommitResponseTopic) {
		topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
		topic.Partitions = each(asked.Partitions, func(asked kmsg.OffsetCommitRequestTopicPartition, p *kmsg.OffsetCommitResponseTopicPartition) {
			p.Partition, p.ErrorCode = asked.Partition, code
		})
	})
}

// offsetFetchError: the place of a group's error moved from the partitions (v1) to
// the top (v2) and to the group (v8).
func offsetFetchError(req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse, code int16) {
	resp.ErrorCode = code
	if req.Version >= 8 {
		resp.Groups = each(req.Groups, func(asked kmsg.OffsetFetchRequestGroup, group *kmsg.OffsetFetchResponseGroup) {
			group.Group, group.ErrorCode = asked.Group, code
		})
	}
	if req.Version >= 2 {
		return
	}
	resp.Topics = each(req.Topics, func(asked kmsg.OffsetFetchRequestTopic, topic *kmsg.OffsetFetchResponseTopic) {
		topic.Topic = asked.Topic
		topic.Partitions = each(asked.Partitions, func(partition int32, p *kmsg.OffsetFetchResponseTopicPartition) {
			p.Default()
			p.Partition, p.ErrorCode, p.Offset, p.Metadata = partition, code, -1, new(string)
		})
	})
}

func findCoordinatorError(req *kmsg.FindCoordinatorRequest, resp *kmsg.FindCoordinatorResponse, code int16) {
	resp.ErrorCode, resp.NodeID, resp.Port = code, -1, -1
	resp.Coordinators = each(req.CoordinatorKeys, func(key string, c *kmsg.FindCoordinatorResponseCoordinator) {
		c.Key, c.ErrorCode, c.NodeID, c.Port = key, code, -1, -1
	})
}

// joinGroupError: the protocol's name may be null from v7 on only.
func joinGroupError(resp *kmsg.JoinGroupResponse, code int16) {
	resp.ErrorCode = code
	if resp.Version < 7 {
		resp.Protocol = new(string)
	}
}

func offsetForLeaderEpochError(req *kmsg.OffsetForLeaderEpochRequest, resp *kmsg.OffsetForLeaderEpochResponse, code int16) {
	resp.Topics = each(req.Topics, func(asked kmsg.OffsetForLeaderEpochRequestTopic, topic *kmsg.OffsetForLeaderEpochResponseTopic) {
		topic.Topic = asked.Topic
		topic.Partitions = each(asked.Partitions, func(asked kmsg.OffsetForLeaderEpochRequestTopicPartition, p *kmsg.OffsetForLeaderEpochResponseTopicPartition) {
			p.Default()
			p.Partition, p.ErrorCode = asked.Partition, code
		})
	})
}

// deleteTopicsError: topics are a list of names before v6.
func deleteTopicsError(req *kmsg.DeleteTopicsRequest, resp *kmsg.DeleteTopicsResponse, code int16) {
	if req.Version < 6 {
		resp.Topics = each(req.TopicNames, func(name string, topic *kmsg.DeleteTopicsResponseTopic) {
			topic.Topic, topic.ErrorCode = kmsg.StringPtr(name), code
		})
		return
	}
	resp.Topics = each(req.Topics, func(asked kmsg.DeleteTopicsRequestTopic, topic *kmsg.DeleteTopicsResponseTopic) {
		topic.Topic, topic.TopicID, topic.ErrorCode = asked.Topic, asked.TopicID, code
	})
}

func deleteRecordsError(req *kmsg.DeleteRecordsRequest, resp *kmsg.DeleteRecordsResponse, code int16) {
	resp.Topics = each(req.Topics, func(asked kmsg.DeleteRecordsRequestTopic, topic *kmsg.DeleteRecordsResponseTopic) {
		topic.Topic = asked.Topic
		topic.Partitions = each(asked.Partitions, func(asked kmsg.DeleteRecordsRequestTopicPartition, p *kmsg.DeleteRecordsResponseTopicPartition) {
			p.Partition, p.ErrorCode, p.LowWatermark = asked.Partition, code, -1
		})
	})
}
