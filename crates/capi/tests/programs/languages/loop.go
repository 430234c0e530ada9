// Loops of known length: what is counted beyond them.
package main

import (
	"fmt"
	"os"
	"runtime"

	"truecount"
)

func main() {
	runtime.LockOSThread()
	c, err := truecount.Open("instructions:u")
	if err != nil {
		fmt.Println("no counter:", err)
		os.Exit(3)
	}
	for _, size := range []uint64{1000, 100_000, 1000, 100_000} {
		length, least := uint64(0), ^uint64(0)
		for i := 0; i < 20; i++ {
			count, err := c.Measure(func() { length = truecount.KnownLoop(size) })
			if err != nil {
				fmt.Println(err)
				os.Exit(4)
			}
			if count < least {
				least = count
			}
		}
		fmt.Println("beyond", int64(least)-int64(length))
	}
}
