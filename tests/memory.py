#!/usr/bin/env python3
"""What the virtual PMU adds to a program's memory.

    tests/memory.py [TRUECOUNT] [ROUNDS]

Each program natively, under `run` and under `run --functions`, in turn: the most that all processes of it had at the same
time, truecount among them, as proportional set size (`smaps_rollup`: pages that several share are counted once), looked
at every ten milliseconds. Printed: medians, what was added, and what of that is the processes' own (not pages of files,
which the kernel has once and takes back when it needs them). Programs that are not installed are skipped, and named.
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = {
    "true": ["true"],
    "python3": ["python3", "-c", "d = {i: str(i) for i in range(400000)}; print(len(d))"],
    "node": ["node", "-e", "let m = new Map(); for (let i = 0; i < 3e6; i++) m.set(i % 7919, i); console.log(m.size)"],
    "java": ["java", "-version"],
    "sqlite3": ["sqlite3", ":memory:", "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) select sum(length(printf('%d', i))) from n"],
    "gcc": ["sh", "-c", "gcc -O2 -S -x c - -o /dev/null < \"$SOURCE\""],
}
# What it may add, in MB.
BOUNDS = {"run": 25, "run --functions": 60}


def group(leader):
    """Kilobytes that all processes of a session have: in all, and without pages of files."""
    total = own = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                session = int(file.read().rsplit(")", 1)[1].split()[3])
            if session != leader:
                continue
            with open(f"/proc/{name}/smaps_rollup", encoding="ascii") as file:
                sizes = {line.split(":")[0]: int(line.split()[1]) for line in file if line.startswith("Pss")}
            total += sizes["Pss"]
            own += sizes["Pss_Anon"] + sizes["Pss_Shmem"]
        except (OSError, KeyError, IndexError):
            continue
    return total, own


def peak(command, environment):
    """The most of it, in kilobytes."""
    child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
    most = (0, 0)
    while child.poll() is None:
        most = max(most, group(child.pid))
        time.sleep(0.01)
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: status {child.returncode}")
    return most


def main():
    truecount = sys.argv[1] if len(sys.argv) > 1 else "target/release/truecount"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if shutil.which(truecount) is None:
        raise SystemExit(f"{truecount}: no such program; cargo build --release, or name it")
    missed = []
    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(directory, "many.c")
        with open(source, "w", encoding="ascii") as file:
            for at in range(2000):
                file.write(f"int f{at}(int a, int b) {{ int s = 0; for (int i = 0; i < a; i++) s += b * i + {at}; return s; }}\n")
        environment = dict(os.environ, SOURCE=source)
        result = os.path.join(directory, "result")
        ways = {
            "natively": [],
            "run": [truecount, "run", "-o", result, "--"],
            "run --functions": [truecount, "run", "--functions", "-o", result, "--"],
        }
        print(f"{'program':10}" + "".join(f"{way:>20}" for way in ways) + "".join(f"{'added, own':>20}" for _ in BOUNDS))
        for name, command in PROGRAMS.items():
            if shutil.which("gcc" if name == "gcc" else command[0]) is None:
                print(f"{name}: skipped, it is not installed")
                continue
            found = {way: [] for way in ways}
            for _ in range(rounds):
                for way, front in ways.items():
                    found[way].append(peak(front + command, environment))
            medians = {way: [statistics.median(one) / 1000 for one in zip(*values)] for way, values in found.items()}
            added = {way: [more - less for more, less in zip(medians[way], medians["natively"])] for way in BOUNDS}
            sizes = "".join(f"{medians[way][0]:17.1f} MB" for way in ways)
            print(f"{name:10}{sizes}" + "".join(f"{more:11.1f},{own:5.1f} MB" for more, own in added.values()), flush=True)
            missed += [f"{name}: {way} adds {more:.1f} MB, more than {BOUNDS[way]}" for way, (more, _) in added.items() if more > BOUNDS[way]]
    for line in missed:
        print(line)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
