// Maps, sorting, strings and garbage collection, for a second or so.
package main

import (
	"fmt"
	"sort"
	"strings"
)

type node struct {
	left, right *node
	key         int
}

func insert(n *node, k int) *node {
	if n == nil {
		return &node{key: k}
	}
	if k < n.key {
		n.left = insert(n.left, k)
	} else {
		n.right = insert(n.right, k)
	}
	return n
}

func main() {
	var root *node
	for i := 0; i < 1200000; i++ {
		root = insert(root, i*7919%1000003)
	}
	m := map[string]int{}
	for i := 0; i < 3500000; i++ {
		m[fmt.Sprintf("k%d", i%20000)] += i
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	fmt.Println(len(keys), strings.Count(strings.Join(keys, " "), "9"), m["k77"], root.key)
}
