// Package transcript holds conversations with a Kafka broker as text: requests
// as they are sent, at exact versions, and the answers a broker gave. Recorded
// from Apache Kafka and replayed against kcoord, they show where the two differ.
//
// A script is a list of steps, each followed by what it printed:
//
//	# a comment
//	a JoinGroup/5 {"Group": "g", "ProtocolType": "consumer"}     send on connection a, print the answer
//	a JoinGroup/5 {...} &      send only; the answer is read by a later "a recv"
//	a recv                     print the next answer on a
//	a silent 300ms             print whether an answer arrives within that time
//	let m1 = MemberID          name a value of the last answer; it prints as $m1 and may stand in requests
//	a ApiVersions/0 | ErrorCode, ApiKeys[ApiKey=11]    print only these parts of the answer
//	a OffsetFetch/7 {...} | sorted    print every list sorted: its order follows Kafka's hash maps
//	a raw 0000000a ff          send bytes; print the answer's length, or that the connection was closed
//	a client "name"            send with another client id from now on; null sends none
//	a close                    close the connection
//	text x = 4097 "é"          $x stands for that text so many times
//	broker group.max.size=2    the script is for a broker with this setting
//	sleep 200ms
//	----
//	{ErrorCode: 79, MemberID: "$m1"}
//	---- kcoord: why it differs here
//	{...}
package transcript

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Step is one command with its recorded outcome.
type Step struct {
	Comments []string // comment lines before the step
	Command  string   // may span lines; the first word is not indented, further lines are
	Want     string   // what Apache Kafka said
	// Reason and Ours stand where kcoord answers otherwise on purpose.
	Reason, Ours string
}

const (
	separator = "----"
	ourMark   = "---- kcoord: "
)

// Parse reads a script.
func Parse(text string) ([]Step, error) {
	var (
		steps []Step
		cur   Step
		into  *string
	)
	flush := func() {
		if cur.Command != "" {
			steps = append(steps, cur)
			cur = Step{}
		}
		into = nil
	}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, ourMark):
			cur.Reason, into = strings.TrimPrefix(line, ourMark), &cur.Ours
		case line == separator:
			if cur.Command == "" {
				return nil, fmt.Errorf("line %d: %s without a command", i+1, separator)
			}
			into = &cur.Want
		case into != nil && line != "":
			*into += line + "\n"
		case line == "" || strings.HasPrefix(line, "#"):
			flush()
			if line != "" {
				cur.Comments = append(cur.Comments, line)
			}
		case strings.HasPrefix(line, " ") && cur.Command != "":
			cur.Command += "\n" + line
		default:
			flush()
			cur.Command = line
		}
	}
	flush()
	return steps, nil
}

// Format writes a script as Parse reads it.
func Format(steps []Step) string {
	var b strings.Builder
	for i, s := range steps {
		if i > 0 && len(s.Comments) > 0 && steps[i-1].Want == "" && steps[i-1].Reason == "" {
			b.WriteString("\n")
		}
		for _, c := range s.Comments {
			b.WriteString(c + "\n")
		}
		b.WriteString(s.Command + "\n")
		if s.Want != "" {
			b.WriteString(separator + "\n" + s.Want)
		}
		if s.Reason != "" {
			b.WriteString(ourMark + s.Reason + "\n" + s.Ours)
		}
		if s.Want != "" || s.Reason != "" {
			b.WriteString("\n")
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// A Runner runs the steps of one script against one broker.
type Runner struct {
	addr  string
	conns map[string]*conn
	last  any // the last answer
	names []binding
}

type binding struct{ name, value string }

// NewRunner makes a runner against the broker at addr.
func NewRunner(addr string) *Runner {
	r := &Runner{addr: addr, conns: map[string]*conn{}}
	if host, port, ok := strings.Cut(addr, ":"); ok {
		r.names = append(r.names, binding{"host", host}, binding{"port", port})
	}
	return r
}

// Close closes all connections.
func (r *Runner) Close() {
	for _, c := range r.conns {
		c.close()
	}
}

// Run runs one step and returns what it printed.
func (r *Runner) Run(command string) (string, error) {
	words := strings.Fields(command)
	switch words[0] {
	case "sleep":
		d, err := time.ParseDuration(words[1])
		time.Sleep(d)
		return "", err
	case "let":
		return "", r.let(words)
	case "text":
		return "", r.text(command)
	case "broker":
		return "", r.settings(words[1:])
	}
	c, ok := r.conns[words[0]]
	if !ok {
		var err error
		if c, err = connect(r.addr); err != nil {
			return "", err
		}
		if err = c.served(); err != nil {
			return "", err
		}
		r.conns[words[0]] = c
	}
	out, err := r.onConn(c, words, strings.TrimSpace(strings.TrimPrefix(command, words[0])))
	return r.hide(out), err
}

func (r *Runner) let(words []string) error {
	if len(words) != 4 || r.last == nil {
		return fmt.Errorf("let NAME = PATH expected, after an answer")
	}
	value, err := lookup(r.last, words[3])
	if err != nil {
		return err
	}
	r.bind(words[1], value)
	return nil
}

func (r *Runner) bind(name, value string) {
	r.names = slices.DeleteFunc(r.names, func(b binding) bool { return b.name == name })
	r.names = append(r.names, binding{name, value})
}

func (r *Runner) text(command string) error {
	var name, value string
	var n int
	if _, err := fmt.Sscanf(command, "text %s = %d %q", &name, &n, &value); err != nil {
		return fmt.Errorf("text NAME = COUNT \"TEXT\" expected: %w", err)
	}
	r.bind(name, strings.Repeat(value, n))
	return nil
}

// Settings returns the properties that a script's broker needs.
func Settings(steps []Step) map[string]string {
	props := map[string]string{}
	for _, s := range steps {
		if words := strings.Fields(s.Command); words[0] == "broker" {
			for _, w := range words[1:] {
				name, value, _ := strings.Cut(w, "=")
				props[name] = value
			}
		}
	}
	return props
}

// settings checks that the broker has the settings that a script is for.
func (r *Runner) settings(wanted []string) error {
	for _, w := range wanted {
		name, value, _ := strings.Cut(w, "=")
		out, err := r.Run(fmt.Sprintf(`settings DescribeConfigs/4 {"Resources": [{"ResourceType": 4, "ResourceName": "1", "ConfigNames": [%q]}]} | Resources[0].Configs[0].Value`, name))
		if err != nil {
			return err
		}
		if !strings.HasSuffix(out, fmt.Sprintf(": %q\n", value)) {
			return fmt.Errorf("the script is for a broker with %s, not %s", w, strings.TrimSpace(out))
		}
	}
	return nil
}

func (r *Runner) onConn(c *conn, words []string, rest string) (string, error) {
	switch words[1] {
	case "recv":
		_, paths := cutPaths(rest)
		return r.receive(c, paths)
	case "silent":
		d, err := time.ParseDuration(words[2])
		if err != nil {
			return "", err
		}
		return c.silent(d), nil
	case "close":
		c.close()
		delete(r.conns, words[0])
		return "", nil
	case "client":
		return "", c.client(strings.TrimSpace(strings.TrimPrefix(rest, "client")))
	case "raw":
		return c.raw(strings.Join(words[2:], ""))
	}
	async := strings.HasSuffix(rest, "&")
	rest, paths := cutPaths(strings.TrimSuffix(rest, "&"))
	head, body, _ := strings.Cut(rest, " ")
	if err := c.send(head, r.show(body)); err != nil {
		return "", err
	}
	if async {
		return "", nil
	}
	return r.receive(c, paths)
}

// cutPaths takes the parts of the answer that are to be printed off a command.
func cutPaths(rest string) (command string, paths []string) {
	command, list, ok := strings.Cut(rest, " | ")
	if !ok {
		return rest, nil
	}
	for _, p := range strings.Split(list, ",") {
		paths = append(paths, strings.TrimSpace(p))
	}
	return command, paths
}

func (r *Runner) receive(c *conn, paths []string) (string, error) {
	resp, text, err := c.receive()
	if err != nil || resp == nil {
		return text, err
	}
	r.last = resp
	switch {
	case paths == nil:
		return format(resp, r.hide, false) + "\n", nil
	case paths[0] == "sorted":
		return format(resp, r.hide, true) + "\n", nil
	}
	return pick(resp, paths, r.hide)
}

// show puts values in for names, hide names for values: longest first, so that
// no value hides in a longer one.
func (r *Runner) show(s string) string {
	for _, b := range r.sorted(func(b binding) int { return len(b.name) }) {
		s = strings.ReplaceAll(s, "$"+b.name, b.value)
	}
	return s
}

func (r *Runner) hide(s string) string {
	for _, b := range r.sorted(func(b binding) int { return len(b.value) }) {
		switch b.name {
		case "port":
			s = strings.ReplaceAll(s, "Port: "+b.value, "Port: $port")
		case "host":
			s = strings.ReplaceAll(s, `Host: "`+b.value+`"`, `Host: "$host"`)
		default:
			if len(b.value) > 3 { // a short number would hide too much
				s = strings.ReplaceAll(s, b.value, "$"+b.name)
			}
		}
	}
	return ids.ReplaceAllString(uuids.ReplaceAllString(s, "<uuid>"), `$1: "<id>"`)
}

var (
	// uuids finds the random part of generated member ids.
	uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	// ids finds topic and cluster ids that no name stands for yet.
	ids = regexp.MustCompile(`(TopicID|ClusterID): "[A-Za-z0-9_-]{21}[AQgw]"`)
)

func (r *Runner) sorted(length func(binding) int) []binding {
	out := slices.Clone(r.names)
	slices.SortStableFunc(out, func(a, b binding) int { return length(b) - length(a) })
	return out
}

// Ready waits until the broker serves groups of every partition of its offsets
// topic: a first start makes and loads them one by one.
func (r *Runner) Ready() error {
	const groups, tries = 400, 300
	var last string
	for i := range groups {
		for try := range tries {
			out, err := r.Run(fmt.Sprintf(`ready FindCoordinator/3 {"CoordinatorKey": "ready-%d"}`, i))
			if err == nil && strings.Contains(out, "ErrorCode: 0") {
				out, err = r.Run(fmt.Sprintf(`ready Heartbeat/0 {"Group": "ready-%d", "MemberID": "nobody"}`, i))
			}
			if err != nil {
				return err
			}
			if last = out; strings.Contains(out, "ErrorCode: 25") {
				break
			}
			if try == tries-1 {
				return fmt.Errorf("the coordinator is not ready: %s", last)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}
