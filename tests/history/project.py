#!/usr/bin/env python3
"""The last commits of this project with a benchmark: are its changes real, and are there any where nothing changed?

usage: project.py TRUECOUNT DIRECTORY [COMMITS] [PIECE]

DIRECTORY gets a clone, a benchmark of crates/stats and crates/events, and a store; a second call goes on where the first
one ended. Measures the last COMMITS first parents (default 200) in pieces of PIECE (default 25), the newest first, then:

- every change that `history changes` reports is measured again from a clean build of both sides, in a store of its own:
  the counts must be the same ones;
- a commit that changes no file that the benchmark is built of must report nothing.
"""

import json
import os
import subprocess
import sys

TRUECOUNT = os.path.abspath(sys.argv[1])
DIRECTORY = os.path.abspath(sys.argv[2])
COMMITS = int(sys.argv[3]) if len(sys.argv) > 3 else 200
PIECE = int(sys.argv[4]) if len(sys.argv) > 4 else 25
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
CLONE = os.path.join(DIRECTORY, "clone")

# What the benchmark is built of.
BUILT_OF = ("crates/stats/src/", "crates/stats/Cargo.toml", "crates/events/src/", "crates/events/Cargo.toml",
            "crates/model/src/", "crates/model/Cargo.toml", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/")

MANIFEST = """[package]
name = "history-bench"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
truecount-stats = { path = "../crates/stats" }
truecount-events = { path = "../crates/events" }
[profile.release]
codegen-units = 1
"""

PROGRAM = """
use std::hint::black_box;
use truecount_stats::{Options, compare_paired, compare_unpaired, mann_whitney, shift_interval};

fn main() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        1_000_000 + (state >> 44)
    };
    for _ in 0..20 {
        let (a, b): (Vec<u64>, Vec<u64>) = (0..30).map(|_| (next(), next())).unzip();
        black_box(compare_paired(&a, &b, &Options::default()).is_ok());
        black_box(compare_unpaired(&a, &b, &Options::default()).is_ok());
        let real = |all: &[u64]| all.iter().map(|v| *v as f64).collect::<Vec<f64>>();
        black_box(mann_whitney(&real(&a), &real(&b)));
        black_box(shift_interval(&real(&a), &real(&b), 0.05));
    }
    for _ in 0..50 {
        for text in ["{instructions:u,branches:u}:S", "cpu/event=0xc4,umask=0x20,name=x/ppH", "r01cb:u,wall-time", "a{b"] {
            black_box(truecount_events::parse(text).is_ok());
        }
    }
}
"""

SUITE = """suite = "own"
build = "mkdir -p history-bench/src && cp {directory}/bench/Cargo.toml history-bench/ && cp {directory}/bench/main.rs history-bench/src/ && cargo build --quiet --offline --release --manifest-path history-bench/Cargo.toml"
functions = true
[[benchmark]]
name = "statistics and events"
command = ["history-bench/target/release/history-bench"]
runs = 1
"""


def run(*words, check=True):
    return subprocess.run(words, cwd=CLONE, check=check, text=True, stdout=subprocess.PIPE).stdout.strip()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    if not os.path.exists(CLONE):
        os.makedirs(DIRECTORY, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", "--shared", "--branch", "main", ROOT, CLONE], check=True)
    write(os.path.join(DIRECTORY, "bench/Cargo.toml"), MANIFEST)
    write(os.path.join(DIRECTORY, "bench/main.rs"), PROGRAM)
    write(os.path.join(CLONE, "truecount.toml"), SUITE.format(directory=DIRECTORY))
    commits = run("git", "rev-list", "--first-parent", f"--max-count={COMMITS + 1}", "HEAD").split()
    for start in range(0, len(commits) - 1, PIECE):
        end = min(start + PIECE, len(commits) - 1)
        print(run(TRUECOUNT, "history", "backfill", f"{commits[end]}..{commits[start]}", check=False).splitlines()[-1:],
              file=sys.stderr, flush=True)
    report(commits)


def report(commits):
    document = json.loads(run(TRUECOUNT, "history", "changes", "--json"))
    records = run("git", "rev-list", "--first-parent", f"--max-count={len(commits) - 1}", "HEAD").split()
    known = {json.loads(line)["commit"]["hash"] for line in
             run(TRUECOUNT, "history", "export", "--format", "records").splitlines() if line.strip()}
    measured = [commit for commit in records if commit in known]
    touched = {}
    for commit in measured:
        names = run("git", "diff", "--name-only", f"{commit}^1", commit).splitlines()
        touched[commit] = any(name.startswith(BUILT_OF) for name in names)
    changes = [change for change in document["changes"] if change["commit"] in touched]
    wrong = 0
    for change in changes:
        for side in (change["before"], change["commit"]):
            run(TRUECOUNT, "history", "backfill", "--clean", "--store", os.path.join(DIRECTORY, "again.db"), side)
        again = json.loads(run(TRUECOUNT, "history", "compare", "--json", "--store", os.path.join(DIRECTORY, "again.db"),
                               change["before"], change["commit"]))
        row = next(row for row in again["rows"] if row["metric"] == change["metric"])
        same = (row["base"], row["other"]) == (change["base"], change["other"])
        expected = touched[change["commit"]] or change["unmeasured"] > 0
        wrong += not same or not expected
        functions = ", ".join(moved["function"].split("::")[-1] for moved in change["moved"][:2])
        print(f"{change['commit'][:9]} {change['base']:.0f} -> {change['other']:.0f}"
              f" ({(change['other'] / change['base'] - 1) * 100:+.3f} %) {functions}: "
              f"{'reproduced' if same else 'NOT REPRODUCED'}{'' if expected else ', NOTHING CHANGED'}")
    quiet = sum(not each for each in touched.values())
    print(f"{len(measured)} of {len(records)} commits measured, {quiet} of them change nothing that is built;"
          f" {len(changes)} changes reported, {wrong} false")
    return wrong


if __name__ == "__main__":
    main()
