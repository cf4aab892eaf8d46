package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/netloop"
)

// Endpoint types of DescribeCluster (KIP-919).
const (
	endpointBroker     int8 = 1
	endpointController int8 = 2
)

// describeCluster serves DescribeCluster (0 to 2).
func (b *Broker) describeCluster(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterAuthorizedOperations = notAsked
	resp.EndpointType = endpointBroker
	if code, message := endpointError(req, r.version); code != 0 {
		resp.ErrorCode, resp.ErrorMessage, resp.ControllerID = code, &message, -1
		return r.answer(out, resp)
	}
	resp.ClusterID, resp.ControllerID = b.clusterID, b.nodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	self := kmsg.NewDescribeClusterResponseBroker()
	self.NodeID = b.nodeID
	self.Host, self.Port = b.advertised(r.session)
	if rack := b.values().Rack; rack != "" {
		self.Rack = &rack
	}
	resp.Brokers = append(resp.Brokers, self)
	return r.answer(out, resp)
}

func endpointError(req *kmsg.DescribeClusterRequest, version int16) (int16, string) {
	switch {
	case version == 0 || req.EndpointType == endpointBroker:
		return 0, ""
	case req.EndpointType == endpointController:
		return codeMismatchedEndpoint, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
	}
	return codeUnsupportedEndpoint, fmt.Sprintf("Unsupported endpoint type %d", req.EndpointType)
}
