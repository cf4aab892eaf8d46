// Package history keeps what clients asked and were told about committed
// offsets, and asks whether one coordinator could have told it: whether the
// history is linearizable. Tests use it.
package history

import (
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// None is what a fetch tells when there is no committed offset.
const None int64 = -1

// An Outcome is what a client knows of a commit.
type Outcome uint8

const (
	// Unknown: the connection was lost, or the answer says that it may have been
	// done. It takes effect at any time after it was asked for, or never.
	Unknown Outcome = iota
	// Done: it was acknowledged.
	Done
	// Refused: it was not done and will not be.
	Refused
)

// A History is operations on offsets. It may be used by several goroutines.
// Times only have to rise: they may be of a clock or of a counter. No value is
// committed twice to one offset.
type History struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

// An operation sets an offset (None: deletes it) or reads it.
type operation struct {
	key   string
	read  bool
	value int64
}

// Commit notes that a value was written between two times. Client ids tell
// concurrent operations apart in a picture.
func (h *History) Commit(client int, key string, value int64, call, end int64, outcome Outcome) {
	switch outcome {
	case Refused:
		return
	case Unknown:
		end = never
	}
	h.add(porcupine.Operation{ClientId: client, Input: operation{key: key, value: value}, Call: call, Return: end})
}

// Fetch notes that a value was read between two times. A fetch that failed says
// nothing and is not noted.
func (h *History) Fetch(client int, key string, value int64, call, end int64) {
	h.add(porcupine.Operation{ClientId: client, Input: operation{key: key, read: true}, Output: value, Call: call, Return: end})
}

const never = int64(1)<<62 - 1

func (h *History) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// Len is the number of operations.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// Check reports nil if the history is linearizable: each offset a register that
// holds what was committed last. It gives up, with an error, after a time limit.
func (h *History) Check(limit time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch result, info := porcupine.CheckOperationsVerbose(register, settled(h.ops), limit); result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("%d operations could not be judged within %v", len(h.ops), limit)
	default:
		longest := 0
		for _, partial := range info.PartialLinearizationsOperations() {
			for _, p := range partial {
				longest = max(longest, len(p))
			}
		}
		return fmt.Errorf("%d operations are not linearizable; the longest part of one offset's that is, has %d", len(h.ops), longest)
	}
}

// settled takes out of a history what makes it hard to judge and says nothing. A
// commit of unknown outcome whose value nobody read might as well not have been
// done: no fetch lies between it and the next one. If somebody read it, it was done
// before that answer.
func settled(ops []porcupine.Operation) []porcupine.Operation {
	type written struct {
		key   string
		value int64
	}
	seen := map[written]int64{} // first time at which a value had been read
	for _, op := range ops {
		if o := op.Input.(operation); o.read {
			w := written{o.key, op.Output.(int64)}
			if at, known := seen[w]; !known || op.Return < at {
				seen[w] = op.Return
			}
		}
	}
	var out []porcupine.Operation
	for _, op := range ops {
		if o := op.Input.(operation); op.Return == never && o.value != None {
			at, known := seen[written{o.key, o.value}]
			if !known {
				continue
			}
			// Read before it was asked for: let the judge say so.
			op.Return = max(at, op.Call)
		}
		out = append(out, op)
	}
	return out
}

// register is the model of one committed offset.
var register = porcupine.Model{
	Partition: byKey,
	Init:      func() any { return None },
	Step: func(state, input, output any) (bool, any) {
		op := input.(operation)
		if op.read {
			return output.(int64) == state.(int64), state
		}
		return true, op.value
	},
	DescribeOperation: func(input, output any) string {
		op := input.(operation)
		if op.read {
			return fmt.Sprintf("fetch(%s) = %v", op.key, output)
		}
		return fmt.Sprintf("commit(%s, %d)", op.key, op.value)
	},
}

// byKey cuts a history into those of single offsets, in the order of their first
// operations.
func byKey(ops []porcupine.Operation) [][]porcupine.Operation {
	index := map[string]int{}
	var parts [][]porcupine.Operation
	for _, op := range ops {
		key := op.Input.(operation).key
		i, known := index[key]
		if !known {
			i = len(parts)
			index[key] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}
