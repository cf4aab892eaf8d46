package broker

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/internal/config"
	"github.com/kcoord/kcoord/internal/meta"
	"github.com/kcoord/kcoord/log"
	"github.com/kcoord/kcoord/netloop"
)

// A configKey names a resource with properties of its own.
type configKey struct {
	typ  meta.ResourceType
	name string
}

// A configEditor makes changes of properties one after the other. A change is on
// its way to the journal for a while; whoever changes the same resource meanwhile
// goes on from it.
type configEditor struct {
	// serial is held from the check of a change to its append, so that the journal
	// has changes in the order in which they were checked.
	serial sync.Mutex
	// rebuilding is held while the configuration is made anew: a later one is never
	// replaced by an earlier one.
	rebuilding sync.Mutex

	// mu guards what is on its way. The flusher takes it: it is held for moments, and
	// nothing is locked under it.
	mu struct {
		sync.Mutex
		pending map[configKey]*pendingConfigs
	}
}

type pendingConfigs struct {
	configs []meta.Config
	changes int // not durable yet
}

// incrementalAlterConfigs serves IncrementalAlterConfigs (44).
func (b *Broker) incrementalAlterConfigs(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.IncrementalAlterConfigsRequest)
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	var records [][]byte
	var changed []configKey
	twice := duplicates(req.Resources, alteredKey)
	b.configs.serial.Lock()
	defer b.configs.serial.Unlock()
	for i := range req.Resources {
		asked := &req.Resources[i]
		key := alteredKey(asked)
		one := kmsg.NewIncrementalAlterConfigsResponseResource()
		one.ResourceType, one.ResourceName = asked.ResourceType, asked.ResourceName
		var next []meta.Config
		code, message := codeInvalidRequest, "Each resource must appear at most once."
		if twice[key] == 0 {
			next, code, message = b.altered(key, asked)
		}
		if one.ErrorCode = code; code != codeNone {
			one.ErrorMessage = &message
		}
		resp.Resources = append(resp.Resources, one)
		if code != codeNone || req.ValidateOnly {
			continue
		}
		records = append(records, meta.AppendConfigs(nil, key.typ, key.name, next))
		b.configs.pend(key, next)
		changed = append(changed, key)
	}
	if len(records) == 0 {
		return r.answer(out, resp)
	}
	// The answer goes with the waiter: what was changed has to hold before it leaves.
	// Making that so takes longer than the flusher may be kept.
	answer := r.respond(nil, resp)
	conn, slot := r.session.conn, r.slot
	w := log.Waiter{At: neverLate, Conn: wakeUp(func() {
		b.configs.settled(changed)
		b.pool.submit(func() {
			b.rebuildConfig()
			b.release.complete(netloop.Completion{Conn: conn, Slot: slot, Answer: answer})
		})
	})}
	if err := b.store.AppendMetadata(records, &w, false); err != nil {
		b.configs.settled(changed)
		return r.refuse(out, codeStorageError)
	}
	return out, netloop.Later
}

func alteredKey(asked *kmsg.IncrementalAlterConfigsRequestResource) configKey {
	return configKey{meta.ResourceType(asked.ResourceType), asked.ResourceName}
}

func (e *configEditor) pend(key configKey, configs []meta.Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.pending == nil {
		e.mu.pending = make(map[configKey]*pendingConfigs)
	}
	p := e.mu.pending[key]
	if p == nil {
		p = &pendingConfigs{}
		e.mu.pending[key] = p
	}
	p.configs = configs
	p.changes++
}

// currentConfigs are a resource's properties with the changes that are on their way.
func (b *Broker) currentConfigs(key configKey) []meta.Config {
	b.configs.mu.Lock()
	p := b.configs.mu.pending[key]
	if p != nil {
		defer b.configs.mu.Unlock()
		return p.configs
	}
	b.configs.mu.Unlock()
	return b.meta.Load().Configs(key.typ, key.name) // loaded after that look: what is settled is in it
}

// settled notes that changes are durable and applied.
func (e *configEditor) settled(keys []configKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		p := e.mu.pending[key]
		if p.changes--; p.changes == 0 {
			delete(e.mu.pending, key)
		}
	}
}

// altered is what a resource's properties are after the asked changes, or why
// they cannot be made.
func (b *Broker) altered(key configKey, asked *kmsg.IncrementalAlterConfigsRequestResource) (_ []meta.Config, code int16, message string) {
	if code, message = b.checkAltered(b.meta.Load(), asked.ResourceType, asked.ResourceName); code != codeNone {
		return nil, code, message
	}
	set := asMap(b.currentConfigs(key))
	named := make(map[string]bool, len(asked.Configs))
	for i := range asked.Configs {
		c := &asked.Configs[i]
		if named[c.Name] {
			return nil, codeInvalidRequest, "Error due to duplicate config keys"
		}
		named[c.Name] = true
		current := func() string { return b.currentValue(key, c.Name, set) }
		if code, message = alterOne(set, b.propertyFinder(key.typ), current, c); code != codeNone {
			return nil, code, message
		}
	}
	if code, message = b.checkConfigs(key, set, asked.Configs); code != codeNone {
		return nil, code, message
	}
	return asList(set), codeNone, ""
}

// checkAltered tells what is wrong with the name of a resource to change.
func (b *Broker) checkAltered(snap *meta.Snapshot, typ kmsg.ConfigResourceType, name string) (code int16, message string) {
	switch typ {
	case kmsg.ConfigResourceTypeTopic:
		if name == "" {
			return codeInvalidRequest, "Default topic resources are not allowed."
		}
		if problem := topicNameProblem(name); problem != "" {
			return codeInvalidTopic, problem
		}
		if snap.Topic(name) == nil {
			return codeUnknownTopicOrPartition, fmt.Sprintf("The topic '%s' does not exist.", name)
		}
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return codeNone, ""
		}
		if problem := b.nodeIDProblem(name, "Node", ","); problem != "" {
			return codeInvalidRequest, problem
		}
	case resourceGroup:
		if name == "" {
			return codeInvalidRequest, "Default group resources are not allowed."
		}
	case resourceBrokerLogger, resourceClientMetrics:
		return codeInvalidRequest, fmt.Sprintf("Unsupported resource type: %s", typ)
	default:
		return codeInvalidRequest, fmt.Sprintf("Unknown resource type %d", typ)
	}
	return codeNone, ""
}

func asList(set map[string]string) []meta.Config {
	list := make([]meta.Config, 0, len(set))
	for name, value := range set {
		list = append(list, meta.Config{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b meta.Config) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// propertyFinder finds the properties of a resource type by name.
func (b *Broker) propertyFinder(typ meta.ResourceType) func(string) (*config.Property, bool) {
	switch typ {
	case meta.ResourceTopic:
		return config.FindTopic
	case meta.ResourceGroup:
		return config.FindGroup
	}
	return config.Find
}

// currentValue is a property's value that APPEND and SUBTRACT start from: its
// own, else the one that it has without.
func (b *Broker) currentValue(key configKey, name string, set map[string]string) string {
	if value, ok := set[name]; ok {
		return value
	}
	var entries []config.Entry
	switch c := b.config.Load(); key.typ {
	case meta.ResourceTopic:
		entries = c.DescribeTopic(set)
	case meta.ResourceGroup:
		entries = c.DescribeGroup(set)
	default:
		entries = c.DescribeBroker()
	}
	for i := range entries {
		if entries[i].Name == name && entries[i].Value != nil {
			return *entries[i].Value
		}
	}
	return ""
}

// alterOne makes one change to set.
func alterOne(set map[string]string, find func(string) (*config.Property, bool), current func() string, c *kmsg.IncrementalAlterConfigsRequestResourceConfig) (code int16, message string) {
	if c.Op == kmsg.IncrementalAlterConfigOpDelete {
		delete(set, c.Name)
		return codeNone, ""
	}
	if c.Value == nil {
		return codeInvalidRequest, fmt.Sprintf("Null value not supported for : %s", c.Name)
	}
	if c.Op == kmsg.IncrementalAlterConfigOpSet {
		set[c.Name] = *c.Value
		return codeNone, ""
	}
	if c.Op != kmsg.IncrementalAlterConfigOpAppend && c.Op != kmsg.IncrementalAlterConfigOpSubtract {
		return codeInvalidRequest, fmt.Sprintf("Unknown operation %d for configuration %s.", c.Op, c.Name)
	}
	p, known := find(c.Name)
	if !known || p.Type != config.List {
		return codeInvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", c.Op, c.Name)
	}
	words := config.SplitList(current())
	for _, word := range config.SplitList(*c.Value) {
		at := slices.Index(words, word)
		switch {
		case c.Op == kmsg.IncrementalAlterConfigOpAppend && at < 0:
			words = append(words, word)
		case c.Op == kmsg.IncrementalAlterConfigOpSubtract && at >= 0:
			words = slices.Delete(words, at, at+1)
		}
	}
	value := strings.Join(words, ",")
	if len(value) > maxConfigValue {
		return codeInvalidConfig, fmt.Sprintf("A property may have at most %d bytes.", maxConfigValue)
	}
	set[c.Name] = value
	return codeNone, ""
}

// maxConfigValue is the most bytes of a property's value: what a metadata record
// has room for. What comes in one request is never longer.
const maxConfigValue = 1<<15 - 1

// checkConfigs tells whether all of a resource's properties are valid together.
func (b *Broker) checkConfigs(key configKey, set map[string]string, asked []kmsg.IncrementalAlterConfigsRequestResourceConfig) (code int16, message string) {
	c := b.config.Load()
	var err error
	switch key.typ {
	case meta.ResourceTopic:
		_, err = c.Topic(set)
	case meta.ResourceGroup:
		err = c.CheckGroup(set)
	default:
		for i := range asked {
			name := asked[i].Name
			if p, ok := config.Find(name); ok && (p.Mode == config.ReadOnly || key.name == "" && p.Mode == config.PerBroker) {
				return codeInvalidRequest, fmt.Sprintf("Cannot update these configs dynamically: [%s]", name)
			}
		}
		layer := config.DynamicBrokerSource
		if key.name == "" {
			layer = config.DynamicDefaultSource
		}
		_, err = c.With(layer, set)
	}
	var wrong *config.Error
	if errors.As(err, &wrong) {
		// Kafka has another code for brokers than for topics and groups.
		if key.typ == meta.ResourceBroker {
			return codeInvalidRequest, wrong.Message()
		}
		return codeInvalidConfig, wrong.Message()
	}
	return codeNone, ""
}

// maxOffsetsBatch is the most that max.message.bytes of the offsets topic can
// allow, in bytes: the store takes no larger batch.
const maxOffsetsBatch = 64 << 20

// rebuildConfig makes the configuration that holds from now on out of the
// settings given at the start and those kept in metadata.
func (b *Broker) rebuildConfig() {
	b.configs.rebuilding.Lock()
	defer b.configs.rebuilding.Unlock()
	snap := b.meta.Load()
	c := b.static
	for _, layer := range []struct {
		source config.Source
		name   string
	}{{config.DynamicDefaultSource, ""}, {config.DynamicBrokerSource, strconv.Itoa(int(b.nodeID))}} {
		next, err := c.With(layer.source, asMap(snap.Configs(meta.ResourceBroker, layer.name)))
		if err != nil {
			// Kept by a version that knew the property: what the start gave holds.
			if e := b.warn("settings"); e != nil {
				e.Err(err).Msg("settings kept in the data folder are not used")
			}
			continue
		}
		c = next
	}
	b.config.Store(c)
	groups := coordinatorConfig(c.Values())
	groups.Groups = groupConfigs(snap, c)
	if t := snap.Topic(offsetsTopic); t != nil {
		groups.MaxMessageBytes = int(min(b.topicConfig(t).MaxMessageBytes, maxOffsetsBatch))
	}
	b.groupConfig.Store(groups)
	b.store.RefreshConfigs() // topics without a value of their own take the broker's
}
