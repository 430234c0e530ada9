"""An independent simulator of two or three levels of caches, of translations of pages, prefetchers and branch predictors.

Reads a trace of records from the file named by the first argument and prints what was counted. Written from the
description in Valgrind's manual ("Simulation details", "Branch prediction"), with ordered dictionaries as sets: the
oldest entry is the least recently used one.
"""

import struct
import sys
from collections import OrderedDict


class Tree:
    """Of places, halved until one is left; each node says which half was not used last."""

    def __init__(self, places):
        half = (len(places) + 1) // 2
        self.places, self.halves = places, []
        if len(places) > 1:
            self.halves, self.to = [Tree(places[:half]), Tree(places[half:])], 0

    def points_to(self):
        return self.halves[self.to].points_to() if self.halves else self.places[0]

    def use(self, place):
        if self.halves:
            used = int(place in self.halves[1].places)
            self.to = 1 - used
            self.halves[used].use(place)


class Cache:
    def __init__(self, text):
        size, ways, line, rule = (text + ",lru").split(",")[:4]
        self.ways, self.line, self.rule, self.random = int(ways), int(line), rule, 1
        self.sets = [OrderedDict() for _ in range(int(size) // self.ways // self.line)]
        self.trees = [Tree(range(self.ways)) for _ in self.sets] if rule == "plru" else None

    def touch(self, block):
        ways = self.sets[block % len(self.sets)]
        if self.rule != "lru":
            return self.touch_otherwise(ways, block)
        if block in ways:
            ways.move_to_end(block)
            return False
        ways[block] = None
        if len(ways) > self.ways:
            ways.popitem(last=False)
        return True

    def touch_otherwise(self, ways, block):
        """`ways`: by block its place. In the order in which they came in."""
        tree = self.trees[block % len(self.sets)] if self.trees else None
        missed = block not in ways
        if missed and len(ways) < self.ways:
            ways[block] = len(ways)
        elif missed:
            if self.rule == "fifo":
                gone = next(iter(ways))
            elif self.rule == "plru":
                place = tree.points_to()
                gone = next(one for one, at in ways.items() if at == place)
            else:
                for shift in (13, -7, 17):
                    self.random ^= (self.random << shift if shift > 0 else self.random >> -shift) % 2**64
                place = self.random % self.ways
                gone = next(one for one, at in ways.items() if at == place)
            ways[block] = ways.pop(gone)
        if tree:
            tree.use(ways[block])
        return missed

    def misses(self, address, size):
        first, last = address // self.line, (address + size - 1) // self.line
        missed = self.touch(first)
        if last != first:
            missed = self.touch(last) or missed
        return missed


class Prefetcher:
    """Which address is wanted after a reference: one in the next line, or as far on as twice before."""

    def __init__(self, name, line):
        self.name, self.line, self.operands = name, line, {}

    def wanted(self, by, address, size):
        if self.name == "next-line":
            start, target = address + size - 1, address + size - 1 + self.line
        else:
            place = by % 256
            known, last, stride = self.operands.get(place, (None, 0, 0))
            if known != by:
                self.operands[place] = (by, address, 0)
                return None
            distance = address - last
            self.operands[place] = (by, address, distance)
            if distance != stride or distance == 0:
                return None
            if abs(distance) < self.line:
                distance = self.line if distance > 0 else -self.line
            start, target = address, address + distance
        return target if start // 4096 == target // 4096 else None


class Tage:
    """Seznec's and Michaud's predictor as described in src/tage.rs: histories are lists, the newest outcome first."""

    def __init__(self):
        self.base, self.tables, self.history = {}, [{}, {}, {}, {}], []
        self.lengths, self.alternative, self.branches = [4, 12, 36, 108], 8, 0

    def fold(self, length, width):
        folded = [0] * width
        for number, outcome in enumerate(self.history[:length]):
            folded[number % width] ^= outcome
        return sum(bit << number for number, bit in enumerate(folded))

    def wrong(self, address, taken):
        places = []
        for length in self.lengths:
            index = (address ^ address >> 10 ^ self.fold(length, 10)) % 1024
            places.append((index, (address ^ self.fold(length, 9) ^ self.fold(length, 8) << 1) % 512))
        # [tag, counter, use]
        fits = [
            (number, table[index])
            for number, (table, (index, tag)) in enumerate(zip(self.tables, places))
            if index in table and table[index][0] == tag
        ]
        counter = self.base.get(address % 4096, 1)
        base = counter > 1
        longest = fits[-1][0] if fits else -1
        if fits:
            entry = fits[-1][1]
            alternative = fits[-2][1][1] > 3 if len(fits) > 1 else base
            said = entry[1] > 3
            fresh = entry[2] == 0 and entry[1] in (3, 4)
            predicted = alternative if fresh and self.alternative > 7 else said
            if said != alternative:
                if fresh:
                    self.alternative = max(0, min(15, self.alternative + (1 if alternative == taken else -1)))
                entry[2] = max(0, min(3, entry[2] + (1 if said == taken else -1)))
            entry[1] = min(7, entry[1] + 1) if taken else max(0, entry[1] - 1)
        else:
            predicted = base
            self.base[address % 4096] = min(3, counter + 1) if taken else max(0, counter - 1)
        if predicted != taken:
            longer = range(longest + 1, 4)
            used = [self.tables[number].get(places[number][0], [None, 0, 0])[2] for number in longer]
            if 0 in used:
                number = longest + 1 + used.index(0)
                self.tables[number][places[number][0]] = [places[number][1], 4 if taken else 3, 0]
            else:
                for number in longer:
                    self.tables[number][places[number][0]][2] -= 1
        self.history = [int(taken)] + self.history[:127]
        self.branches += 1
        if self.branches % (1 << 18) == 0:
            for table in self.tables:
                for entry in table.values():
                    entry[2] //= 2
        return predicted != taken


def main():
    i1, d1, ll = (Cache(text) for text in sys.argv[2:5])
    l2, tlb, itlb = (Cache(text) if text else None for text in sys.argv[5:8])
    prefetcher = Prefetcher(sys.argv[8], d1.line) if sys.argv[8] != "none" else None
    tage = Tage() if sys.argv[9] == "tage" else None
    longest = min(cache.line for cache in (i1, d1, l2, ll) if cache)
    beside = {name: 0 for name in ("l2-instructions", "l2-data", "tlb", "itlb", "prefetched", "from-memory")}
    names = ["fetch", "load", "store", "modify", "conditional", "indirect"]
    counts = {name: [0, 0, 0] for name in names}
    history, counters, targets = 0, {}, {}
    with open(sys.argv[1], "rb") as trace:
        data = trace.read()
    for address, value, what, by in struct.iter_unpack("<QQQQ", data):
        count = counts[names[what]]
        count[0] += 1
        if what < 4:
            first = i1 if what == 0 else d1
            size = value if what == 0 else min(value, longest)
            translations, which = (itlb, "itlb") if what == 0 else (tlb, "tlb")
            if translations and translations.misses(address, size):
                beside[which] += 1
            if first.misses(address, size):
                count[1] += 1
                seen = not l2 or l2.misses(address, size)
                if l2 and seen:
                    beside["l2-instructions" if what == 0 else "l2-data"] += 1
                if seen and ll.misses(address, size):
                    count[2] += 1
            if what != 0 and prefetcher:
                wanted = prefetcher.wanted(by, address, size)
                if wanted is not None:
                    line = wanted // d1.line
                    if line not in d1.sets[line % len(d1.sets)]:
                        d1.touch(line)
                        beside["prefetched"] += 1
                        if (not l2 or l2.misses(line * d1.line, 1)) and ll.misses(line * d1.line, 1):
                            beside["from-memory"] += 1
        elif what == 4 and tage:
            count[1] += tage.wrong(address, bool(value))
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
    if l2 or tlb or itlb or prefetcher or tage:
        print(*beside.values())


main()
