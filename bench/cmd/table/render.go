package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"unicode/utf8"
)

// A sample is one figure measured several times.
type sample []float64

func (s sample) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// format prints the median and, in parentheses, the lowest and highest figure.
func (s sample) format(format string) string {
	if len(s) == 0 {
		return ""
	}
	text := fmt.Sprintf(format, s.median())
	if len(s) == 1 {
		return text
	}
	return fmt.Sprintf(text+" ("+format+"–"+format+")", slices.Min(s), slices.Max(s))
}

// A table is Markdown with its columns aligned.
type table struct{ lines [][]string }

func newTable(head ...string) *table { return &table{lines: [][]string{head}} }

func (t *table) add(cells ...string) {
	if len(cells) != len(t.lines[0]) {
		panic(fmt.Sprintf("%d cells in a table of %d columns", len(cells), len(t.lines[0])))
	}
	t.lines = append(t.lines, cells)
}

func (t *table) String() string {
	widths := make([]int, len(t.lines[0]))
	for _, line := range t.lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, line := range t.lines {
		for column, cell := range line {
			b.WriteString("| " + cell + strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
		if i == 0 {
			for _, w := range widths {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

func splitPort(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err)
	}
	return host, port
}
