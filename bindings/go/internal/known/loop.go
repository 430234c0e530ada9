// Package known has a loop of known length, for tests.
package known

// Loop runs 2 × iterations instructions, and three around them.
func Loop(iterations uint64)
