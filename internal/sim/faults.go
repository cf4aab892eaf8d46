package sim

import (
	"context"
	"time"
)

// faults draws a fault now and then, and sees to it that each run has a crash
// and a cut. It reports whether something was done.
func (w *World) faults() bool {
	switch {
	case w.report.Events >= w.crashAt && w.process != nil:
		w.crashAt = never32
		w.guard(w.crash)
	case w.report.Events >= w.cutAt && w.cutConnection():
		w.cutAt = never32
	case w.chance(w.mix.calmness):
		w.fault()
	default:
		return false
	}
	return true
}

const never32 = 1<<31 - 1

// fault draws one fault.
func (w *World) fault() {
	switch w.random.IntN(15) {
	case 0:
		w.guard(w.crash)
	case 1:
		// The power fails at one of the next file operations.
		w.machine.fuse = w.random.IntN(200)
	case 2, 3:
		w.cutConnection()
	case 4, 5:
		w.abandonConnection()
	case 6, 7:
		w.slowConnection()
	case 8:
		w.pauseClient()
	case 9:
		w.stallLoop()
	case 10:
		// The wall clock jumps; nothing but records may notice.
		w.machine.clock.wall += int64(w.random.IntN(7200)-3600) * 1000
	case 11:
		w.pauseBroker()
	case 12:
		w.fillDisk()
	case 13:
		w.machine.syncFuse = w.random.IntN(20)
	case 14:
		if p := w.process; p != nil && p.broker.Ready() && !p.loop("flusher").running {
			w.guard(w.stopBroker)
		}
	}
}

// stopBroker stops the broker in order. The power may fail afterwards: all that
// was acknowledged is on disk.
func (w *World) stopBroker() {
	p := w.process
	w.trace("STOP")
	if err := p.broker.Stop(context.Background()); err != nil && !w.machine.troubled() {
		w.violated(checkBroker, "Stop: %v", err)
	}
	w.report.Stops++
	w.goDown(p)
	if w.chance(2) {
		w.machine.cut()
	}
	w.after(w.pause(), w.boot)
}

// crash ends the broker's process without a word and starts it again after a
// while, on what is left of the disk.
func (w *World) crash() {
	p := w.process
	if p == nil {
		return // it is down already
	}
	w.report.Crashes++
	w.trace("CRASH")
	w.goDown(p)
	w.machine.cut()
	w.after(w.pause(), w.boot)
}

// goDown takes the process away.
func (w *World) goDown(p *process) {
	w.process = nil
	for _, c := range p.network.conns {
		c.open = false // the handler is dead: nobody is told
		c.slots, c.inbound = nil, nil
		if w.chance(2) {
			c.outbound = nil
		}
	}
}

// randomConn is a connection in use, nil if there is none.
func (w *World) randomConn() *conn {
	if w.process == nil {
		return nil
	}
	var open []*conn
	for _, c := range w.process.network.conns {
		if c.open && !c.abandoned {
			open = append(open, c)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open[w.random.IntN(len(open))]
}

// cutConnection ends a connection on both sides; what was on its way is lost.
func (w *World) cutConnection() bool {
	c := w.randomConn()
	if c == nil {
		return false
	}
	w.report.Cuts++
	w.trace("CUT of %s", c.lane.client.name)
	c.cut(errCut)
	return true
}

// abandonConnection lets a client lose its connection while the broker goes on
// with what arrived before, or arrives late.
func (w *World) abandonConnection() {
	c := w.randomConn()
	if c == nil {
		return
	}
	w.report.Cuts++
	w.trace("%s is cut off, %d requests are late", c.lane.client.name, len(c.inbound))
	c.abandoned, c.outbound = true, nil
	c.inbound = c.inbound[:w.random.IntN(len(c.inbound)+1)]
	c.lane.client.lose()
	if w.chance(2) {
		c.slowUntil = w.machine.clock.mono + w.upTo(3*time.Second)
	}
	w.after(w.upTo(5*time.Second), func() {
		if p := w.process; p != nil && c.net == p.network {
			c.cut(errCut)
		}
	})
}

// slowConnection delays what is on its way, in both directions.
func (w *World) slowConnection() {
	if c := w.randomConn(); c != nil {
		w.trace("%s has a slow connection", c.lane.client.name)
		c.slowUntil = w.machine.clock.mono + w.upTo(3*time.Second)
	}
}

// pauseClient lets a client stand still: a garbage collection, a debugger.
func (w *World) pauseClient() {
	c := w.clients[w.random.IntN(len(w.clients))]
	if c.deaf {
		return
	}
	w.report.Pauses++
	w.trace("PAUSE of %s", c.name)
	c.deaf = true
	w.after(w.upTo(8*time.Second), func() { c.deaf = false })
}

// stallLoop lets one background part of the broker stand still: a slow disk, a
// thread that gets no time.
func (w *World) stallLoop() {
	if w.process == nil || len(w.process.loops) == 0 {
		return
	}
	w.report.Stalls++
	l := w.process.loops[w.random.IntN(len(w.process.loops))]
	w.trace("STALL of %s", l.Name)
	l.stalled = w.machine.clock.mono + w.upTo(3*time.Second)
}

// pauseBroker stops the broker's whole machine for a while: the container is
// paused, the laptop sleeps, the heap is collected. Actors' timers come due
// meanwhile.
func (w *World) pauseBroker() {
	w.report.Pauses++
	w.trace("PAUSE of the broker")
	pause := w.upTo(20 * time.Second)
	if w.chance(2) {
		pause = w.upTo(2 * time.Second)
	}
	w.machine.clock.advance(pause)
	w.machine.fullAt += pause // it has not had that time to recover
}

// fillDisk leaves the disk without space for a while.
func (w *World) fillDisk() {
	if w.machine.full {
		return
	}
	w.report.FullDisks++
	room := int64(w.random.IntN(3) * w.random.IntN(200<<10))
	w.trace("FULL DISK, %d bytes left", room)
	w.machine.fillUp(room)
	w.after(w.upTo(8*time.Second), w.machine.letGo)
}
