#!/usr/bin/env python3
"""Whether the model moves as the time does: programs that use memory badly, and the same ones repaired.

    tests/repairs.py [TRUECOUNT] [ROUNDS]

Each program of tests/repairs natively, as it is and repaired, in turn: the median of how many times longer it takes. Then
`run --model` with this CPU's sizes: how many times more misses of data in each level (those of the first with a prefetcher,
too), and how many times more `estimated-cycles`; and `run --sharing`: references to lines that threads share without
sharing data. Ends with 1 where the time and the model do not go the same way. (What false sharing takes depends on where
the two threads are: on CPUs of one core it takes nothing.)
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "repairs")
# More than this is not noise.
CLEARLY = 1.05


def build(name, directory, *more):
    program = os.path.join(directory, name + "".join(more))
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O1", "-g", "-pthread", *more, "-o", program, f"{HERE}/{name}.c"], check=True)
    return program


def seconds(program):
    begin = time.monotonic()
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def memory(truecount, options, program):
    output = subprocess.run([truecount, "run", "--json", *options, "--", program], check=True, capture_output=True)
    return json.loads(output.stdout)["memory"]


def model(truecount, options, program):
    found = memory(truecount, ["--model", *options], program)["model"]
    data = [found["reads"], found["writes"]]
    first, last = (sum(level[misses] for level in data) for misses in ("l1_misses", "ll_misses"))
    second = found["l2"]["data_misses"] if "l2" in found else None
    return [first, second, last, found["estimated_cycles"]]


def times(before, after):
    if before is None or after is None:
        return "not known"
    return f"{before / after:.1f}" if after else ("as many" if not before else f"{before:,} to 0")


def main():
    truecount = sys.argv[1] if len(sys.argv) > 1 else "truecount"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    agree = True
    print("| program | time | l1d-misses | … `--prefetch=stride` | l2d-misses | lld-misses | estimated-cycles | falsely shared |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for name in ("stride", "transpose", "sharing"):
            before, after = build(name, directory), build(name, directory, "-DREPAIRED")
            slower = statistics.median(seconds(before) / seconds(after) for _ in range(rounds))
            if name == "sharing":
                few = "-DN=20000"
                before, after = build(name, directory, few), build(name, directory, few, "-DREPAIRED")
                shared = []
                for program in (before, after):
                    lines = memory(truecount, ["--sharing"], program)["sharing"]
                    shared.append(sum(line["references"] for line in lines if line["false_sharing"]))
                agree &= shared[0] > 0 and shared[1] == 0
                print(f"| {name} | {slower:.1f} | | | | | | {times(*shared)} |", flush=True)
                continue
            plain = [model(truecount, [], program) for program in (before, after)]
            ahead = [model(truecount, ["--prefetch=stride"], program) for program in (before, after)]
            agree &= slower > CLEARLY and plain[0][3] > CLEARLY * plain[1][3]
            columns = [times(*pair) for pair in zip(*plain)]
            columns.insert(1, times(ahead[0][0], ahead[1][0]))
            print(f"| {name} | {slower:.1f} | " + " | ".join(columns) + " | |", flush=True)
    if not agree:
        print("the time and the model do not go the same way", file=sys.stderr)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
