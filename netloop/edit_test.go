package netloop

import "testing"

// A completion may rewrite the answer that waits in the slot, whether it comes
// after OnFrame or during it, and for answers in the slot's own buffer or not.
func TestEdit(t *testing.T) {
	for _, early := range []bool{false, true} {
		for _, size := range []int{3, 2 * ownSlotBytes} {
			s := slots{pools: &buffers{}}
			number := s.open()
			edit := func(answer []byte) []byte { return append([]byte("edited "), answer[:3]...) }
			done := Completion{Slot: slotName(number), Edit: edit}
			waiting := append([]byte("abc"), make([]byte, size-3)...)
			if early {
				s.complete(&done)
				s.later(number, waiting, true)
			} else {
				s.later(number, waiting, true)
				s.complete(&done)
			}
			out, _ := s.pop(nil, 1<<20)
			if string(out) != "edited abc" || s.bytes != 0 || s.held {
				t.Errorf("early %v, %d bytes: %q, %d bytes left, held %v", early, size, out, s.bytes, s.held)
			}
		}
	}
}
