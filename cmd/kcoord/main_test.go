package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// plans makes the plan of a command line in a folder of its own.
func plans(t *testing.T, args, environ []string) (*plan, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("server.properties", []byte("num.partitions=5\nlog.dirs=from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags, err := parseFlags(args, environ, os.Stdout)
	if err != nil {
		return nil, err
	}
	return makePlan(t.Context(), flags, environ, os.Stderr)
}

// TestPlan makes plans of flags, variables and a file.
func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name, args, environ string
		dataDir, listeners  string
		properties          string // name=value, as the configuration has them
	}{
		{name: "nothing", dataDir: "kcoord-data", listeners: "PLAINTEXT://127.0.0.1:9092",
			properties: "group.initial.rebalance.delay.ms=0 num.partitions=1"},
		{name: "flags only", args: "--data-dir memory: --listeners INSIDE://:19092,PLAINTEXT://:9092 --set listener.security.protocol.map=INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
			dataDir: "memory:", listeners: "INSIDE://:19092,PLAINTEXT://:9092", properties: "group.initial.rebalance.delay.ms=3000"},
		{name: "folder and address are no configuration", args: "--data-dir d --listeners PLAINTEXT://:0", dataDir: "d", listeners: "PLAINTEXT://:0",
			properties: "group.initial.rebalance.delay.ms=0"},
		{name: "file", args: "--config server.properties", dataDir: "from-file", listeners: "PLAINTEXT://127.0.0.1:9092",
			properties: "group.initial.rebalance.delay.ms=3000 num.partitions=5"},
		{name: "environment over file", args: "--config server.properties", environ: "KAFKA_NUM_PARTITIONS=6 KAFKA_LOG_DIRS=from-env", dataDir: "from-env",
			listeners: "PLAINTEXT://127.0.0.1:9092", properties: "num.partitions=6"},
		{name: "flag over environment", args: "--set num.partitions=7 --set num.partitions=8", environ: "KAFKA_NUM_PARTITIONS=6", dataDir: "kcoord-data",
			listeners: "PLAINTEXT://127.0.0.1:9092", properties: "num.partitions=8"},
		{name: "a variable for a flag", environ: "KCOORD_DATA_DIR=from-image KCOORD_LISTENERS=PLAINTEXT://:1", dataDir: "from-image", listeners: "PLAINTEXT://:1"},
		{name: "folder of a property over the image's", environ: "KCOORD_DATA_DIR=from-image KAFKA_LOG_DIRS=mine", dataDir: "mine", listeners: "PLAINTEXT://127.0.0.1:9092"},
		{name: "folder that cannot be made", environ: "KCOORD_DATA_DIR=from-image KAFKA_LOG_DIRS=server.properties/x", dataDir: "from-image", listeners: "PLAINTEXT://127.0.0.1:9092"},
		{name: "advertised only", environ: "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:9092", dataDir: "kcoord-data", listeners: "PLAINTEXT://:9092"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := plans(t, strings.Fields(tt.args), strings.Fields(tt.environ))
			if err != nil {
				t.Fatal(err)
			}
			var listeners []string
			for _, l := range p.config.Values().Listeners {
				listeners = append(listeners, l.Name+"://"+l.Address())
			}
			if got := strings.Join(listeners, ","); got != tt.listeners {
				t.Errorf("listeners %s, want %s", got, tt.listeners)
			}
			if p.dataDir != tt.dataDir || p.config.Get("log.dirs") != tt.dataDir {
				t.Errorf("data folder %s, log.dirs %s, want %s", p.dataDir, p.config.Get("log.dirs"), tt.dataDir)
			}
			for _, property := range strings.Fields(tt.properties) {
				name, value, _ := strings.Cut(property, "=")
				if got := p.config.Get(name); got != value {
					t.Errorf("%s=%s, want %s", name, got, value)
				}
			}
		})
	}
}

// TestUsageErrors gives every kind of wrong input: one line, exit code 2.
func TestUsageErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("bad.properties", []byte("# a comment\nnum.partitions=many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"foreign.properties": "broker.id=1\nzookeeper.connect=localhost:2181\nauto.create.topic.enable=true\n",
		"advertised": "PLAINTEXT/localhost\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ args, environ, want string }{
		{args: "fly", want: `no command "fly"; there are serve, health, dump, version, completion and help`},
		{args: "--data-directory d", want: "no flag --data-directory (nearest: --data-dir)"},
		{args: "--whatever", want: "no flag --whatever; kcoord serve --help lists them"},
		{args: "--port 9093", want: "no flag --port; kcoord serve --help lists them"},
		{args: "--pprof=1", want: `invalid boolean value "1" for --pprof: it is true or false`},
		{environ: "KCOORD_PPROF=yes", want: "KCOORD_PPROF=yes: it is true or false"},
		{args: "--pprof", want: "--pprof: needs an address, --http HOST:PORT"},
		{args: "--data-dir=", want: `invalid value "" for flag --data-dir: it takes a folder, or memory: to keep nothing`},
		{args: "--data-dir memory", want: `invalid value "memory" for flag --data-dir: to keep nothing on disk it is memory:; a folder of that name is ./memory`},
		{args: "--config foreign.properties", want: "auto.create.topic.enable=true: unknown property (nearest: auto.create.topics.enable), set by foreign.properties:3"},
		{args: "--config .", want: "--config: read .: is a directory"},
		{args: "--advertised-listeners-file advertised", want: "advertised.listeners=PLAINTEXT/localhost: must be NAME://HOST:PORT, with commas between several, set by advertised"},
		{args: "--set listeners=SSL://:9093", want: "listeners=SSL://:9093: has listener SSL with protocol SSL; only PLAINTEXT is served, set by --set"},
		{args: "--set log.dirs=a,b", want: "log.dirs=a,b: must be one folder, set by --set"},
		{environ: "KAFKA_CFG_LISTENERS=SASL_PLAINTEXT://:9092", want: "listeners=SASL_PLAINTEXT://:9092: has listener SASL_PLAINTEXT with protocol SASL_PLAINTEXT; only PLAINTEXT is served, set by KAFKA_CFG_LISTENERS"},
		{environ: "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://0.0.0.0:9092", want: "advertised.listeners=PLAINTEXT://0.0.0.0:9092: cannot tell clients to connect to 0.0.0.0, set by KAFKA_ADVERTISED_LISTENERS"},
		{environ: "KAFKA_LISTENERS=INSIDE://:9092", want: "listeners=INSIDE://:9092: has listener INSIDE, which listener.security.protocol.map does not name, set by KAFKA_LISTENERS"},
		{environ: "KAFKA_CREATE_TOPICS=a:b:1", want: `KAFKA_CREATE_TOPICS: a:b:1: "b" partitions; must be a number from 1 to 10000`},
		{environ: "KCOORD_DURABILITY=none", want: "kcoord.durability=none: must be one of sync, interval, os, set by KCOORD_DURABILITY"},
		{args: "--topics a:1,a:2", want: "--topics: a:2: a stands there twice"},
		{args: "serve here", want: `unexpected argument "here"`},
		{args: "--http", want: "flag needs an argument: --http"},
		{args: "--http 9644", want: "--http=9644: must be HOST:PORT"},
		{environ: "KCOORD_HTTP=:99999", want: "KCOORD_HTTP=:99999: must be HOST:PORT"},
		{args: "--log-level loud", want: `invalid value "loud" for flag --log-level: it takes one of error, warn, info, debug`},
		{environ: "KCOORD_LOG_FORMAT=xml", want: "KCOORD_LOG_FORMAT=xml: it takes one of text, json"},
		{args: "--set num.partitions", want: "num.partitions: must be name=value, set by --set"},
		{args: "--set num.partitons=3", want: "num.partitons=3: unknown property (nearest: num.partitions), set by --set"},
		{args: "--set num.partitions=0", want: "num.partitions=0: must be a whole number (32 bits) of at least 1, set by --set"},
		{args: "--set authorizer.class.name=x.Y", want: "authorizer.class.name=x.Y: not supported: there is no authorization, and ignoring an authorizer would open what it protects, set by --set"},
		{environ: "KAFKA_NUM_PARTITIONS=x", want: "num.partitions=x: must be a whole number (32 bits) of at least 1, set by KAFKA_NUM_PARTITIONS"},
		{args: "--config bad.properties", want: "num.partitions=many: must be a whole number (32 bits) of at least 1, set by bad.properties:2"},
		{args: "--config missing.properties", want: "--config: open missing.properties: no such file or directory"},
		{args: "--listeners 127.0.0.1:9092", want: "listeners=127.0.0.1:9092: must be NAME://HOST:PORT, with commas between several, set by --listeners"},
		{args: "--listeners SASL_SSL://:9093", want: "listeners=SASL_SSL://:9093: has listener SASL_SSL with protocol SASL_SSL; only PLAINTEXT is served, set by --listeners"},
		{args: "--topics orders:none", want: `--topics: orders:none: "none" partitions; must be a number from 1 to 10000`},
		{args: "--topics a/b", want: `--topics: a/b: "a/b" is no topic name; must be ` + topicForm},
		{args: "--topics a:1:cleanup.policy=shred", want: "--topics: a:1:cleanup.policy=shred: cleanup.policy=shred: must be a list of compact, delete"},
		{environ: "KCOORD_TOPICS=a:0", want: `KCOORD_TOPICS: a:0: "0" partitions; must be a number from 1 to 10000`},
		{args: "health here", want: "here: must be HOST:PORT"},
		{args: "health 1 2", want: "health takes one address, HOST:PORT"},
		{args: "completion", want: "completion takes one shell: bash, zsh or fish"},
		{args: "completion dos", want: `no completion for "dos"; there are bash, zsh and fish`},
	} {
		var stdout, stderr bytes.Buffer
		code := run(strings.Fields(tt.args), strings.Fields(tt.environ), &stdout, &stderr)
		if code != exitUsage || stderr.String() != "kcoord: "+tt.want+"\n" || stdout.Len() != 0 {
			t.Errorf("kcoord %s with %q: exit code %d, standard output %q, error\n%swant\nkcoord: %s", tt.args, tt.environ, code, &stdout, &stderr, tt.want)
		}
	}
}

// TestHelpAndCompletion prints them; a shell that is there parses the script.
func TestHelpAndCompletion(t *testing.T) {
	for _, args := range []string{"--help", "help", "serve --help", "health --help", "completion -h", "version", "--version", "completion bash", "completion zsh", "completion fish"} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(args), nil, &stdout, &stderr); code != exitOK || stdout.Len() == 0 || stderr.Len() != 0 {
			t.Errorf("kcoord %s: exit code %d, %d bytes of output, error %q", args, code, stdout.Len(), &stderr)
		}
		for _, row := range serveFlags {
			if (args == "serve --help" || strings.HasPrefix(args, "completion") && args != "completion -h") && !strings.Contains(stdout.String(), row.name) {
				t.Errorf("kcoord %s does not know --%s", args, row.name)
			}
		}
		if strings.Contains(args, "version") && !regexp.MustCompile(`^kcoord dev (\([0-9a-f]{12}\) )?go1\S+ \w+/\w+, protocol of Apache Kafka 4\.4\n$`).MatchString(stdout.String()) {
			t.Errorf("kcoord %s: %s", args, &stdout)
		}
		bash, err := exec.LookPath("bash")
		if args != "completion bash" || err != nil {
			continue
		}
		script := stdout.String() + `
COMP_WORDS=(kcoord --log-format j); COMP_CWORD=2; _kcoord; echo "${COMPREPLY[@]}"
COMP_WORDS=(kcoord he); COMP_CWORD=1; _kcoord; echo "${COMPREPLY[@]}"
COMP_WORDS=(kcoord health ""); COMP_CWORD=2; COMPREPLY=(); _kcoord; echo "${COMPREPLY[@]}"
COMP_WORDS=(kcoord serve --data-); COMP_CWORD=2; _kcoord; echo "${COMPREPLY[@]}"`
		out, err := exec.Command(bash, "-c", script).CombinedOutput()
		if err != nil || string(out) != "json\nhealth help\n\n--data-dir\n" {
			t.Errorf("completion in bash: %s%v", out, err)
		}
	}
}

// TestParseTopics reads both forms of topics.
func TestParseTopics(t *testing.T) {
	p, err := plans(t, []string{"--topics", "orders:6, events:3:cleanup.policy=compact:retention.ms=1000,plain"},
		[]string{"KAFKA_CREATE_TOPICS=a:2:3,b:1:1:compact"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, topic := range p.topics {
		got = append(got, strings.Join([]string{topic.Name, string('0' + topic.Partitions), topic.Configs["cleanup.policy"], topic.Configs["retention.ms"]}, "/"))
	}
	if want := "orders/6// events/3/compact/1000 plain/0// a/2// b/1/compact/"; strings.Join(got, " ") != want {
		t.Errorf("topics %v, want %s", got, want)
	}
}

// TestAdvertisedListenersFile starts before the file is there.
func TestAdvertisedListenersFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "advertised")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got := make(chan string, 1)
	go func() {
		value, err := waitForFile(ctx, name, io.Discard)
		if err != nil {
			value = err.Error()
		}
		got <- value
	}()
	// A line that is still being written is not taken.
	if err := os.WriteFile(name, []byte("PLAINTEXT://localhost:32"), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case value := <-got:
		t.Fatalf("half a file gave %s", value)
	case <-time.After(60 * time.Millisecond):
	}
	if err := os.WriteFile(name, []byte("PLAINTEXT://localhost:32768\nBROKER://kafka:9093\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if value := <-got; value != "PLAINTEXT://localhost:32768,BROKER://kafka:9093" {
		t.Errorf("the file gave %s", value)
	}
	cancel()
	if _, err := waitForFile(ctx, name+"2", io.Discard); err == nil {
		t.Error("waiting goes on after the end")
	}
}

// TestServerStart turns the arguments of Kafka's start script into serve's.
func TestServerStart(t *testing.T) {
	got := serverStartArgs(strings.Fields("-daemon server.properties --override a=b --override=c=d"))
	if want := "serve --config server.properties --set a=b --set c=d"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
