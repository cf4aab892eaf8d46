package log

import (
	"testing"

	"github.com/kcoord/kcoord/log/vfs"
)

// Waiters that follow each other are told together; everything else apart.
func TestWaitersJoin(t *testing.T) {
	first := Waiter{Conn: "a", Slot: 7, Generation: 1, Key: 8, Version: 9, At: 100, Joins: true}
	for _, c := range []struct {
		what   string
		change func(w *Waiter)
		joined bool
	}{
		{"the next slot", func(*Waiter) {}, true},
		{"later", func(w *Waiter) { w.At++ }, false},
		{"more patience", func(w *Waiter) { w.Patience++ }, false},
		{"another connection", func(w *Waiter) { w.Conn = "b" }, false},
		{"a slot between", func(w *Waiter) { w.Slot++ }, false},
		{"the same slot", func(w *Waiter) { w.Slot-- }, false},
		{"another generation", func(w *Waiter) { w.Generation++ }, false},
		{"another request", func(w *Waiter) { w.Key++ }, false},
		{"another version", func(w *Waiter) { w.Version++ }, false},
		{"an answer of its own", func(w *Waiter) { w.Joins, w.Answer = false, []byte{1} }, false},
		{"a function", func(w *Waiter) { w.Joins, w.Conn = false, func() {} }, false},
	} {
		r := &round{}
		r.wait(&first)
		second := first
		second.Slot++
		c.change(&second)
		r.wait(&second)
		if got := len(r.waiters) == 1; got != c.joined || got && r.waiters[0].More != 1 {
			t.Errorf("%s: %+v", c.what, r.waiters)
		}
	}
	r := &round{}
	last := first
	last.Slot = 1<<32 - 1
	r.wait(&last)
	last.Slot = 0
	if r.wait(&last); len(r.waiters) != 2 {
		t.Error("joined beyond the range of slots")
	}
}

func TestAppendAwaited(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	r.open()
	r.meta(topicRecord(1, "offsets", 1, 2))
	p := r.partition(1, 0)
	for slot := range uint32(3) {
		w := Waiter{Conn: "c", Slot: slot + 1, Joins: true}
		if base, err := p.AppendAwaited(1, []Record{{Key: []byte("k")}, {Key: []byte("l")}}, &w); err != nil || base != int64(2*slot) {
			t.Fatalf("at %d: %v", base, err)
		}
	}
	if len(r.released) != 0 {
		t.Fatal("released before the flush")
	}
	r.flush()
	if len(r.released) != 1 || r.released[0].Slot != 1 || r.released[0].More != 2 {
		t.Fatalf("released %+v", r.released)
	}
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
}
