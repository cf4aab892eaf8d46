package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/netloop"
)

// Key types of FindCoordinator requests.
const (
	coordinatorOfGroup       int8 = 0
	coordinatorOfTransaction int8 = 1
	coordinatorOfShare       int8 = 2
)

// findCoordinator serves FindCoordinator (10): a single node coordinates
// everything that it coordinates at all.
func (b *Broker) findCoordinator(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.FindCoordinatorRequest)
	resp := kmsg.NewPtrFindCoordinatorResponse()
	host, port := b.advertised(r.session)
	code, message := coordinatorError(req.CoordinatorType, r.version)
	if r.version < 4 {
		resp.ErrorCode, resp.NodeID, resp.Host, resp.Port = code, b.nodeID, host, port
		text := "NONE" // what Kafka says on success
		if code != codeNone {
			resp.NodeID, resp.Host, resp.Port = -1, "", -1
			text = message
		}
		resp.ErrorMessage = &text
		return r.answer(out, resp)
	}
	for _, key := range req.CoordinatorKeys {
		one := kmsg.NewFindCoordinatorResponseCoordinator()
		one.Key, one.ErrorCode, one.NodeID, one.Host, one.Port = key, code, b.nodeID, host, port
		if code != codeNone {
			one.NodeID, one.Host, one.Port = -1, "", -1
			one.ErrorMessage = &message
		}
		resp.Coordinators = append(resp.Coordinators, one)
	}
	return r.answer(out, resp)
}

// coordinatorError tells whether keys of a type have a coordinator here.
func coordinatorError(keyType int8, version int16) (code int16, message string) {
	switch {
	case keyType == coordinatorOfGroup:
		return codeNone, ""
	case keyType == coordinatorOfTransaction:
		return codeCoordinatorNotAvailable, "The coordinator is not available."
	case keyType == coordinatorOfShare && version >= 6:
		return codeCoordinatorNotAvailable, "The coordinator is not available."
	}
	return codeInvalidRequest, "Unknown coordinator type."
}
