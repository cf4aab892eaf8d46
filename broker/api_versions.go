package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/netloop"
	"github.com/kcoord/kcoord/wire"
)

// versionAnswers makes the answers to ApiVersions.
type versionAnswers = wire.ApiVersions

// apiVersions serves ApiVersions (18), before the folder is open, too: then it
// does not know the cluster id.
func (b *Broker) apiVersions(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.ApiVersionsRequest)
	if req.Version >= 3 {
		r.session.software, r.session.softwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
	}
	return b.versions.Load().Append(out, r.correlationID, req), netloop.Answered
}

// setVersions makes the answers of a broker in this cluster.
func (b *Broker) setVersions(clusterID string) {
	b.versions.Store(wire.NewApiVersions(wire.Identity{ClusterID: clusterID, NodeID: b.nodeID}))
}
