package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Feature is one of a cluster's features as ApiVersions answers name them
// (KIP-584).
type Feature struct {
	Name string
	// Min and Max are the supported levels.
	Min, Max int16
	// Level is the finalized one; a feature at level 0 is not finalized.
	Level int16
}

// Identity is what ApiVersions answers tell about this broker, and what a request
// of version 5 compares with (KIP-1242).
type Identity struct {
	ClusterID string
	NodeID    int32
	Features  []Feature
	// FeaturesEpoch is the epoch of the finalized features, -1 if unknown.
	FeaturesEpoch int64
}

// ApiVersions answers ApiVersions requests from the table. It is immutable.
type ApiVersions struct {
	identity Identity
}

// NewApiVersions makes the answers of a broker.
func NewApiVersions(id Identity) *ApiVersions { return &ApiVersions{identity: id} }

// Append appends the answer to a decoded request, length prefix included.
func (a *ApiVersions) Append(dst []byte, correlationID int32, req *kmsg.ApiVersionsRequest) []byte {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	for _, api := range APIs() {
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MinVersion, key.MaxVersion = api.Key, api.Advertised, api.Max
		resp.ApiKeys = append(resp.ApiKeys, key)
	}
	return AppendResponse(dst, correlationID, resp)
}

// AppendUnsupportedVersion appends the answer to an ApiVersions request of a
// version that is not supported, whose body nobody can read: version 0,
// UNSUPPORTED_VERSION, and the versions of ApiVersions itself.
func AppendUnsupportedVersion(dst []byte, correlationID int32) []byte {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = 35
	self := kmsg.NewApiVersionsResponseApiKey()
	self.ApiKey, self.MinVersion, self.MaxVersion = KeyApiVersions, apis[KeyApiVersions].Advertised, apis[KeyApiVersions].Max
	resp.ApiKeys = append(resp.ApiKeys, self)
	return AppendResponse(dst, correlationID, resp)
}
