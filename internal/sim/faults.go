package sim

import "time"

// fault draws one fault.
func (w *World) fault() {
	switch w.random.IntN(8) {
	case 0:
		w.guard(w.crash)
	case 1:
		// The power fails at one of the next file operations.
		w.machine.fuse = w.random.IntN(200)
	case 2, 3:
		w.cutConnection()
	case 4:
		w.pauseClient()
	case 5:
		w.stallLoop()
	case 6:
		// The wall clock jumps; nothing but records may notice.
		w.machine.clock.wall += int64(w.random.IntN(7200)-3600) * 1000
	case 7:
		w.pauseBroker()
	}
}

// crash ends the broker's process without a word and starts it again after a
// while, on what is left of the disk.
func (w *World) crash() {
	p := w.process
	if p == nil {
		return // it is down already
	}
	w.Crashes++
	w.trace("CRASH")
	w.process = nil
	w.machine.cut()
	for _, c := range p.network.conns {
		c.open = false // the handler is dead: nobody is told
		c.slots, c.inbound = nil, nil
		if w.chance(2) {
			c.outbound = nil
		}
	}
	w.after(w.pause(), func() {
		w.boot()
	})
}

func (w *World) cutConnection() {
	if w.process == nil {
		return
	}
	var open []*conn
	for _, c := range w.process.network.conns {
		if c.open {
			open = append(open, c)
		}
	}
	if len(open) > 0 {
		w.Cuts++
		w.trace("CUT")
		open[w.random.IntN(len(open))].cut(errCut)
	}
}

// pauseClient lets a client stand still: a garbage collection, a debugger.
func (w *World) pauseClient() {
	c := w.clients[w.random.IntN(len(w.clients))]
	if c.deaf {
		return
	}
	w.Pauses++
	w.trace("PAUSE of %s", c.name)
	c.deaf = true
	w.after(time.Duration(w.random.IntN(8000))*time.Millisecond, func() { c.deaf = false })
}

// stallLoop lets one background part of the broker stand still: a slow disk, a
// thread that gets no time.
func (w *World) stallLoop() {
	if w.process == nil || len(w.process.loops) == 0 {
		return
	}
	w.Stalls++
	l := w.process.loops[w.random.IntN(len(w.process.loops))]
	l.stalled = w.machine.clock.mono + time.Duration(w.random.IntN(3000))*time.Millisecond
}

// pauseBroker stops the broker's whole machine for a while: the container is
// paused, the laptop sleeps. Actors' timers come due meanwhile.
func (w *World) pauseBroker() {
	w.Pauses++
	w.trace("PAUSE of the broker")
	w.machine.clock.advance(time.Duration(1+w.random.IntN(20)) * time.Second)
}
