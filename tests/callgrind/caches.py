#!/usr/bin/env python3
"""Runs programs under Callgrind and under truecount valgrind --machine=valgrind, both with --cache-sim=yes --branch-sim=yes
and the same caches, and compares references, misses and mispredictions. Prints a Markdown table: for each column what
Callgrind has, and by how many percent truecount has more or less.

  tests/callgrind/caches.py TRUECOUNT [NAME...]        (default: all programs of compare.py)

Needs valgrind, and for some rows cc, c++, rustc, lua, sqlite3 ...; what is missing is said and left out. The loader is left
out: it finds another environment and another auxiliary vector, and Valgrind's library.
"""
import os
import re
import sys

from compare import both

COLUMNS = [("I refs", "Ir"), ("reads", "Dr"), ("writes", "Dw"), ("I1 misses", "I1mr"), ("D1 read misses", "D1mr"),
           ("D1 write misses", "D1mw"), ("LL misses", "ILmr DLmr DLmw"), ("branches", "Bc Bi"), ("mispredicts", "Bcm Bim")]
CACHES = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64"]


def sums(path):
    """Own costs by the file's columns, of all objects but the loader."""
    sums, ob, call, names = {}, "", False, []
    for line in open(path, errors="replace"):
        key, _, value = line.rstrip("\n").partition("=")
        if line.startswith("events:"):
            names = line.split()[1:]
        elif key == "ob":
            ob = os.path.basename(value)
        elif key == "calls":
            call = True
        elif re.match(r"\d", line):
            if not call and not ob.startswith(("ld-linux", "vgpreload")):
                for name, cost in zip(names, line.split()[1:]):
                    sums[name] = sums.get(name, 0) + int(cost)
            call = False
    return sums


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    options = ["--cache-sim=yes", "--branch-sim=yes", *CACHES]
    width = len(COLUMNS) + 3
    print("| program | " + " | ".join(name for name, _ in COLUMNS) + " | CPU s: Callgrind | truecount |")
    print("|---" * width + "|")
    for name, theirs, ours, there, here in both(os.path.realpath(sys.argv[1]), sys.argv[2:], options, width, sums):
        cells = []
        for _, names in COLUMNS:
            a, b = (sum(costs.get(name, 0) for name in names.split()) for costs in (theirs, ours))
            cells.append(f"{a:,} {100 * (b - a) / max(a, 1):+.2f} %")
        print(f"| {name} | " + " | ".join(cells) + f" | {there:.2f} | {here:.2f} |", flush=True)


main()
