package wire

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Error codes of ApiVersions answers.
const (
	codeUnsupportedVersion  int16 = 35
	codeInvalidRequest      int16 = 42
	codeRebootstrapRequired int16 = 129
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
	// FeaturesEpoch is the epoch of the finalized features; a single node without
	// any stays at 0.
	FeaturesEpoch int64
}

// ApiVersions answers ApiVersions requests from the table. It is immutable.
type ApiVersions struct {
	identity Identity
	// answers are whole, one for each version, with correlation id 0: the list of
	// APIs takes a microsecond to encode and never changes.
	answers [][]byte
}

// NewApiVersions makes the answers of a broker.
func NewApiVersions(id Identity) *ApiVersions {
	a := &ApiVersions{identity: id}
	for version := int16(0); version <= apis[KeyApiVersions].Max; version++ {
		a.answers = append(a.answers, AppendResponse(nil, 0, a.response(version)))
	}
	return a
}

// response is the answer that lists the table.
func (a *ApiVersions) response(version int16) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = version
	for _, api := range APIs() {
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MinVersion, key.MaxVersion = api.Key, api.Advertised, api.Max
		resp.ApiKeys = append(resp.ApiKeys, key)
	}
	resp.FinalizedFeaturesEpoch = a.identity.FeaturesEpoch
	for _, f := range a.identity.Features {
		// Clients of the versions before 4 refuse a lowest level of 0.
		if f.Min > 0 || version >= 4 {
			supported := kmsg.NewApiVersionsResponseSupportedFeature()
			supported.Name, supported.MinVersion, supported.MaxVersion = f.Name, f.Min, f.Max
			resp.SupportedFeatures = append(resp.SupportedFeatures, supported)
		}
		if f.Level > 0 {
			finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
			finalized.Name, finalized.MaxVersionLevel, finalized.MinVersionLevel = f.Name, f.Level, f.Level
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized)
		}
	}
	return resp
}

// Append appends the answer to a decoded request, length prefix included. It is
// an error answer with an empty list, on a connection that stays open, when the
// client's name or version is not what KIP-511 allows (INVALID_REQUEST) or when
// the client believes that it talks to another cluster or node
// (REBOOTSTRAP_REQUIRED, KIP-1242).
func (a *ApiVersions) Append(dst []byte, correlationID int32, req *kmsg.ApiVersionsRequest) []byte {
	if code := a.check(req); code != 0 {
		return AppendResponse(dst, correlationID, ErrorResponse(req, code))
	}
	start := len(dst)
	dst = append(dst, a.answers[req.Version]...)
	binary.BigEndian.PutUint32(dst[start+4:], uint32(correlationID))
	return dst
}

// check returns the error code of the answer to a request.
func (a *ApiVersions) check(req *kmsg.ApiVersionsRequest) int16 {
	if req.Version < 3 {
		return 0
	}
	if !softwareName(req.ClientSoftwareName) || !softwareName(req.ClientSoftwareVersion) {
		return codeInvalidRequest
	}
	if req.Version < 5 {
		return 0
	}
	if (req.ClusterID == nil) != (req.NodeID == -1) {
		return codeInvalidRequest
	}
	if req.ClusterID != nil && (*req.ClusterID != a.identity.ClusterID || req.NodeID != a.identity.NodeID) {
		return codeRebootstrapRequired
	}
	return 0
}

// softwareName reports whether s is a letter or digit, or letters, digits, '-' and
// '.' between two of them (KIP-511).
func softwareName(s string) bool {
	for i := range len(s) {
		c := s[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		edge := i == 0 || i == len(s)-1
		if !plain && (edge || c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// AppendUnsupportedVersion appends the answer to an ApiVersions request of a
// version that is not supported, whose body nobody can read: version 0,
// UNSUPPORTED_VERSION, and the versions of ApiVersions itself.
func AppendUnsupportedVersion(dst []byte, correlationID int32) []byte {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = codeUnsupportedVersion
	self := kmsg.NewApiVersionsResponseApiKey()
	self.ApiKey, self.MinVersion, self.MaxVersion = KeyApiVersions, apis[KeyApiVersions].Advertised, apis[KeyApiVersions].Max
	resp.ApiKeys = append(resp.ApiKeys, self)
	return AppendResponse(dst, correlationID, resp)
}
