package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// ErrorResponse returns an API's answer to req that says nothing but an error:
// at the top where the schema has a place there, else on each item of the
// request, as Kafka answers what its handler could not. It is nil when the schema
// has no place for an error.
func ErrorResponse(req kmsg.Request, code int16) kmsg.Response {
	switch resp := req.ResponseKind().(type) {
	case *kmsg.JoinGroupResponse:
		resp.ErrorCode = code
		return resp
	case *kmsg.HeartbeatResponse:
		resp.ErrorCode = code
		return resp
	case *kmsg.SyncGroupResponse:
		resp.ErrorCode = code
		return resp
	case *kmsg.ListGroupsResponse:
		resp.ErrorCode = code
		return resp
	}
	return nil
}
