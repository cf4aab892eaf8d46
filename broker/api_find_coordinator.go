package broker

import (
	"encoding/base64"
	"strconv"
	"strings"

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
	if r.version < 4 {
		code, message := coordinatorError(req.CoordinatorType, r.version, req.CoordinatorKey)
		resp.ErrorCode, resp.NodeID, resp.Host, resp.Port = code, b.nodeID, host, port
		if code != codeNone {
			resp.NodeID, resp.Host, resp.Port = -1, "", -1
		}
		resp.ErrorMessage = &message
		return r.answer(out, resp)
	}
	for _, key := range req.CoordinatorKeys {
		code, message := coordinatorError(req.CoordinatorType, r.version, key)
		one := kmsg.NewFindCoordinatorResponseCoordinator()
		one.Key, one.ErrorCode, one.NodeID, one.Host, one.Port = key, code, b.nodeID, host, port
		if req.CoordinatorType >= coordinatorOfGroup && req.CoordinatorType <= coordinatorOfShare {
			message = "" // Kafka has words for unknown types only
		}
		one.ErrorMessage = &message
		if code != codeNone {
			one.NodeID, one.Host, one.Port = -1, "", -1
		}
		resp.Coordinators = append(resp.Coordinators, one)
	}
	return r.answer(out, resp)
}

// malformedRequest is what Kafka says of INVALID_REQUEST where it has no other words.
const malformedRequest = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."

// coordinatorError tells whether a key of a type has a coordinator here, and
// what Kafka says of it below version 4.
func coordinatorError(keyType int8, version int16, key string) (code int16, message string) {
	const unavailable = "The coordinator is not available."
	switch {
	case keyType == coordinatorOfGroup, keyType == coordinatorOfTransaction:
		return codeNone, "NONE"
	case keyType == coordinatorOfShare && version >= 6 && isShareKey(key):
		return codeCoordinatorNotAvailable, unavailable
	}
	return codeInvalidRequest, malformedRequest
}

// isShareKey reports whether key is group:topicId:partition (KIP-932).
func isShareKey(key string) bool {
	rest, partition, ok := cutLast(key)
	// Kafka takes every int32, below zero, too.
	if _, err := strconv.ParseInt(partition, 10, 32); !ok || err != nil {
		return false
	}
	group, topic, ok := cutLast(rest)
	id, err := base64.RawURLEncoding.DecodeString(topic)
	return ok && group != "" && err == nil && len(id) == 16
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}
