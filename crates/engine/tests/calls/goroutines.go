// Goroutines that are left and gone on with while they are two calls deep.
package main

var sink int

//go:noinline
func unit() { sink++ }

//go:noinline
func deeper(c chan int) {
	unit()
	c <- 1
	unit()
	c <- 2
	unit()
}

//go:noinline
func other(c chan int) {
	unit()
	deeper(c)
	unit()
	close(c)
}

//go:noinline
func sum(c chan int) (s int) {
	for v := range c {
		s += v
	}
	return
}

func main() {
	s := 0
	for i := 0; i < 100; i++ {
		c := make(chan int)
		go other(c)
		s += sum(c)
	}
	if s != 300 {
		panic(s)
	}
}
