package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kcoord/kcoord/coordinator"
)

// The heap agrees with a naive list under random settings.
func TestTimerHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h timerHeap
	naive := map[coordinator.TimerKey]time.Duration{}
	for range 5000 {
		key := coordinator.TimerKey{Group: fmt.Sprint("g", rng.IntN(20)), Member: fmt.Sprint("m", rng.IntN(3))}
		switch rng.IntN(4) {
		case 0:
			h.set(coordinator.Timer{Key: key, Cancel: true})
			delete(naive, key)
		case 1:
			now := time.Duration(rng.IntN(1000))
			for {
				got, ok := h.due(now)
				if !ok {
					break
				}
				if at, known := naive[got]; !known || at > now {
					t.Fatalf("%v fired at %v, set for %v (%v)", got, now, at, known)
				}
				delete(naive, got)
			}
			for key, at := range naive {
				if at <= now {
					t.Fatalf("%v is overdue", key)
				}
			}
		default:
			at := time.Duration(rng.IntN(2000))
			h.set(coordinator.Timer{Key: key, Deadline: at})
			naive[key] = at
		}
		next := never
		for _, at := range naive {
			next = min(next, at)
		}
		if h.next() != next || h.Len() != len(naive) || len(h.index) != len(naive) {
			t.Fatalf("next %v, want %v; %d timers, want %d", h.next(), next, h.Len(), len(naive))
		}
	}
}

func TestAlarms(t *testing.T) {
	clock := &manualClock{}
	b, _ := newTest(t, Options{Clock: clock})
	fired := ""
	alarmOf := func(name string) *alarm { return &alarm{fire: func() { fired += name }} }
	a, c, d := alarmOf("a"), alarmOf("c"), alarmOf("d")
	b.alarms.set(a, 300)
	b.alarms.set(c, 100)
	b.alarms.set(d, 200)
	b.alarms.set(a, 50)
	if !b.alarms.cancel(c) || b.alarms.cancel(c) {
		t.Error("cancel")
	}
	if next := b.alarms.expire(49); next != 50 || fired != "" {
		t.Errorf("next %v, fired %q", next, fired)
	}
	if next := b.alarms.expire(200); next != never || fired != "ad" {
		t.Errorf("next %v, fired %q", next, fired)
	}
	b.alarms.set(a, 10) // an alarm may be set again
	if b.alarms.expire(10); fired != "ada" {
		t.Errorf("fired %q", fired)
	}
}

// Whoever sets an earlier deadline wakes the loop, others do not.
func TestTimerLoopWakes(t *testing.T) {
	clock := &manualClock{}
	b, _ := newTest(t, Options{Clock: clock})
	woken := func() bool {
		select {
		case <-b.timers.wake:
			return true
		default:
			return false
		}
	}
	if next, err := b.timers.step(); err != nil || next != tickInterval {
		t.Fatalf("idle: %v, %v", next, err)
	}
	a := &alarm{fire: func() {}}
	b.alarms.set(a, tickInterval+1)
	if woken() {
		t.Error("woken for a deadline after the next tick")
	}
	b.alarms.set(a, tickInterval-1)
	if !woken() {
		t.Error("not woken for an earlier deadline")
	}
	if next, _ := b.timers.step(); next != tickInterval-1 {
		t.Errorf("next %v", next)
	}
}
