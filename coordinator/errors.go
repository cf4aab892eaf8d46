package coordinator

// Kafka's error codes that the coordinator answers with.
const (
	codeUnknownServerError        int16 = -1
	codeNone                      int16 = 0
	codeUnknownTopicOrPartition   int16 = 3
	codeOffsetMetadataTooLarge    int16 = 12
	codeCoordinatorLoadInProgress int16 = 14
	codeCoordinatorNotAvailable   int16 = 15
	codeNotCoordinator            int16 = 16
	codeIllegalGeneration         int16 = 22
	codeInconsistentGroupProtocol int16 = 23
	codeInvalidGroupID            int16 = 24
	codeUnknownMemberID           int16 = 25
	codeInvalidSessionTimeout     int16 = 26
	codeRebalanceInProgress       int16 = 27
	codeNonEmptyGroup             int16 = 68
	codeGroupIDNotFound           int16 = 69
	codeMemberIDRequired          int16 = 79
	codeGroupMaxSizeReached       int16 = 81
	codeFencedInstanceID          int16 = 82
	codeGroupSubscribedToTopic    int16 = 86
	codeUnknownTopicID            int16 = 100
)
