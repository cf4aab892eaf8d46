package broker

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// defaultBudget is what input held and output waiting may take each, unless the
// memory limit is low.
const defaultBudget = 256 << 20

// memoryBudget is the smaller of the default and a quarter of what the process
// may use.
func (b *Broker) memoryBudget() int64 {
	if limit := b.options.MemoryLimit; limit > 0 {
		return min(defaultBudget, limit/4)
	}
	return defaultBudget
}

// ContainerMemory is the memory limit of the container (cgroup) that the process
// runs in, in bytes; 0 if there is none or it is not known.
func ContainerMemory() int64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || n <= 0 || n >= math.MaxInt64/2 {
			return 0 // "max", or cgroup v1's word for it
		}
		return n
	}
	return 0
}

// SpareProcessor lets the runtime run one thread of Go more than there are processors,
// unless the variable GOMAXPROCS says how many. One thread nearly always waits for the
// journal's sync; as long as none to spare is left the runtime looks 50,000 times a
// second for threads that wait. It is for a program that is nothing but a broker.
func SpareProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// LimitMemory tells the garbage collector of a memory limit of the process, in
// bytes, unless GOMEMLIMIT has: a tenth is left to what it does not see. It is
// for a program that is nothing but a broker.
func LimitMemory(bytes int64) {
	if bytes > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes / 10 * 9)
	}
}
