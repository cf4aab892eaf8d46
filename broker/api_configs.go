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
	malformed := slices.ContainsFunc(req.Resources, func(asked kmsg.DescribeConfigsRequestResource) bool {
		return !slices.Contains(resourceTypes, asked.ResourceType)
	})
	size := b.answerSize()
	defer size.done()
	all := map[configKey][]kmsg.DescribeConfigsResponseResourceConfig{} // of resources in the answer
	for i := range req.Resources {
		asked := &req.Resources[i]
		one := kmsg.NewDescribeConfigsResponseResource()
		one.ResourceType, one.ResourceName = asked.ResourceType, asked.ResourceName
		key := configKey{meta.ResourceType(asked.ResourceType), asked.ResourceName}
		configs, repeated := all[key]
		code, message := codeNone, ""
		switch {
		case malformed: // one unknown type spoils the whole request, as in Kafka
			code, message = codeInvalidRequest, malformedRequest
		case !repeated:
			var entries []config.Entry
			entries, code, message = b.configEntries(snap, c, asked.ResourceType, asked.ResourceName)
			for j := range entries {
				configs = append(configs, describedConfig(&entries[j], req))
			}
			if code == codeNone {
				all[key] = configs
			}
		}
		one.Configs = namedConfigs(configs, asked.ConfigNames)
		if !size.fits(configsSize(one.Configs), repeated) {
			one.Configs, code, message = nil, codeRequestTimedOut, "The answer to this request would be too long."
		}
		one.ErrorCode, one.ErrorMessage = code, &message
		resp.Resources = append(resp.Resources, one)
	}
	return r.answer(slices.Grow(out, size.total), resp)
}

// namedConfigs are those properties that are asked for; no names: all.
func namedConfigs(configs []kmsg.DescribeConfigsResponseResourceConfig, names []string) []kmsg.DescribeConfigsResponseResourceConfig {
	if len(names) == 0 {
		return configs
	}
	asked := make(map[string]bool, len(names))
	for _, name := range names {
		asked[name] = true
	}
	var list []kmsg.DescribeConfigsResponseResourceConfig
	for i := range configs {
		if asked[configs[i].Name] {
			list = append(list, configs[i])
		}
	}
	return list
}

// resourceTypes are the types of resources that Kafka knows.
var resourceTypes = []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, resourceBrokerLogger, resourceClientMetrics, resourceGroup}

// configEntries are a resource's properties, or why it has none.
func (b *Broker) configEntries(snap *meta.Snapshot, c *config.Config, typ kmsg.ConfigResourceType, name string) (_ []config.Entry, code int16, message string) {
	switch typ {
	case kmsg.ConfigResourceTypeTopic:
		if problem := topicNameProblem(name); problem != "" {
			return nil, codeInvalidTopic, problem
		}
		t := snap.Topic(name)
		if t == nil {
			return nil, codeUnknownTopicOrPartition, ""
		}
		return c.DescribeTopic(asMap(t.Configs)), codeNone, ""
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return c.DescribeCluster(), codeNone, ""
		}
		if problem := b.nodeIDProblem(name, "Broker", " or empty string,"); problem != "" {
			return nil, codeInvalidRequest, problem
		}
		return c.DescribeBroker(), codeNone, ""
	case resourceBrokerLogger:
		if name == "" {
			return nil, codeInvalidRequest, "Broker id must not be empty"
		}
		if problem := b.nodeIDProblem(name, "Broker", ""); problem != "" {
			return nil, codeInvalidRequest, problem
		}
	case resourceGroup:
		if name == "" {
			return nil, codeInvalidRequest, "Group name must not be empty"
		}
		return c.DescribeGroup(asMap(snap.Configs(meta.ResourceGroup, name))), codeNone, ""
	}
	return nil, codeInvalidRequest, fmt.Sprintf("Unsupported resource type: %s", typ)
}

// nodeIDProblem is what is wrong with a resource name that should be this
// node's id, in Kafka's words, or empty. The words depend on where it is asked.
func (b *Broker) nodeIDProblem(name, who, orElse string) string {
	if _, err := strconv.ParseInt(name, 10, 32); err != nil {
		return fmt.Sprintf("%s id must be an integer, but it is: %s", who, name)
	}
	if name != strconv.Itoa(int(b.nodeID)) {
		return fmt.Sprintf("Unexpected broker id, expected %d%s but received %s", b.nodeID, orElse, name)
	}
	return ""
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
	wanted := resourceTypes
	if r.version >= 1 && len(req.ResourceTypes) > 0 {
		wanted = nil
		for _, typ := range req.ResourceTypes {
			if !slices.Contains(resourceTypes, kmsg.ConfigResourceType(typ)) {
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
