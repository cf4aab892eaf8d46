package main

import "testing"

func TestSample(t *testing.T) {
	for _, c := range []struct {
		s    sample
		want string
	}{
		{nil, ""},
		{sample{2}, "2.0"},
		{sample{3, 1}, "2.0 (1.0–3.0)"},
		{sample{5, 1, 2}, "2.0 (1.0–5.0)"},
	} {
		if got := c.s.format("%.1f"); got != c.want {
			t.Errorf("%v: %q, want %q", c.s, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	table := newTable("a", "µs")
	table.add("long", "1")
	const want = "| a    | µs |\n|------|----|\n| long | 1  |\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestRequire(t *testing.T) {
	b := &bench{options: options{slack: 1}}
	b.require("rate", 0.75, 0.75, true)
	b.require("time", 30, 30, false)
	if len(b.missed) != 0 {
		t.Fatal(b.missed)
	}
	b.require("rate", 0.7, 0.75, true)
	b.require("time", 31, 30, false)
	if len(b.missed) != 2 {
		t.Fatal(b.missed)
	}
	b.slack = 0.5
	b.require("rate", 0.4, 0.75, true)
	b.require("time", 59, 30, false)
	if len(b.missed) != 2 {
		t.Fatal(b.missed)
	}
}
