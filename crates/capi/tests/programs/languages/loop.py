"""Loops of known length: what is counted beyond them."""

import sys

import truecount

if not truecount.available():
    print("no counter:", truecount.why_not())
    sys.exit(3)
for size in (1000, 100_000, 1000, 100_000):
    measured = truecount.measure(truecount.known_loop, size)
    print("beyond", measured.count - measured.result)
