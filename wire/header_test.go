package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// header builds the bytes of a request header; a client id of "\x00" is null.
func header(key, version int16, correlationID int32, clientID string, tags ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlationID))
	if clientID == "\x00" {
		b = append(b, 0xff, 0xff)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
		b = append(b, clientID...)
	}
	return append(b, tags...)
}

// manyTags is a section of n tagged fields, each empty.
func manyTags(n int) []byte {
	b := binary.AppendUvarint(nil, uint64(n))
	for i := range n {
		b = append(binary.AppendUvarint(b, uint64(1000+i)), 0)
	}
	return b
}

func TestParseHeader(t *testing.T) {
	long := strings.Repeat("c", maxString)
	for _, tt := range []struct {
		name  string
		frame []byte
		want  string // key version correlation client body, or an error
	}{
		{"v1", header(12, 3, 7, "me"), `12 3 7 "me" ""`},
		{"v1, a body", append(header(12, 0, -1, "me"), "body"...), `12 0 -1 "me" "body"`},
		{"v1, client id null", header(12, 3, 1<<31-1, "\x00"), `12 3 2147483647 "" ""`},
		{"v1, client id empty", header(12, 3, -1<<31, ""), `12 3 -2147483648 "" ""`},
		{"v1, the longest client id", header(12, 3, 1, long), `12 3 1 "` + long + `" ""`},
		{"v2", append(header(12, 4, 7, "me", 0), "body"...), `12 4 7 "me" "body"`},
		{"v2, tagged fields", append(header(12, 4, 7, "me", 2, 0, 1, 9, 5, 0), "body"...), `12 4 7 "me" "body"`},
		{"v2, the most tagged fields", append(header(12, 4, 7, "me", manyTags(maxTags)...), "body"...), `12 4 7 "me" "body"`},
		{"v2, one tagged field too many", header(12, 4, 7, "me", manyTags(maxTags+1)...), "wire: malformed request"},
		{"v2, no tagged fields", header(12, 4, 7, "me"), "wire: malformed request"},
		{"v2, tagged field too long", header(12, 4, 7, "me", 1, 0, 5, 1, 2), "wire: malformed request"},
		{"v2, tagged field without length", header(12, 4, 7, "me", 1, 0), "wire: malformed request"},
		{"v2, endless number", header(12, 4, 7, "me", 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "wire: malformed request"},
		{"v2, number above 32 bits", header(12, 4, 7, "me", 0xff, 0xff, 0xff, 0xff, 0x1f), "wire: malformed request"},
		{"empty", nil, "wire: malformed request"},
		{"9 bytes", header(12, 3, 7, "")[:9], "wire: malformed request"},
		{"client id too long", header(12, 3, 7, "me")[:11], "wire: malformed request"},
		{"unknown key", header(1000, 0, 7, "me"), "wire: unknown API key"},
		{"negative key", header(-1, 0, 7, "me"), "wire: unknown API key"},
		{"key between others", header(4, 0, 7, "me"), "wire: unknown API key"},
		{"version above", header(12, 5, 7, "me", 0), "wire: unsupported version"},
		{"version negative", header(12, -1, 7, "me"), "wire: unsupported version"},
		{"version below", header(8, 1, 7, "me"), "wire: unsupported version"},
		{"Produce below what is served", header(0, 2, 7, "me"), "wire: unsupported version"},
		{"ApiVersions 5", header(18, 5, 7, "me", 0), `18 5 7 "me" ""`},
		{"ApiVersions 2", header(18, 2, 7, "me"), `18 2 7 "me" ""`},
	} {
		h, err := ParseHeader(tt.frame)
		got := fmt.Sprintf("%d %d %d %q %q", h.Key, h.Version, h.CorrelationID, h.ClientID, h.Body)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %.100s, want %.100s", tt.name, got, tt.want)
		}
	}
}

// TestUnsupportedApiVersions answers what no body can be read of.
func TestUnsupportedApiVersions(t *testing.T) {
	for _, version := range []int16{6, 9, 127, 32767} {
		h, err := ParseHeader(append(header(18, version, 0x01020304, "me", 0), "anything"...))
		if !errors.Is(err, ErrUnsupportedVersion) || h.Key != KeyApiVersions || h.CorrelationID != 0x01020304 {
			t.Fatalf("version %d: %+v, %v", version, h, err)
		}
		got := AppendUnsupportedVersion([]byte("x"), h.CorrelationID)
		want := []byte{'x', 0, 0, 0, 16, 1, 2, 3, 4, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}
		if !bytes.Equal(got, want) {
			t.Errorf("answer % x, want % x", got, want)
		}
	}
	if _, err := ParseHeader(header(18, 99, 1, "me", 5)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a malformed header at an unsupported version: %v", err)
	}
}

func TestFrameLimit(t *testing.T) {
	const socket = 100 << 20
	for _, tt := range []struct {
		key  int16
		max  int
		want int
	}{
		{12, socket, 64 << 10}, {18, socket, 64 << 10}, {22, socket, 64 << 10},
		{8, socket, 8 << 20}, {3, socket, 8 << 20}, {11, socket, 8 << 20},
		{0, socket, socket}, {1, socket, socket}, {19, socket, socket},
		{8, 1000, 1000}, {0, 1000, 1000}, {12, 1000, 1000},
		{4, socket, 0}, {1000, socket, 0}, {-1, socket, 0},
	} {
		head := [6]byte{0, 0, 1, 0, byte(uint16(tt.key) >> 8), byte(tt.key)}
		if got := FrameLimit(head, tt.max); got != tt.want {
			t.Errorf("key %d: limit %d, want %d", tt.key, got, tt.want)
		}
	}
}

// TestTable checks the rows against kmsg and against what Kafka 4.4 advertises.
func TestTable(t *testing.T) {
	all := APIs()
	if len(all) == 0 || len(schemas) < len(apis) {
		t.Fatalf("%d APIs, %d rows of fields for keys up to %d", len(all), len(schemas), len(apis)-1)
	}
	for _, api := range all {
		req := kmsg.RequestForKey(api.Key)
		if req == nil || api.Max > req.MaxVersion() || api.Min > api.Max || api.Min < 0 || api.Advertised > api.Min {
			t.Errorf("%+v does not fit kmsg", api)
			continue
		}
		if got := strings.ToLower(kmsg.NameForKey(api.Key)); got != strings.ToLower(api.Name) {
			t.Errorf("key %d is called %s and %s", api.Key, api.Name, got)
		}
		if schemas[api.Key] == nil {
			t.Errorf("%s has no row of fields", api.Name)
		}
		for version := api.Min; version <= api.Max; version++ {
			req.SetVersion(version)
			if req.IsFlexible() != (version >= api.Flexible) || req.ResponseKind().IsFlexible() != req.IsFlexible() {
				t.Errorf("%s: version %d is flexible: %v", api.Name, version, req.IsFlexible())
			}
		}
	}
	if _, ok := Lookup(-1); ok {
		t.Error("a negative key was found")
	}
	if api, ok := Lookup(0); !ok || api.Name != "Produce" || api.Advertised != 0 || api.Min != 3 {
		t.Errorf("Produce is %+v", api)
	}
}

// TestApiVersions answers by KIP-511, KIP-584 and KIP-1242.
func TestApiVersions(t *testing.T) {
	a := NewApiVersions(Identity{ClusterID: "cluster", NodeID: 1, FeaturesEpoch: 7, Features: []Feature{
		{Name: "group.version", Min: 0, Max: 1, Level: 1}, {Name: "metadata.version", Min: 7, Max: 33, Level: 33}, {Name: "share.version", Min: 0, Max: 2}}})
	ask := func(version int16, name, software string, cluster *string, node int32) *kmsg.ApiVersionsResponse {
		t.Helper()
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion, req.ClusterID, req.NodeID = version, name, software, cluster, node
		body := checkResponse(t, API{Key: KeyApiVersions, Flexible: 3}, version, a.Append(nil, -3, req), -3)
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = version
		if err := resp.ReadFrom(body); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		return resp
	}
	for version := int16(0); version <= 5; version++ {
		resp := ask(version, "franz-go", "1.2.3", nil, -1)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(APIs()) || resp.ApiKeys[0].MinVersion != 0 || resp.ApiKeys[0].MaxVersion != 13 {
			t.Errorf("version %d: %+v", version, resp)
		}
		supported, finalized := map[int16]int{3: 1, 4: 3, 5: 3}[version], map[int16]int{3: 2, 4: 2, 5: 2}[version]
		if len(resp.SupportedFeatures) != supported || len(resp.FinalizedFeatures) != finalized || version >= 3 && resp.FinalizedFeaturesEpoch != 7 {
			t.Errorf("version %d: features %+v, %+v, epoch %d", version, resp.SupportedFeatures, resp.FinalizedFeatures, resp.FinalizedFeaturesEpoch)
		}
	}
	for _, tt := range []struct {
		version        int16
		name, software string
		cluster        *string
		node           int32
		want           int16
	}{
		{0, "", "", nil, -1, 0}, {2, "bad name!", "", nil, -1, 0},
		{3, "a", "1", nil, -1, 0}, {3, "a.b-c", "1.0-x", nil, -1, 0}, {3, "A9", "Z", nil, -1, 0},
		{3, "", "1", nil, -1, 42}, {3, "a", "", nil, -1, 42}, {3, "bad name!", "1", nil, -1, 42}, {4, "a", "1_0", nil, -1, 42},
		{3, "-a", "1", nil, -1, 42}, {3, "a-", "1", nil, -1, 42}, {3, ".", "1", nil, -1, 42}, {3, "a", "1.", nil, -1, 42}, {3, "ä", "1", nil, -1, 42},
		{5, "a", "1", kmsg.StringPtr("cluster"), 1, 0},
		{5, "a", "1", kmsg.StringPtr("cluster"), -1, 42}, {5, "a", "1", nil, 1, 42},
		{5, "a", "1", kmsg.StringPtr("other"), 1, 129}, {5, "a", "1", kmsg.StringPtr("cluster"), 2, 129}, {5, "a", "1", kmsg.StringPtr(""), 1, 129},
		{5, "", "1", kmsg.StringPtr("other"), 1, 42},
	} {
		resp := ask(tt.version, tt.name, tt.software, tt.cluster, tt.node)
		if resp.ErrorCode != tt.want || (tt.want != 0) != (len(resp.ApiKeys) == 0) {
			t.Errorf("%+v: code %d, %d APIs", tt, resp.ErrorCode, len(resp.ApiKeys))
		}
	}
}

// TestTableIsWithinKafka compares the rows with what a real Kafka advertised: an
// API or version that Kafka does not have would be one that no client knows.
func TestTableIsWithinKafka(t *testing.T) {
	kafka := make(map[int16]kmsg.ApiVersionsResponseApiKey)
	for _, e := range exchanges(t)["kafka-4.4.0"] {
		if e.name == "ApiVersions 5" {
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.Version = 5
			if err := resp.ReadFrom(e.response[4:]); err != nil {
				t.Fatal(err)
			}
			for _, key := range resp.ApiKeys {
				kafka[key.ApiKey] = key
			}
		}
	}
	for _, api := range APIs() {
		key, ok := kafka[api.Key]
		if !ok || api.Advertised < key.MinVersion || api.Max > key.MaxVersion {
			t.Errorf("%+v, Kafka has %d to %d", api, key.MinVersion, key.MaxVersion)
		}
	}
}
