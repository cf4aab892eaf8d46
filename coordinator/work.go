package coordinator

// A job is work that may be too much for one step. It does a piece at a time and
// the shard's lock is free in between.
type job interface {
	// run works until it is done or the budget is used up. With some budget it makes
	// progress.
	run(s *Shard, budget *int) (done bool)
	// abandon answers who waits for the job: the shard is unloaded.
	abandon(s *Shard, code int16)
}

// workBudget is what a step may spend on jobs, in units of about 100 nanoseconds:
// looking at a group or an offset costs 1, writing a tombstone costs tombstoneCost.
const (
	workBudget    = 600
	tombstoneCost = 4
)

// runJobs does a piece of the waiting jobs, in the order they came, and asks to be
// called again if there is more.
func (s *Shard) runJobs() {
	budget := workBudget
	for len(s.jobs) > 0 && s.jobs[0].run(s, &budget) {
		s.jobs[0] = nil
		s.jobs = s.jobs[1:]
	}
	if len(s.jobs) == 0 {
		s.jobs = nil
		return
	}
	s.out.Timers = append(s.out.Timers, Timer{Key: TimerKey{Kind: TimerWork}, Deadline: s.ev.Mono})
}

// addJob queues a job. If no other is before it, its first piece is done at once.
func (s *Shard) addJob(j job) {
	s.jobs = append(s.jobs, j)
	if len(s.jobs) == 1 {
		s.runJobs()
	}
}
