// Package truecount counts what Go code costs in the CPU's own counters: instructions that are the same on every run.
//
//	func BenchmarkParse(b *testing.B) {
//		truecount.Bench(b, func() { parse(input) })
//	}
//
//	func TestMain(m *testing.M) { truecount.Main(m) }
//
// Bench reports instructions/op. Main runs the tests again under `truecount run` where the machine has no PMU; without
// it, go test -exec 'truecount run --' -bench . does the same.
//
// A counter counts one thread of the kernel: the one that the goroutine is locked to. What the runtime does on threads
// of its own (the collector's workers, sysmon) is not counted; what it does on this one (allocation, assists of the
// collector, growth of stacks, the handler of preemption signals) is. Bench reports the least of its calls, which has
// none of what comes only now and then.
package truecount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"truecount/internal/known"
)

// What is wrong with a use of a Counter.
var (
	// ErrThread: the goroutine is on another thread than the one that is counted.
	ErrThread = errors.New("truecount: the counter belongs to another thread; call Open and Read on one goroutine, between runtime.LockOSThread and UnlockOSThread")
	// ErrClosed: the counter is closed.
	ErrClosed = errors.New("truecount: the counter is closed; use it before Close")
	// ErrNoCount: the event was not on the PMU all the time.
	ErrNoCount = errors.New("truecount: the event was not counted all the time; count fewer events at once")
)

// EventError says that a text does not name an event.
type EventError struct{ Event string }

func (e *EventError) Error() string {
	names := make([]string, 0, len(events))
	for name := range events {
		names = append(names, name)
	}
	sort.Strings(names)
	return fmt.Sprintf("truecount: %q is not an event: %s (with :u, :k or neither), or rNNNN", e.Event, strings.Join(names, ", "))
}

// OpenError says why the kernel does not give a counter, and what to do.
type OpenError struct {
	Event string
	Errno syscall.Errno
}

func (e *OpenError) Error() string {
	hint := "see `truecount check`"
	switch e.Errno {
	case syscall.ENOENT, syscall.EOPNOTSUPP, syscall.ENODEV:
		hint = "no PMU here counts it; run by `go test -exec 'truecount run --'`, which counts instructions:u without one, and with `-e branches:u` before the last -- these, too"
	case syscall.EACCES, syscall.EPERM:
		hint = "kernel.perf_event_paranoid or a container forbids it; count user mode only (:u), or lower it"
	case syscall.EMFILE:
		hint = "close counters, or raise ulimit -n"
	}
	return fmt.Sprintf("truecount: cannot count %s: %v; %s", e.Event, e.Errno, hint)
}

func (e *OpenError) Unwrap() error { return e.Errno }

type encoding struct {
	kind   uint32
	config uint64
}

// Source: include/uapi/linux/perf_event.h (PERF_TYPE_*, PERF_COUNT_*).
var events = map[string]encoding{
	"cycles": {0, 0}, "instructions": {0, 1}, "cache-references": {0, 2}, "cache-misses": {0, 3},
	"branches": {0, 4}, "branch-misses": {0, 5}, "ref-cycles": {0, 9},
	"task-clock": {1, 1}, "page-faults": {1, 2}, "context-switches": {1, 3}, "cpu-migrations": {1, 4},
}

func parse(event string) (encoding, uint64, error) {
	name, modifiers, _ := strings.Cut(event, ":")
	flags := uint64(disabled | excludeHV)
	switch modifiers {
	case "":
	case "u":
		flags |= excludeKernel
	case "k":
		flags |= excludeUser
	default:
		return encoding{}, 0, &EventError{event}
	}
	if found, ok := events[name]; ok {
		return found, flags, nil
	}
	if raw, ok := strings.CutPrefix(name, "r"); ok {
		if config, err := strconv.ParseUint(raw, 16, 64); err == nil {
			return encoding{4, config}, flags, nil
		}
	}
	return encoding{}, 0, &EventError{event}
}

// Bits of perf_event_attr, and values of its fields.
const (
	disabled      = 1 << 0
	pinned        = 1 << 2
	excludeUser   = 1 << 4
	excludeKernel = 1 << 5
	excludeHV     = 1 << 6
	formatTimes   = 1<<0 | 1<<1 // time enabled, time running
	enable        = 0x2400      // PERF_EVENT_IOC_ENABLE
	closeOnExec   = 1 << 3
)

// The first 64 bytes of perf_event_attr (PERF_ATTR_SIZE_VER0).
type attr struct {
	kind, size                                uint32
	config, period, sampleType, format, flags uint64
	wakeup, breakpoint                        uint32
	address                                   uint64
}

// Counter counts one event of the thread that opened it; Open makes one, and every other is closed.
type Counter struct {
	name string
	// Close on another thread waits for a Read: the number of the descriptor may be another file's after it.
	lock     sync.Mutex
	open     bool
	fd       int
	thread   int
	overhead uint64
	values   [3]uint64
}

// Open opens an event ("instructions:u", "branches:u", "page-faults", "r00c0:u") for the calling thread: call
// runtime.LockOSThread before.
func Open(event string) (*Counter, error) {
	found, flags, err := parse(event)
	if err != nil {
		return nil, err
	}
	if found.kind != 1 {
		flags |= pinned
	}
	a := attr{kind: found.kind, size: 64, config: found.config, format: formatTimes, flags: flags}
	fd, _, errno := syscall.Syscall6(perfEventOpen, uintptr(unsafe.Pointer(&a)), 0, ^uintptr(0), ^uintptr(0), closeOnExec, 0)
	if errno != 0 {
		return nil, &OpenError{event, errno}
	}
	c := &Counter{name: event, open: true, fd: int(fd), thread: syscall.Gettid()}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, enable, 0); errno != 0 {
		syscall.Close(c.fd)
		return nil, &OpenError{event, errno}
	}
	least := ^uint64(0)
	for i := 0; i < 32; i++ {
		count, err := c.measure(nothing)
		if err != nil {
			syscall.Close(c.fd)
			return nil, err
		}
		if count < least {
			least = count
		}
	}
	c.overhead = least
	return c, nil
}

//go:noinline
func nothing() {}

// Available says why instructions:u cannot be counted here; nil where it can.
func Available() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := Open("instructions:u")
	if err != nil {
		return err
	}
	return c.Close()
}

// Name gives the event's name.
func (c *Counter) Name() string {
	if c == nil {
		return ""
	}
	return c.name
}

// Close closes the counter, on any thread.
func (c *Counter) Close() error {
	if c == nil {
		return ErrClosed
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.open {
		return ErrClosed
	}
	c.open = false
	return syscall.Close(c.fd)
}

// Read gives what was counted since the counter was opened.
func (c *Counter) Read() (uint64, error) {
	if c == nil {
		return 0, ErrClosed
	}
	c.lock.Lock()
	count, err := c.read()
	c.lock.Unlock()
	return count, err
}

func (c *Counter) read() (uint64, error) {
	if !c.open {
		return 0, ErrClosed
	}
	// Without a word to the scheduler, which would count.
	thread, _, _ := syscall.RawSyscall(syscall.SYS_GETTID, 0, 0, 0)
	if int(thread) != c.thread {
		return 0, ErrThread
	}
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&c.values)), unsafe.Sizeof(c.values))
	if errno != 0 || n != unsafe.Sizeof(c.values) || c.values[2] < c.values[1] {
		return 0, ErrNoCount
	}
	return c.values[0], nil
}

// Measure gives what f costs, less what a function that does nothing costs.
func (c *Counter) Measure(f func()) (uint64, error) {
	count, err := c.measure(f)
	if err != nil || count < c.overhead {
		return 0, err
	}
	return count - c.overhead, nil
}

func (c *Counter) measure(f func()) (uint64, error) {
	start, err := c.Read()
	if err != nil {
		return 0, err
	}
	f()
	end, err := c.Read()
	if err != nil {
		return 0, err
	}
	return end - start, nil
}

// KnownLoop runs a loop of a known number of instructions, which it gives: something to test with.
func KnownLoop(iterations uint64) uint64 {
	if iterations == 0 {
		iterations = 1
	}
	known.Loop(iterations)
	return 2 * iterations
}

// Of b.N calls this many are counted, the first ones.
const mostCounted = 1000

// Bench runs f b.N times, after five calls more, and reports the least count of a call, of the first thousand, as
// instructions/op. Where nothing counts, the benchmark is skipped with the reason.
func Bench(b *testing.B, f func()) { BenchEvent(b, "instructions:u", f) }

// BenchEvent is Bench for another event. One that does not exist fails the benchmark. A benchmark may count several, one
// after the other: all are reported.
func BenchEvent(b *testing.B, event string, f func()) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := opened(b, event)
	defer c.Close()
	least := ^uint64(0)
	// The first call makes what is made once. Four are counted before the timer is reset, which reads the memory's statistics
	// and empties what the runtime keeps for this thread: the call after it pays for that, and b.N may be 1.
	f()
	for i := 0; i < 4; i++ {
		count, err := c.Measure(f)
		if err != nil {
			b.Fatal(err)
		}
		if count < least {
			least = count
		}
	}
	b.ResetTimer()
	// An earlier Bench has stopped it.
	b.StartTimer()
	for i := 0; i < b.N; i++ {
		// A thousand calls have the least among them; the rest are for the time, which reads would be most of.
		if i >= mostCounted {
			f()
			continue
		}
		count, err := c.Measure(f)
		if err != nil {
			b.Fatal(err)
		}
		if count < least {
			least = count
		}
	}
	b.StopTimer()
	report(b, event, least)
}

// BenchSetup is Bench for an f that takes what setup gives, anew for each call: setup is neither counted nor in ns/op.
func BenchSetup[T any](b *testing.B, setup func() T, f func(T)) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := opened(b, "instructions:u")
	defer c.Close()
	least := ^uint64(0)
	var taken time.Duration
	// One closure for all calls: what it keeps is not made in what is counted.
	var input T
	call := func() { f(input) }
	input = setup()
	call()
	for i := -4; i < b.N; i++ {
		if i == 0 {
			b.ResetTimer()
			taken = 0
		}
		input = setup()
		begun := time.Now()
		if i >= mostCounted {
			call()
			taken += time.Since(begun)
			continue
		}
		count, err := c.Measure(call)
		taken += time.Since(begun)
		if err != nil {
			b.Fatal(err)
		}
		if count < least {
			least = count
		}
	}
	b.StopTimer()
	report(b, "instructions:u", least)
	b.ReportMetric(float64(taken.Nanoseconds())/float64(b.N), "ns/op")
}

// A counter for a benchmark, which ends where there is none.
func opened(b *testing.B, event string) *Counter {
	b.Helper()
	c, err := Open(event)
	var misspelt *EventError
	if errors.As(err, &misspelt) {
		b.Fatal(err)
	}
	if err != nil {
		b.Skip(err)
	}
	return c
}

var (
	// What benchmarks that run have reported: ResetTimer takes it away.
	reported     = map[*testing.B]map[string]float64{}
	reportedLock sync.Mutex
)

func report(b *testing.B, event string, least uint64) {
	name, _, _ := strings.Cut(event, ":")
	reportedLock.Lock()
	defer reportedLock.Unlock()
	if reported[b] == nil {
		reported[b] = map[string]float64{}
		b.Cleanup(func() {
			reportedLock.Lock()
			defer reportedLock.Unlock()
			delete(reported, b)
		})
	}
	reported[b][name+"/op"] = float64(least)
	for unit, value := range reported[b] {
		b.ReportMetric(value, unit)
	}
}

const inside = "TRUECOUNT_GO_INSIDE"

// Main runs the tests of a package, for TestMain: where the machine has no PMU, once more under `truecount run` (the
// command in TRUECOUNT, or found by PATH).
func Main(m *testing.M) {
	if os.Getenv(inside) == "" && Available() != nil {
		command := os.Getenv("TRUECOUNT")
		if command == "" {
			command = "truecount"
		}
		own, err := os.Executable()
		path, missing := exec.LookPath(command)
		if err == nil && missing == nil {
			// What makes runs of Go differ is held constant: seeds of hashes, addresses, and which of the runtime's
			// threads goes on when.
			constant := "--deterministic=aslr,at-random,getrandom,time,threads,random"
			arguments := append([]string{path, "run", constant, "--", own}, os.Args[1:]...)
			err = syscall.Exec(path, arguments, append(os.Environ(), inside+"=1"))
		}
		if err == nil {
			err = missing
		}
		// go test shows no reason of a benchmark that is skipped.
		fmt.Fprintf(os.Stderr, "truecount: nothing counts instructions here, and `truecount run` is not available (%v); "+
			"benchmarks that count are skipped. Install truecount, or set TRUECOUNT to the program\n", err)
	}
	os.Exit(m.Run())
}
