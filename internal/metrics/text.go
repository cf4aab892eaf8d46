package metrics

import (
	"strconv"
	"strings"
	"time"
)

// A Text is a page in Prometheus' text format in the making.
type Text struct {
	buf  []byte
	last string // the family that was begun last
}

// Bytes is the page.
func (t *Text) Bytes() []byte { return t.buf }

// family begins a family of series: its help and type come once.
func (t *Text) family(name, help, typ string) {
	if t.last == name {
		return
	}
	t.last = name
	t.buf = append(t.buf, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+typ+"\n"...)
}

// Counter adds a series of a counter. labels are names and values in turn. Series
// of one family follow each other.
func (t *Text) Counter(name, help string, value uint64, labels ...string) {
	t.family(name, help, "counter")
	t.series(name, strconv.FormatUint(value, 10), labels)
}

// Gauge adds a series of a gauge.
func (t *Text) Gauge(name, help string, value float64, labels ...string) {
	t.family(name, help, "gauge")
	t.series(name, number(value), labels)
}

// Histogram adds the series of a histogram of durations, in seconds.
func (t *Text) Histogram(name, help string, h *Histogram, labels ...string) {
	t.histogram(name, help, h, time.Second, labels)
}

// Sizes adds the series of a histogram of sizes.
func (t *Text) Sizes(name, help string, h *Histogram, labels ...string) {
	t.histogram(name, help, h, sizeUnit, labels)
}

// histogram adds the series of a histogram; unit is what counts as 1.
func (t *Text) histogram(name, help string, h *Histogram, unit time.Duration, labels []string) {
	t.family(name, help, "histogram")
	var sum uint64
	for i := range h.counts {
		sum += h.counts[i].Load()
		le := "+Inf"
		if i < buckets {
			le = number(float64(bound(i)) / float64(unit))
		}
		t.series(name+"_bucket", strconv.FormatUint(sum, 10), append(labels[:len(labels):len(labels)], "le", le))
	}
	t.series(name+"_sum", number(float64(h.sum.Load())/float64(unit)), labels)
	t.series(name+"_count", strconv.FormatUint(sum, 10), labels)
}

var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (t *Text) series(name, value string, labels []string) {
	t.buf = append(t.buf, name...)
	for i := 0; i+1 < len(labels); i += 2 {
		open := byte(',')
		if i == 0 {
			open = '{'
		}
		t.buf = append(t.buf, open)
		t.buf = append(t.buf, labels[i]+`="`+escapes.Replace(labels[i+1])+`"`...)
	}
	if len(labels) > 0 {
		t.buf = append(t.buf, '}')
	}
	t.buf = append(t.buf, " "+value+"\n"...)
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
