"""An independent simulator of two or three levels of caches, of translations of pages and of branch predictors.

Reads a trace of records from the file named by the first argument and prints what was counted. Written from the
description in Valgrind's manual ("Simulation details", "Branch prediction"), with ordered dictionaries as sets: the
oldest entry is the least recently used one.
"""

import struct
import sys
from collections import OrderedDict


class Cache:
    def __init__(self, text):
        size, ways, line = (int(part) for part in text.split(","))
        self.ways, self.line, self.sets = ways, line, [OrderedDict() for _ in range(size // ways // line)]

    def touch(self, block):
        ways = self.sets[block % len(self.sets)]
        if block in ways:
            ways.move_to_end(block)
            return False
        ways[block] = None
        if len(ways) > self.ways:
            ways.popitem(last=False)
        return True

    def misses(self, address, size):
        first, last = address // self.line, (address + size - 1) // self.line
        missed = self.touch(first)
        if last != first:
            missed = self.touch(last) or missed
        return missed


def main():
    i1, d1, ll = (Cache(text) for text in sys.argv[2:5])
    l2, tlb = (Cache(text) if text else None for text in sys.argv[5:7])
    longest = min(cache.line for cache in (i1, d1, l2, ll) if cache)
    beside = {"l2-instructions": 0, "l2-data": 0, "tlb": 0}
    names = ["fetch", "load", "store", "modify", "conditional", "indirect"]
    counts = {name: [0, 0, 0] for name in names}
    history, counters, targets = 0, {}, {}
    with open(sys.argv[1], "rb") as trace:
        data = trace.read()
    for address, value, what in struct.iter_unpack("<QQQ", data):
        count = counts[names[what]]
        count[0] += 1
        if what < 4:
            first = i1 if what == 0 else d1
            size = value if what == 0 else min(value, longest)
            if what != 0 and tlb and tlb.misses(address, size):
                beside["tlb"] += 1
            if first.misses(address, size):
                count[1] += 1
                if l2 and l2.misses(address, size):
                    beside["l2-instructions" if what == 0 else "l2-data"] += 1
                elif l2:
                    continue
                if ll.misses(address, size):
                    count[2] += 1
        elif what == 4:
            place = (history % 128, address % 128)
            state = counters.get(place, 0)
            if (state in (2, 3)) != bool(value):
                count[1] += 1
            counters[place] = min(3, state + 1) if value else max(0, state - 1)
            history = (history * 2 + value) % 128
        else:
            place = address % 512
            if targets.get(place) != value:
                count[1] += 1
            targets[place] = value
    for name in names:
        print(name, *counts[name])
    if l2 or tlb:
        print(*beside.values())


main()
