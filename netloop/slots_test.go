package netloop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

func newSlots() *slots { return &slots{pools: &buffers{}} }

// One completion finishes a row of slots; those that are done already stay as they are.
func TestCompletionOfSeveralSlots(t *testing.T) {
	s := newSlots()
	for n := range uint64(5) {
		s.later(s.open(), []byte{'a' + byte(n)}, n == 2)
	}
	s.complete(&Completion{Slot: slotName(1), Answer: []byte("x")})
	edit := func(b []byte) []byte { return append(b[:1:1], '!') }
	if !s.complete(&Completion{Slot: slotName(0), More: 2, Edit: edit}) || s.held {
		t.Fatalf("held %v", s.held)
	}
	if out, _ := s.pop(nil, 100); string(out) != "a!xc!" || s.owed() != 2 {
		t.Fatalf("%q, %d owed", out, s.owed())
	}
	if s.complete(&Completion{Slot: slotName(0), More: 2}) {
		t.Error("completed twice")
	}
	if !s.complete(&Completion{Slot: slotName(2), More: 1}) || s.owed() != 2 {
		t.Error("of a row that is partly done the rest was not completed")
	}
	if out, _ := s.pop(nil, 100); string(out) != "d" || s.bytes != 1 {
		t.Errorf("%q, %d bytes left", out, s.bytes)
	}
}

func TestSlotNamesCarryTheirNumber(t *testing.T) {
	for _, n := range []uint64{0, 1, 1<<32 - 1, 1 << 32, 1<<64 - 1} {
		if got := slotName(n).number(); got != n {
			t.Errorf("slot %d names %d", n, got)
		}
	}
}

// A slot's number goes on where its 32-bit index begins anew.
func TestSlotsPastTheIndexRange(t *testing.T) {
	s := newSlots()
	s.head, s.tail = 1<<32-2, 1<<32-2
	var names []Slot
	for range 4 {
		n := s.open()
		s.later(n, []byte{byte(n)}, false)
		names = append(names, slotName(n))
	}
	old := names[2]
	old.Generation--
	if s.complete(&Completion{Slot: old}) {
		t.Error("a completion of another generation was taken")
	}
	for i := len(names) - 1; i >= 0; i-- {
		if !s.complete(&Completion{Slot: names[i]}) {
			t.Errorf("slot %v was not taken", names[i])
		}
	}
	if out, _ := s.pop(nil, 100); string(out) != "\xfe\xff\x00\x01" {
		t.Errorf("answers %x", out)
	}
}

func TestEarlyCompletion(t *testing.T) {
	for _, test := range []struct {
		name, own, left, want string
	}{
		{"brings the answer", "own", "left", "own"},
		{"lets the answer go that was left", "", "left", "left"},
	} {
		s := newSlots()
		n := s.open()
		done := Completion{Slot: slotName(n)}
		if test.own != "" {
			done.Answer = []byte(test.own)
		}
		if !s.complete(&done) || s.complete(&done) {
			t.Errorf("%s: taken wrongly", test.name)
		}
		if s.ready() {
			t.Errorf("%s: ready while the handler has the frame", test.name)
		}
		s.later(n, []byte(test.left), true)
		if s.held {
			t.Errorf("%s: held although complete", test.name)
		}
		if out, _ := s.pop(nil, 100); string(out) != test.want || s.bytes != 0 {
			t.Errorf("%s: answer %q, %d bytes left", test.name, out, s.bytes)
		}
	}
}

// A completion may come while the handler answers in the call after all: the answer
// of the call counts.
func TestEarlyCompletionOfAnAnsweredFrame(t *testing.T) {
	s := newSlots()
	n := s.open()
	s.complete(&Completion{Slot: slotName(n), Answer: []byte("late")})
	s.answered(n, []byte("call"), false)
	if out, _ := s.pop(nil, 100); string(out) != "call" || s.bytes != 0 {
		t.Errorf("answer %q, %d bytes left", out, s.bytes)
	}
}

// A modelSlot is what the naive model remembers of a slot.
type modelSlot struct {
	answer string
	done   bool
}

// TestSlotsAgainstAModel does the same random things to slots and to a plain list.
func TestSlotsAgainstAModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := newSlots()
		var model []modelSlot
		first := uint64(0) // number of model[0]
		var sent, want bytes.Buffer
		late := 0
		for step := range 400 {
			text := fmt.Sprintf("%d.%0*d ", step, rnd.IntN(700), 0)
			switch pick := rnd.IntN(6); {
			case pick < 2 && s.owed() < 40:
				n := s.open()
				if rnd.IntN(3) == 0 {
					s.answered(n, []byte(text), false)
					model = append(model, modelSlot{text, true})
				} else {
					s.later(n, []byte(text), rnd.IntN(5) == 0)
					model = append(model, modelSlot{text, false})
				}
			case pick == 2 && s.owed() == 0:
				s.skip()
				first++
			case pick < 5:
				n := first + uint64(rnd.IntN(45)) - 3
				done := Completion{Slot: slotName(n)}
				if rnd.IntN(2) == 0 {
					done.Answer = []byte(text)
				}
				i := int64(n - first)
				ok := i >= 0 && i < int64(len(model)) && !model[i].done
				if got := s.complete(&done); got != ok {
					t.Fatalf("seed %d step %d: completion of %d: %v, want %v", seed, step, n, got, ok)
				}
				if !ok {
					late++
					continue
				}
				model[i].done = true
				if done.Answer != nil {
					model[i].answer = text
				}
			default:
				out, last := s.pop(nil, 1+rnd.IntN(3000))
				if last {
					t.Fatalf("seed %d: last", seed)
				}
				sent.Write(out)
				if large, recycle, _, ok := s.popLarge(600); ok {
					sent.Write(large)
					if recycle {
						s.pools.put(large)
					}
				}
				for first < s.head {
					if !model[0].done {
						t.Fatalf("seed %d step %d: sent what is not done", seed, step)
					}
					want.WriteString(model[0].answer)
					model = model[1:]
					first++
				}
			}
			bytesLeft := 0
			for i, m := range model {
				bytesLeft += len(s.at(first + uint64(i)).answer)
				if m.done != (s.at(first+uint64(i)).state == slotDone) {
					t.Fatalf("seed %d step %d: slot %d done is not %v", seed, step, i, m.done)
				}
			}
			if bytesLeft != s.bytes || s.owed() != len(model) {
				t.Fatalf("seed %d step %d: %d bytes counted, %d there; %d owed, %d there", seed, step, s.bytes, bytesLeft, s.owed(), len(model))
			}
		}
		if !bytes.Equal(sent.Bytes(), want.Bytes()) {
			t.Fatalf("seed %d: answers differ from the model", seed)
		}
		if sent.Len() == 0 || late == 0 {
			t.Errorf("seed %d proved nothing", seed)
		}
	}
}

func TestSlotsBehindTheLastAreForgotten(t *testing.T) {
	s := newSlots()
	a, b := s.open(), s.open()
	s.later(a, []byte("a"), false)
	s.later(b, bytes.Repeat([]byte("b"), 1000), true)
	c := s.open()
	s.complete(&Completion{Slot: slotName(a), Close: true})
	out, last := s.pop(nil, 10)
	if string(out) != "a" || !last || s.owed() != 0 || s.bytes != 0 || s.held {
		t.Errorf("answers %q, last %v, %d owed, %d bytes, held %v", out, last, s.owed(), s.bytes, s.held)
	}
	if !s.forgotten(c) || s.complete(&Completion{Slot: slotName(b)}) {
		t.Error("a slot behind the last one is still there")
	}
}

func TestAnAnswerInTheCommonPathDoesNotAllocate(t *testing.T) {
	s := newSlots()
	answer, out := make([]byte, 60), make([]byte, 0, 100)
	round := func() {
		n := s.open()
		s.later(n, answer, false)
		s.complete(&Completion{Slot: slotName(n)})
		out, _ = s.pop(out[:0], 100)
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations per answer", n)
	}
}

func TestBuffersLendClasses(t *testing.T) {
	var p buffers
	for _, test := range []struct{ n, want int }{
		{0, 512}, {1, 512}, {512, 512}, {513, 1024}, {1 << 21, 1 << 21}, {1<<21 + 1, 1<<21 + 1},
	} {
		b := p.get(test.n)
		if len(b) != 0 || cap(b) < test.want || test.n <= 1<<21 && cap(b) != test.want {
			t.Errorf("get(%d): length %d, capacity %d", test.n, len(b), cap(b))
		}
		p.put(b)
	}
	p.put(nil)
	p.put(make([]byte, smallRead)) // no class: not taken
	for range 100 {
		if b := p.get(1); cap(b) != 512 {
			t.Fatalf("capacity %d in the class of 512", cap(b))
		}
	}
}
