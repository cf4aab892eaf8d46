package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// GroupValues are the honoured properties of a group in typed form.
type GroupValues struct {
	ConsumerSessionTimeout     time.Duration // consumer.session.timeout.ms
	ConsumerHeartbeatInterval  time.Duration
	ConsumerAssignmentInterval time.Duration
}

func (v *GroupValues) bindings() map[string]any {
	return map[string]any{
		"consumer.session.timeout.ms":     &v.ConsumerSessionTimeout,
		"consumer.heartbeat.interval.ms":  &v.ConsumerHeartbeatInterval,
		"consumer.assignment.interval.ms": &v.ConsumerAssignmentInterval,
	}
}

// Group returns the values of a group with these properties set on it; the others
// are the broker's. A value that lies outside the broker's bounds now, though it
// did not when it was set, is moved to the nearest bound (since Kafka 4.3). set is
// what CheckGroup accepted.
func (c *Config) Group(set map[string]string) *GroupValues {
	v := &GroupValues{}
	for name, into := range v.bindings() {
		p, _ := FindGroup(name)
		value := c.valueOf(p, set)
		if low, high, ok := c.groupBounds(name); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				panic(fmt.Sprintf("config: %s=%s was found valid: %v", name, value, err))
			}
			value = strconv.FormatInt(min(max(n, low), high), 10)
		}
		store(into, name, value)
	}
	return v
}

// CheckGroup finds what is wrong with what somebody wants to set on a group, all
// of it together. The error is an *Error.
func (c *Config) CheckGroup(set map[string]string) error {
	if err := groupScope.checkAll(set, GroupSource); err != nil {
		return err
	}
	for i := range groupLevelProperties {
		p := &groupLevelProperties[i]
		value, ok := set[p.Name]
		if !ok {
			continue
		}
		if err := c.checkGroupBounds(p, value); err != nil {
			return err
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		heartbeat, session := kind+".heartbeat.interval.ms", kind+".session.timeout.ms"
		h, s := c.groupNumber(heartbeat, set), c.groupNumber(session, set)
		if h >= s {
			return &Error{Setting: Setting{Name: session, Value: strconv.FormatInt(s, 10), Source: GroupSource},
				Problem: fmt.Sprintf("must be above %s, which is %d", heartbeat, h),
				message: fmt.Sprintf("%s must be greater than %s.", session, heartbeat)}
		}
	}
	return nil
}

// checkGroupBounds checks a value against the broker's bounds for groups.
func (c *Config) checkGroupBounds(p *Property, value string) error {
	low, high, ok := c.groupBounds(p.Name)
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: %s=%s was found valid: %v", p.Name, value, err))
	}
	if n < low || n > high {
		return &Error{Setting: Setting{Name: p.Name, Value: value, Source: GroupSource},
			Problem: fmt.Sprintf("must be from %d to %d, the bounds of the broker", low, high),
			message: fmt.Sprintf("%s must be in the range %d to %d inclusive.", p.Name, low, high)}
	}
	return nil
}

// groupNumber is the value of a group's property that is a number.
func (c *Config) groupNumber(name string, set map[string]string) int64 {
	p, ok := FindGroup(name)
	if !ok {
		panic("config: no group property " + name)
	}
	n, err := strconv.ParseInt(c.valueOf(p, set), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: %s=%s was found valid: %v", name, c.valueOf(p, set), err))
	}
	return n
}

// groupBounds are the broker properties that bound a group's property: for
// consumer.session.timeout.ms they are group.consumer.min.session.timeout.ms and
// group.consumer.max.session.timeout.ms. Some have an upper one only.
func (c *Config) groupBounds(name string) (low, high int64, ok bool) {
	kind, rest, _ := strings.Cut(name, ".")
	rest = strings.TrimPrefix(rest, "num.")
	bound := func(which string) (int64, bool) {
		broker := "group." + kind + "." + which + "." + rest
		if _, ok := Find(broker); !ok {
			return 0, false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(c.Get(broker)), 10, 64)
		if err != nil {
			panic(fmt.Sprintf("config: %s=%s was found valid: %v", broker, c.Get(broker), err))
		}
		return n, true
	}
	low, hasLow := bound("min")
	high, hasHigh := bound("max")
	if !hasHigh {
		high = 1<<31 - 1
	}
	return low, high, hasLow || hasHigh
}

var isoDuration = regexp.MustCompile(`^(?i)P([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?$`)

func checkOffsetReset(value string) string {
	const allowed = "latest, earliest, or by_duration: and a duration as P3DT12H30M"
	if value == "latest" || value == "earliest" {
		return ""
	}
	duration, ok := strings.CutPrefix(value, "by_duration:")
	if last := len(duration) - 1; !ok || !isoDuration.MatchString(duration) || last < 2 || strings.HasSuffix(strings.ToUpper(duration), "T") {
		return allowed
	}
	return ""
}

func checkDeadLetterTopic(value string) string {
	if strings.HasPrefix(value, "__") {
		return "a name that does not begin with __"
	}
	return ""
}
