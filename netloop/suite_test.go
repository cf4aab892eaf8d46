package netloop

import "testing"

var transports = []transport{
	{name: "goroutine", goroutine: true},
	{name: "pipe", pipe: true},
}

func onEach(t *testing.T, f func(t *testing.T, tr transport)) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) { f(t, tr) })
	}
}

func TestAnswersInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, tr transport) {
		c := tr.start(t, nil).client()
		var b []byte
		kinds := []kind{inline, later, inline, laterOwn, hold, none, inline, later}
		for _, k := range kinds {
			b = c.frame(b, k, 10+int(k), 30)
		}
		c.send(b)
		for i, k := range kinds {
			if k != none {
				c.want(uint32(i), 10+int(k))
			}
		}
		c.silent()
	})
}
