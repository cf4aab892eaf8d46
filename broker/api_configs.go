package broker

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/config"
	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/netloop"
)

// Resource types of config requests that have no properties here.
const (
	resourceBrokerLogger  = kmsg.ConfigResourceType(8)
	resourceClientMetrics = kmsg.ConfigResourceType(16)
	resourceGroup         = kmsg.ConfigResourceType(32)
)

// describeConfigs serves DescribeConfigs (32).
func (b *Broker) describeConfigs(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.DescribeConfigsRequest)
	resp := kmsg.NewPtrDescribeConfigsResponse()
	snap, c := b.meta.Load(), b.config.Load()
	for i := range req.Resources {
		asked := &req.Resources[i]
		one := kmsg.NewDescribeConfigsResponseResource()
		one.ResourceType, one.ResourceName = asked.ResourceType, asked.ResourceName
		entries, code, message := b.configEntries(snap, c, asked.ResourceType, asked.ResourceName)
		if one.ErrorCode = code; code != codeNone {
			one.ErrorMessage = &message
		}
		for j := range entries {
			if asked.ConfigNames == nil || slices.Contains(asked.ConfigNames, entries[j].Name) {
				one.Configs = append(one.Configs, describedConfig(&entries[j], req))
			}
		}
		resp.Resources = append(resp.Resources, one)
	}
	return r.answer(out, resp)
}

// configEntries are a resource's properties, or why it has none.
func (b *Broker) configEntries(snap *meta.Snapshot, c *config.Config, typ kmsg.ConfigResourceType, name string) (_ []config.Entry, code int16, message string) {
	code, message = b.checkResource(snap, typ, name)
	switch {
	case code != codeNone:
		return nil, code, message
	case typ == kmsg.ConfigResourceTypeTopic:
		return c.DescribeTopic(asMap(snap.Topic(name).Configs)), codeNone, ""
	case typ == resourceGroup:
		return c.DescribeGroup(asMap(snap.Configs(meta.ResourceGroup, name))), codeNone, ""
	case name == "":
		return c.DescribeCluster(), codeNone, ""
	}
	return c.DescribeBroker(), codeNone, ""
}

// checkResource tells what is wrong with the name of a resource.
func (b *Broker) checkResource(snap *meta.Snapshot, typ kmsg.ConfigResourceType, name string) (code int16, message string) {
	switch typ {
	case kmsg.ConfigResourceTypeTopic:
		if snap.Topic(name) == nil {
			return codeUnknownTopicOrPartition, "This server does not host this topic-partition."
		}
	case kmsg.ConfigResourceTypeBroker:
		if name != "" && name != strconv.Itoa(int(b.nodeID)) {
			return codeInvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d or empty string, but received %s", b.nodeID, name)
		}
	case resourceGroup:
		if name == "" {
			return codeInvalidRequest, "Group name must not be empty."
		}
	default:
		return codeInvalidRequest, fmt.Sprintf("Unsupported resource type: %s", typ)
	}
	return codeNone, ""
}

func describedConfig(e *config.Entry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ReadOnly, c.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive()
	c.Source, c.IsDefault = kmsg.ConfigSource(e.Source), e.Source == config.DefaultSource
	c.ConfigType = kmsg.ConfigType(e.Type)
	if req.IncludeDocumentation && e.Doc != "" {
		c.Documentation = &e.Doc
	}
	if req.IncludeSynonyms {
		for _, s := range e.Synonyms {
			synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			synonym.Name, synonym.Value, synonym.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			c.ConfigSynonyms = append(c.ConfigSynonyms, synonym)
		}
	}
	return c
}

func asMap(configs []meta.Config) map[string]string {
	m := make(map[string]string, len(configs))
	for _, c := range configs {
		m[c.Name] = c.Value
	}
	return m
}

// listConfigResources serves ListConfigResources (74): version 0 asks for client
// metrics only, of which there are none.
func (b *Broker) listConfigResources(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	add := func(typ kmsg.ConfigResourceType, names ...string) {
		for _, name := range names {
			one := kmsg.NewListConfigResourcesResponseConfigResource()
			one.Name, one.Type = name, int8(typ)
			resp.ConfigResources = append(resp.ConfigResources, one)
		}
	}
	known := []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, resourceBrokerLogger, resourceClientMetrics, resourceGroup}
	wanted := known
	if r.version >= 1 && len(req.ResourceTypes) > 0 {
		wanted = nil
		for _, typ := range req.ResourceTypes {
			if !slices.Contains(known, kmsg.ConfigResourceType(typ)) {
				resp.ErrorCode = codeUnsupportedVersion
				return r.answer(out, resp)
			}
			wanted = append(wanted, kmsg.ConfigResourceType(typ))
		}
	} else if r.version == 0 {
		wanted = nil
	}
	snap, node := b.meta.Load(), strconv.Itoa(int(b.nodeID))
	for _, typ := range wanted {
		switch typ {
		case kmsg.ConfigResourceTypeTopic:
			for _, t := range snap.Topics() {
				add(typ, t.Name)
			}
		case kmsg.ConfigResourceTypeBroker, resourceBrokerLogger:
			add(typ, node)
		case resourceGroup:
			add(typ, snap.Resources(meta.ResourceGroup)...)
		}
	}
	return r.answer(out, resp)
}
