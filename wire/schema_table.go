package wire

// schemas are the fields of the requests, indexed by API key, in the versions from
// the lowest that Kafka 4 knows to the highest in the table of APIs. An API needs its
// row here to be in that table. Their source is Kafka's message definitions.
var schemas = [...][]field{
	0: { // Produce
		{name: "TransactionalId", kind: text, null: always},
		{name: "Acks", kind: fixed, size: 2},
		{name: "TimeoutMs", kind: fixed, size: 4},
		{name: "TopicData", kind: array, fields: []field{
			{name: "Name", kind: text, until: 13},
			{name: "TopicId", kind: fixed, from: 13, size: 16},
			{name: "PartitionData", kind: array, fields: []field{
				{name: "Index", kind: fixed, size: 4},
				{name: "Records", kind: blob, null: always},
			}},
		}},
	},
	1: { // Fetch
		{name: "ClusterId", kind: text, from: 12, null: always, tag: 1 + 0},
		{name: "ReplicaId", kind: fixed, until: 15, size: 4},
		{name: "ReplicaState", kind: object, from: 15, tag: 1 + 1, fields: []field{
			{name: "ReplicaId", kind: fixed, from: 15, size: 4},
			{name: "ReplicaEpoch", kind: fixed, from: 15, size: 8},
		}},
		{name: "MaxWaitMs", kind: fixed, size: 4},
		{name: "MinBytes", kind: fixed, size: 4},
		{name: "MaxBytes", kind: fixed, size: 4},
		{name: "IsolationLevel", kind: fixed, size: 1},
		{name: "SessionId", kind: fixed, from: 7, size: 4},
		{name: "SessionEpoch", kind: fixed, from: 7, size: 4},
		{name: "Topics", kind: array, fields: []field{
			{name: "Topic", kind: text, until: 13},
			{name: "TopicId", kind: fixed, from: 13, size: 16},
			{name: "Partitions", kind: array, fields: []field{
				{name: "Partition", kind: fixed, size: 4},
				{name: "CurrentLeaderEpoch", kind: fixed, from: 9, size: 4},
				{name: "FetchOffset", kind: fixed, size: 8},
				{name: "LastFetchedEpoch", kind: fixed, from: 12, size: 4},
				{name: "LogStartOffset", kind: fixed, from: 5, size: 8},
				{name: "PartitionMaxBytes", kind: fixed, size: 4},
				{name: "ReplicaDirectoryId", kind: fixed, from: 17, tag: 1 + 0, size: 16},
				{name: "HighWatermark", kind: fixed, from: 18, tag: 1 + 1, size: 8},
			}},
		}},
		{name: "ForgottenTopicsData", kind: array, from: 7, fields: []field{
			{name: "Topic", kind: text, from: 7, until: 13},
			{name: "TopicId", kind: fixed, from: 13, size: 16},
			{name: "Partitions", kind: array, from: 7, size: 4},
		}},
		{name: "RackId", kind: text, from: 11},
	},
	2: { // ListOffsets
		{name: "ReplicaId", kind: fixed, size: 4},
		{name: "IsolationLevel", kind: fixed, from: 2, size: 1},
		{name: "Topics", kind: array, fields: []field{
			{name: "Name", kind: text},
			{name: "Partitions", kind: array, fields: []field{
				{name: "PartitionIndex", kind: fixed, size: 4},
				{name: "CurrentLeaderEpoch", kind: fixed, from: 4, size: 4},
				{name: "Timestamp", kind: fixed, size: 8},
			}},
		}},
		{name: "TimeoutMs", kind: fixed, from: 10, size: 4},
	},
	3: { // Metadata
		{name: "Topics", kind: array, null: 1, fields: []field{
			{name: "TopicId", kind: fixed, from: 10, size: 16},
			{name: "Name", kind: text, null: 10},
		}},
		{name: "AllowAutoTopicCreation", kind: fixed, from: 4, size: 1},
		{name: "IncludeClusterAuthorizedOperations", kind: fixed, from: 8, until: 11, size: 1},
		{name: "IncludeTopicAuthorizedOperations", kind: fixed, from: 8, size: 1},
	},
	8: { // OffsetCommit
		{name: "GroupId", kind: text},
		{name: "GenerationIdOrMemberEpoch", kind: fixed, size: 4},
		{name: "MemberId", kind: text},
		{name: "GroupInstanceId", kind: text, from: 7, null: always},
		{name: "RetentionTimeMs", kind: fixed, until: 5, size: 8},
		{name: "Topics", kind: array, fields: []field{
			{name: "Name", kind: text, until: 10},
			{name: "TopicId", kind: fixed, from: 10, size: 16},
			{name: "Partitions", kind: array, fields: []field{
				{name: "PartitionIndex", kind: fixed, size: 4},
				{name: "CommittedOffset", kind: fixed, size: 8},
				{name: "CommittedLeaderEpoch", kind: fixed, from: 6, size: 4},
				{name: "CommittedMetadata", kind: text, null: always},
			}},
		}},
	},
	9: { // OffsetFetch
		{name: "GroupId", kind: text, until: 8},
		{name: "Topics", kind: array, until: 8, null: 2, fields: []field{
			{name: "Name", kind: text, until: 8},
			{name: "PartitionIndexes", kind: array, until: 8, size: 4},
		}},
		{name: "Groups", kind: array, from: 8, fields: []field{
			{name: "GroupId", kind: text, from: 8},
			{name: "MemberId", kind: text, from: 9, null: always},
			{name: "MemberEpoch", kind: fixed, from: 9, size: 4},
			{name: "Topics", kind: array, from: 8, null: always, fields: []field{
				{name: "Name", kind: text, from: 8, until: 10},
				{name: "TopicId", kind: fixed, from: 10, size: 16},
				{name: "PartitionIndexes", kind: array, from: 8, size: 4},
			}},
		}},
		{name: "RequireStable", kind: fixed, from: 7, size: 1},
	},
	10: { // FindCoordinator
		{name: "Key", kind: text, until: 4},
		{name: "KeyType", kind: fixed, from: 1, size: 1},
		{name: "CoordinatorKeys", kind: array, from: 4, of: text},
	},
	11: { // JoinGroup
		{name: "GroupId", kind: text},
		{name: "SessionTimeoutMs", kind: fixed, size: 4},
		{name: "RebalanceTimeoutMs", kind: fixed, from: 1, size: 4},
		{name: "MemberId", kind: text},
		{name: "GroupInstanceId", kind: text, from: 5, null: always},
		{name: "ProtocolType", kind: text},
		{name: "Protocols", kind: array, fields: []field{
			{name: "Name", kind: text},
			{name: "Metadata", kind: blob},
		}},
		{name: "Reason", kind: text, from: 8, null: always},
	},
	12: { // Heartbeat
		{name: "GroupId", kind: text},
		{name: "GenerationId", kind: fixed, size: 4},
		{name: "MemberId", kind: text},
		{name: "GroupInstanceId", kind: text, from: 3, null: always},
	},
	13: { // LeaveGroup
		{name: "GroupId", kind: text},
		{name: "MemberId", kind: text, until: 3},
		{name: "Members", kind: array, from: 3, fields: []field{
			{name: "MemberId", kind: text, from: 3},
			{name: "GroupInstanceId", kind: text, from: 3, null: always},
			{name: "Reason", kind: text, from: 5, null: always},
		}},
	},
	14: { // SyncGroup
		{name: "GroupId", kind: text},
		{name: "GenerationId", kind: fixed, size: 4},
		{name: "MemberId", kind: text},
		{name: "GroupInstanceId", kind: text, from: 3, null: always},
		{name: "ProtocolType", kind: text, from: 5, null: always},
		{name: "ProtocolName", kind: text, from: 5, null: always},
		{name: "Assignments", kind: array, fields: []field{
			{name: "MemberId", kind: text},
			{name: "Assignment", kind: blob},
		}},
	},
	15: { // DescribeGroups
		{name: "Groups", kind: array, of: text},
		{name: "IncludeAuthorizedOperations", kind: fixed, from: 3, size: 1},
	},
	16: { // ListGroups
		{name: "StatesFilter", kind: array, from: 4, of: text},
		{name: "TypesFilter", kind: array, from: 5, of: text},
	},
	18: { // ApiVersions
		{name: "ClientSoftwareName", kind: text, from: 3},
		{name: "ClientSoftwareVersion", kind: text, from: 3},
		{name: "ClusterId", kind: text, from: 5, null: always},
		{name: "NodeId", kind: fixed, from: 5, size: 4},
	},
	19: { // CreateTopics
		{name: "Topics", kind: array, fields: []field{
			{name: "Name", kind: text},
			{name: "NumPartitions", kind: fixed, size: 4},
			{name: "ReplicationFactor", kind: fixed, size: 2},
			{name: "Assignments", kind: array, fields: []field{
				{name: "PartitionIndex", kind: fixed, size: 4},
				{name: "BrokerIds", kind: array, size: 4},
			}},
			{name: "Configs", kind: array, fields: []field{
				{name: "Name", kind: text},
				{name: "Value", kind: text, null: always},
			}},
		}},
		{name: "timeoutMs", kind: fixed, size: 4},
		{name: "validateOnly", kind: fixed, size: 1},
	},
	20: { // DeleteTopics
		{name: "Topics", kind: array, from: 6, fields: []field{
			{name: "Name", kind: text, from: 6, null: always},
			{name: "TopicId", kind: fixed, from: 6, size: 16},
		}},
		{name: "TopicNames", kind: array, until: 6, of: text},
		{name: "TimeoutMs", kind: fixed, size: 4},
	},
	21: { // DeleteRecords
		{name: "Topics", kind: array, fields: []field{
			{name: "Name", kind: text},
			{name: "Partitions", kind: array, fields: []field{
				{name: "PartitionIndex", kind: fixed, size: 4},
				{name: "Offset", kind: fixed, size: 8},
			}},
		}},
		{name: "TimeoutMs", kind: fixed, size: 4},
	},
	22: { // InitProducerId
		{name: "TransactionalId", kind: text, null: always},
		{name: "TransactionTimeoutMs", kind: fixed, size: 4},
		{name: "ProducerId", kind: fixed, from: 3, size: 8},
		{name: "ProducerEpoch", kind: fixed, from: 3, size: 2},
		{name: "Enable2Pc", kind: fixed, from: 6, size: 1},
		{name: "KeepPreparedTxn", kind: fixed, from: 6, size: 1},
	},
	23: { // OffsetForLeaderEpoch
		{name: "ReplicaId", kind: fixed, from: 3, size: 4},
		{name: "Topics", kind: array, fields: []field{
			{name: "Topic", kind: text},
			{name: "Partitions", kind: array, fields: []field{
				{name: "Partition", kind: fixed, size: 4},
				{name: "CurrentLeaderEpoch", kind: fixed, size: 4},
				{name: "LeaderEpoch", kind: fixed, size: 4},
			}},
		}},
	},
	32: { // DescribeConfigs
		{name: "Resources", kind: array, fields: []field{
			{name: "ResourceType", kind: fixed, size: 1},
			{name: "ResourceName", kind: text},
			{name: "ConfigurationKeys", kind: array, null: always, of: text},
		}},
		{name: "IncludeSynonyms", kind: fixed, size: 1},
		{name: "IncludeDocumentation", kind: fixed, from: 3, size: 1},
	},
	35: { // DescribeLogDirs
		{name: "Topics", kind: array, null: always, fields: []field{
			{name: "Topic", kind: text},
			{name: "Partitions", kind: array, size: 4},
		}},
	},
	37: { // CreatePartitions
		{name: "Topics", kind: array, fields: []field{
			{name: "Name", kind: text},
			{name: "Count", kind: fixed, size: 4},
			{name: "Assignments", kind: array, null: always, fields: []field{
				{name: "BrokerIds", kind: array, size: 4},
			}},
		}},
		{name: "TimeoutMs", kind: fixed, size: 4},
		{name: "ValidateOnly", kind: fixed, size: 1},
	},
	42: { // DeleteGroups
		{name: "GroupsNames", kind: array, of: text},
	},
	44: { // IncrementalAlterConfigs
		{name: "Resources", kind: array, fields: []field{
			{name: "ResourceType", kind: fixed, size: 1},
			{name: "ResourceName", kind: text},
			{name: "Configs", kind: array, fields: []field{
				{name: "Name", kind: text},
				{name: "ConfigOperation", kind: fixed, size: 1},
				{name: "Value", kind: text, null: always},
			}},
		}},
		{name: "ValidateOnly", kind: fixed, size: 1},
	},
	47: { // OffsetDelete
		{name: "GroupId", kind: text},
		{name: "Topics", kind: array, fields: []field{
			{name: "Name", kind: text},
			{name: "Partitions", kind: array, fields: []field{
				{name: "PartitionIndex", kind: fixed, size: 4},
			}},
		}},
	},
	60: { // DescribeCluster
		{name: "IncludeClusterAuthorizedOperations", kind: fixed, size: 1},
		{name: "EndpointType", kind: fixed, from: 1, size: 1},
		{name: "IncludeFencedBrokers", kind: fixed, from: 2, size: 1},
	},
	74: { // ListConfigResources
		{name: "ResourceTypes", kind: array, from: 1, size: 1},
	},
	75: { // DescribeTopicPartitions
		{name: "Topics", kind: array, fields: []field{
			{name: "Name", kind: text},
		}},
		{name: "ResponsePartitionLimit", kind: fixed, size: 4},
		{name: "Cursor", kind: object, null: always, fields: []field{
			{name: "TopicName", kind: text},
			{name: "PartitionIndex", kind: fixed, size: 4},
		}},
	},
}
