#!/usr/bin/env python3
"""How long a store of a million points takes: add, compare of a suite of 500, changes over 5,000 commits and 50 metrics.

usage: store.py TRUECOUNT STORE_SPEED [COMMITS]

STORE_SPEED is the example of crates/history (cargo build --release -p truecount-history --example store_speed). Prints the
times of the command, the smallest of five, and the CPU time of that one; says what is over its goal.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time


def commits(directory, count):
    """Makes a repository of so many commits; their hashes, a line each, the oldest first."""
    def git(*words, text=None):
        return subprocess.run(["git", *words], cwd=directory, check=True, text=True, input=text, stdout=subprocess.PIPE).stdout

    git("init", "--quiet", "-b", "main", ".")
    lines = []
    for number in range(count):
        words = f"commit {number}\n"
        lines.append(f"commit refs/heads/main\ncommitter A <a@example.org> {1600000000 + 60 * number} +0000\n"
                     f"data {len(words)}\n{words}\n")
    git("fast-import", "--quiet", text="".join(lines))
    return git("rev-list", "--reverse", "main")


def main():
    truecount, store_speed = map(os.path.abspath, sys.argv[1:3])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 5000
    with tempfile.TemporaryDirectory(prefix="truecount-store-") as directory:
        def run(words, text=None):
            return subprocess.run(words, cwd=directory, check=True, text=True, input=text, stdout=subprocess.PIPE).stdout

        hashes = commits(directory, count)
        ends = "\n".join(hashes.split()[-2:]) + "\n"

        def fill(store, suite, benchmarks, metrics, kind, commits):
            print(f"{store}:", run([store_speed, store, suite, str(benchmarks), str(metrics), kind], commits).strip())

        def timed(what, goal, words):
            best = None
            for _ in range(5):
                before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
                # 3 and 4 are the answers of gates.
                subprocess.run([truecount, *words], cwd=directory, stdout=subprocess.DEVNULL, check=True)
                wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                best = min(best or (wall, cpu), (wall, cpu))
            over = "" if best[0] <= goal else "  OVER ITS GOAL"
            print(f"{what}: {best[0] * 1000:.0f} ms, CPU {best[1] * 1000:.0f} ms (goal {goal * 1000:.0f} ms){over}")

        fill("million.db", "small", 40, 5, "noisy", hashes)
        fill("million.db", "large", 500, 1, "exact", ends)
        million = ["--store", "million.db"]
        timed("compare of a suite of 500", 0.2, ["history", "compare", "--suite", "large", *million])
        timed("the same with a gate", 0.2, ["history", "compare", "--suite", "large", "--fail-above", "metric-0=1%", *million])
        fill("exact.db", "small", 10, 5, "exact", hashes)
        fill("noisy.db", "small", 10, 5, "noisy", hashes)
        for store in ("exact.db", "noisy.db"):
            timed(f"changes over {count} commits and 50 metrics, {store}", 2,
                  ["history", "changes", "--store", store])


if __name__ == "__main__":
    main()
