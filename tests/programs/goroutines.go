// Goroutines with preemption signals, channels, garbage collection, timers and a recovered fault.
package main

import (
	"fmt"
	"runtime"
	"sort"
	"sync"
	"time"
)

func spin(n int) (s uint64) {
	for i := 0; i < n; i++ { // no call inside: only a signal preempts it
		s = s*6364136223846793005 + uint64(i)
	}
	return
}

func fault() (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	var p *struct{ x [100]int }
	p.x[50] = 1
	return "not reached"
}

func main() {
	runtime.GOMAXPROCS(2)
	var wg sync.WaitGroup
	out := make(chan uint64, 64)
	for i := 0; i < 32; i++ {
		wg.Add(1)
		go func() { defer wg.Done(); out <- spin(3000000 + i) }()
	}
	ticks := 0
	ticker := time.NewTicker(2 * time.Millisecond)
	done := make(chan bool)
	go func() { wg.Wait(); close(done) }()
loop:
	for {
		select {
		case <-ticker.C:
			ticks++
		case <-done:
			break loop
		}
	}
	close(out)
	var all []uint64
	for v := range out {
		all = append(all, v)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	fmt.Printf("%d %x\n", len(all), all[0]^all[len(all)-1])
	fmt.Println(fault())
	m := map[int]string{}
	for i := 0; i < 200000; i++ {
		m[i%5000] = fmt.Sprintf("%d-%d", i, i*i)
		if i%50000 == 0 {
			runtime.GC()
		}
	}
	fmt.Println(len(m), m[4999], ticks > 0)
}
