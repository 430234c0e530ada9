package truecount

import (
	"errors"
	"flag"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"truecount/internal/known"
)

func TestMain(m *testing.M) { Main(m) }

func open(t testing.TB, event string) *Counter {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	c, err := Open(event)
	if err != nil {
		if os.Getenv("TRUECOUNT_GO_INSIDE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func least(t testing.TB, c *Counter, f func()) uint64 {
	t.Helper()
	least := ^uint64(0)
	for i := 0; i < 20; i++ {
		count, err := c.Measure(f)
		if err != nil {
			t.Fatal(err)
		}
		if count < least {
			least = count
		}
	}
	return least
}

func TestALoopOfKnownLengthCountsTheSame(t *testing.T) {
	c := open(t, "instructions:u")
	f := func() { known.Loop(100_000) }
	first := least(t, c, f)
	if first < 200_000 || first > 200_030 {
		t.Fatalf("%d for a loop of 200000", first)
	}
	for i := 0; i < 9; i++ {
		if again := least(t, c, f); again != first {
			t.Fatalf("%d, then %d", first, again)
		}
	}
	t.Logf("loop %d", first-200_000)
}

func TestNothingIs0(t *testing.T) {
	c := open(t, "instructions:u")
	if count := least(t, c, nothing); count != 0 {
		t.Fatal(count)
	}
}

func TestWrongUseIsAnError(t *testing.T) {
	var wrong *EventError
	for _, event := range []string{"", "no-such-event", "instructions:x", "rxyz", "instructions:u:u", "r"} {
		if _, err := Open(event); !errors.As(err, &wrong) {
			t.Errorf("%q: %v", event, err)
		}
	}
	c := open(t, "task-clock:u")
	elsewhere := make(chan error)
	go func() {
		// The test's goroutine is locked to its thread: this is another one.
		_, err := c.Read()
		elsewhere <- err
	}()
	if err := <-elsewhere; err != ErrThread {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(); err != ErrClosed {
		t.Error(err)
	}
	if err := c.Close(); err != ErrClosed {
		t.Error(err)
	}
}

func TestWhatWasNeverOpenedIsClosed(t *testing.T) {
	// A descriptor of 0 would be the standard input.
	for _, c := range []*Counter{nil, new(Counter)} {
		if _, err := c.Read(); err != ErrClosed {
			t.Error(err)
		}
		if _, err := c.Measure(nothing); err != ErrClosed {
			t.Error(err)
		}
		if err := c.Close(); err != ErrClosed {
			t.Error(err)
		}
		if c.Name() != "" {
			t.Error(c.Name())
		}
	}
	if _, err := os.Stdin.Stat(); err != nil {
		t.Error(err)
	}
}

func TestACounterThatIsClosedMeanwhileIsNoOtherFile(t *testing.T) {
	for round := 0; round < 50; round++ {
		c := open(t, "task-clock:u")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		w.Write(make([]byte, 64))
		done := make(chan int)
		go func() {
			c.Close()
			// Most likely the number that was the counter's.
			n, _ := syscall.Dup(int(r.Fd()))
			done <- n
		}()
		last := uint64(0)
		for i := 0; i < 50; i++ {
			count, err := c.Read()
			if err == ErrClosed {
				break
			}
			if err != nil || count < last {
				t.Fatalf("%d after %d: %v", count, last, err)
			}
			last = count
		}
		syscall.Close(<-done)
		left := make([]byte, 100)
		if n, err := r.Read(left); n != 64 {
			t.Fatalf("%d bytes of another file are left: %v", n, err)
		}
		r.Close()
		w.Close()
	}
}

func TestACounterThatIsClosedInsideGivesNoCount(t *testing.T) {
	c := open(t, "task-clock:u")
	_, err := c.Measure(func() {
		c.Close()
	})
	if err != ErrClosed {
		t.Fatal(err)
	}
}

func TestAMisspeltEventIsNoSkip(t *testing.T) {
	// A benchmark that fails has no result.
	failed := testing.Benchmark(func(b *testing.B) { BenchEvent(b, "instrutions:u", nothing) })
	if failed.N != 0 {
		t.Error(failed)
	}
	skipped := true
	testing.Benchmark(func(b *testing.B) {
		defer func() { skipped = b.Skipped() }()
		BenchEvent(b, "instrutions:u", nothing)
	})
	if skipped {
		t.Error("skipped")
	}
}

func TestAPanicInsideLeavesTheCounterRight(t *testing.T) {
	c := open(t, "task-clock:u")
	for i := 0; i < 3; i++ {
		func() {
			defer func() { recover() }()
			c.Measure(func() { panic("inside") })
		}()
		done := make(chan bool)
		go func() {
			// A goroutine that ends by itself inside.
			defer close(done)
			own, err := Open("task-clock:u")
			if err == nil {
				defer own.Close()
				own.Measure(runtime.Goexit)
			}
		}()
		<-done
	}
	if _, err := c.Measure(func() { c.Measure(nothing) }); err != nil {
		t.Error(err)
	}
}

func TestAGoroutineThatMovesGetsAnError(t *testing.T) {
	c := open(t, "task-clock:u")
	// This goroutine keeps the counter's thread: whoever else reads is on another.
	for i := 0; i < 20; i++ {
		moved := make(chan error)
		go func() {
			runtime.Gosched()
			_, err := c.Measure(runtime.Gosched)
			moved <- err
		}()
		if err := <-moved; err != ErrThread {
			t.Fatal(err)
		}
	}
	if _, err := c.Read(); err != nil {
		t.Error(err)
	}
}

func TestAnErrorSaysWhatToDo(t *testing.T) {
	err := &OpenError{"instructions:u", 2}
	if text := err.Error(); !strings.Contains(text, "truecount run") || !errors.Is(err, os.ErrNotExist) {
		t.Fatal(text)
	}
}

// A benchmark of 20 calls.
func benchmark(t *testing.T, f func(b *testing.B)) testing.BenchmarkResult {
	t.Helper()
	times := flag.Lookup("test.benchtime").Value
	before := times.String()
	defer times.Set(before)
	if err := times.Set("20x"); err != nil {
		t.Fatal(err)
	}
	return testing.Benchmark(f)
}

func TestABenchmarkReportsAllThatItCounts(t *testing.T) {
	open(t, "instructions:u")
	result := benchmark(t, func(b *testing.B) {
		Bench(b, func() { known.Loop(1000) })
		BenchEvent(b, "page-faults:u", nothing)
		BenchEvent(b, "task-clock:u", nothing)
	})
	for _, unit := range []string{"instructions/op", "page-faults/op", "task-clock/op"} {
		if _, there := result.Extra[unit]; !there {
			t.Errorf("no %s in %v", unit, result.Extra)
		}
	}
	if result.T == 0 {
		t.Error("no time")
	}
	if len(reported) != 0 {
		t.Errorf("%d benchmarks are kept", len(reported))
	}
}

func TestSetupIsNotCounted(t *testing.T) {
	open(t, "instructions:u")
	count := func(turns uint64) float64 {
		made := 0
		result := benchmark(t, func(b *testing.B) {
			made = 0
			BenchSetup(b, func() uint64 {
				made++
				known.Loop(turns)
				return turns
			}, func(uint64) { known.Loop(1000) })
			if made != b.N+5 {
				t.Errorf("setup ran %d times for %d calls", made, b.N)
			}
		})
		if !(result.Extra["ns/op"] > 0) {
			t.Error(result)
		}
		return result.Extra["instructions/op"]
	}
	first := count(1000)
	if first < 2000 || first > 2100 {
		t.Error(first)
	}
	if again := count(10_000); again != first {
		t.Errorf("%v, with ten times the setup %v", first, again)
	}
}

func BenchmarkLoop(b *testing.B) {
	Bench(b, func() { known.Loop(1000) })
}

// The same count with one call as with a hundred.
func BenchmarkAllocates(b *testing.B) {
	Bench(b, func() { kept = make([]byte, 1000) })
}

var kept []byte

func BenchmarkNothing(b *testing.B) {
	Bench(b, nothing)
}
