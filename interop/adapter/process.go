package adapter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// callTimeout bounds one call of an adapter program.
const callTimeout = 90 * time.Second

// A Process is a client in a program of its own, an adapter. It reads one
// request per line from standard input and answers each with one line on
// standard output; fields are separated by tabs.
//
//	create-topic TOPIC PARTITIONS         ok
//	delete-topic TOPIC                    ok
//	produce TOPIC FROM TO                 ok
//	join CONSUMER GROUP TOPIC             ok
//	poll CONSUMER MILLIS                  ok ASSIGNED VALUE:PARTITION:OFFSET...   (ASSIGNED: partitions, with commas)
//	commit CONSUMER                       ok
//	leave CONSUMER                        ok
//	list-groups                           ok GROUP...
//	describe-group GROUP                  ok STATE MEMBERS
//	offsets GROUP TOPIC                   ok PARTITION=OFFSET...
//	set-offsets GROUP TOPIC PARTITION=OFFSET...   ok
//	delete-group GROUP                    ok
//
// A call that fails is answered by "error TEXT", one that the library does not
// have by "unsupported". The end of its input ends the program. Standard error
// is for its log.
type Process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan string
	logFile *os.File
}

// Start starts an adapter program. Its log goes to the file logPath.
func Start(cmd *exec.Cmd, logPath string) (*Process, error) {
	logFile, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, answers: make(chan string), logFile: logFile}
	cmd.Stderr = logFile
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			p.answers <- lines.Text()
		}
		close(p.answers)
	}()
	return p, nil
}

// Log returns the end of what the program has written to standard error.
func (p *Process) Log() string {
	text, _ := os.ReadFile(p.logFile.Name())
	return string(text[max(0, len(text)-4000):])
}

func (p *Process) call(fields ...string) ([]string, error) {
	what := strings.Join(fields, " ")
	if _, err := io.WriteString(p.in, strings.Join(fields, "\t")+"\n"); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", what, err, p.Log())
	}
	var line string
	select {
	case answer, ok := <-p.answers:
		if !ok {
			return nil, fmt.Errorf("%s: the adapter has ended: %s", what, p.Log())
		}
		line = answer
	case <-time.After(callTimeout):
		return nil, fmt.Errorf("%s: no answer within %v: %s", what, callTimeout, p.Log())
	}
	answer := strings.Split(line, "\t")
	switch answer[0] {
	case "ok":
		return answer[1:], nil
	case "unsupported":
		return nil, ErrUnsupported
	case "error":
		return nil, fmt.Errorf("%s: %s", what, strings.Join(answer[1:], " "))
	}
	return nil, fmt.Errorf("%s: the adapter answers %q", what, line)
}

func (p *Process) run(fields ...string) error {
	_, err := p.call(fields...)
	return err
}

// CreateTopic implements Client.
func (p *Process) CreateTopic(topic string, partitions int) error {
	return p.run("create-topic", topic, strconv.Itoa(partitions))
}

// DeleteTopic implements Client.
func (p *Process) DeleteTopic(topic string) error { return p.run("delete-topic", topic) }

// Produce implements Client.
func (p *Process) Produce(topic string, from, to int) error {
	return p.run("produce", topic, strconv.Itoa(from), strconv.Itoa(to))
}

// Join implements Client.
func (p *Process) Join(consumer, group, topic string) error {
	return p.run("join", consumer, group, topic)
}

// Poll implements Client.
func (p *Process) Poll(consumer string, millis int) ([]Record, []int32, error) {
	fields, err := p.call("poll", consumer, strconv.Itoa(millis))
	if err != nil {
		return nil, nil, err
	}
	if len(fields) == 0 {
		return nil, nil, errors.New("poll: the adapter does not tell what is assigned")
	}
	var assigned []int32
	for _, f := range strings.FieldsFunc(fields[0], func(r rune) bool { return r == ',' }) {
		n, err := strconv.ParseInt(f, 10, 32)
		if err != nil {
			return nil, nil, fmt.Errorf("poll: %w", err)
		}
		assigned = append(assigned, int32(n))
	}
	var records []Record
	for _, f := range fields[1:] {
		var r Record
		value, where, _ := strings.Cut(f, ":")
		if _, err := fmt.Sscanf(where, "%d:%d", &r.Partition, &r.Offset); err != nil {
			return nil, nil, fmt.Errorf("poll: record %q: %w", f, err)
		}
		r.Value = value
		records = append(records, r)
	}
	return records, assigned, nil
}

// Commit implements Client.
func (p *Process) Commit(consumer string) error { return p.run("commit", consumer) }

// Leave implements Client.
func (p *Process) Leave(consumer string) error { return p.run("leave", consumer) }

// ListGroups implements Client.
func (p *Process) ListGroups() ([]string, error) { return p.call("list-groups") }

// DescribeGroup implements Client.
func (p *Process) DescribeGroup(group string) (state string, members int, err error) {
	fields, err := p.call("describe-group", group)
	if err != nil {
		return "", 0, err
	}
	if len(fields) != 2 {
		return "", 0, fmt.Errorf("describe-group: the adapter answers %q", fields)
	}
	members, err = strconv.Atoi(fields[1])
	return fields[0], members, err
}

// Offsets implements Client.
func (p *Process) Offsets(group, topic string) (map[int32]int64, error) {
	fields, err := p.call("offsets", group, topic)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, f := range fields {
		var partition int32
		var offset int64
		if _, err := fmt.Sscanf(f, "%d=%d", &partition, &offset); err != nil {
			return nil, fmt.Errorf("offsets: %q: %w", f, err)
		}
		offsets[partition] = offset
	}
	return offsets, nil
}

// SetOffsets implements Client.
func (p *Process) SetOffsets(group, topic string, offsets map[int32]int64) error {
	fields := []string{"set-offsets", group, topic}
	for partition, offset := range offsets {
		fields = append(fields, fmt.Sprintf("%d=%d", partition, offset))
	}
	return p.run(fields...)
}

// DeleteGroup implements Client.
func (p *Process) DeleteGroup(group string) error { return p.run("delete-group", group) }

// Close ends the program and fails when it does not end well.
func (p *Process) Close() error {
	defer p.logFile.Close()
	if err := p.in.Close(); err != nil {
		return err
	}
	kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	for range p.answers {
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the adapter: %w: %s", err, p.Log())
	}
	return nil
}
