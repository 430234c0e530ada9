#!/usr/bin/env python3
"""The last commits of a project with benchmarks: are its changes real, and are there any where nothing changed?

usage: project.py TRUECOUNT DIRECTORY [--commits N] [--repository DIR --suite FILE --built-of PATH…]

DIRECTORY gets a clone and a store; a second call goes on where the first one ended. Without --repository it is this
project with a benchmark of crates/stats and crates/events; FILE is a truecount.toml with `functions = true`, and PATH are
the beginnings of names of files that the benchmarks are built of. Measures the last N first parents (default 200) in
pieces of 25, the newest first, then:

- every change that `history changes` reports is measured again from a clean build of both sides, in a store of its own:
  the counts must be the same ones;
- a commit that changes no file that the benchmarks are built of must report nothing.
"""

import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PIECE = 25

# What this project's own benchmark is built of.
BUILT_OF = ["crates/stats/src/", "crates/stats/Cargo.toml", "crates/events/src/", "crates/events/Cargo.toml",
            "crates/model/src/", "crates/model/Cargo.toml", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/"]

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


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Project:
    def __init__(self, args):
        self.truecount = os.path.abspath(args.truecount)
        self.directory = os.path.abspath(args.directory)
        self.clone = os.path.join(self.directory, "clone")
        self.again = os.path.join(self.directory, "again.db")
        self.built_of = tuple(args.built_of or BUILT_OF)
        self.suite = args.suite and os.path.abspath(args.suite)
        if not self.suite:
            write(os.path.join(self.directory, "bench/Cargo.toml"), MANIFEST)
            write(os.path.join(self.directory, "bench/main.rs"), PROGRAM)
            self.suite = os.path.join(self.directory, "truecount.toml")
            write(self.suite, SUITE.format(directory=self.directory))
        if not os.path.exists(self.clone):
            os.makedirs(self.directory, exist_ok=True)
            repository = args.repository or os.path.join(HERE, "../..")
            subprocess.run(["git", "clone", "--quiet", "--shared", repository, self.clone], check=True)

    def run(self, *words, check=True):
        return subprocess.run(words, cwd=self.clone, check=check, text=True, stdout=subprocess.PIPE).stdout.strip()

    def history(self, *words, check=True):
        return self.run(self.truecount, "history", *words, check=check)

    def parents(self, count):
        return self.run("git", "rev-list", "--first-parent", f"--max-count={count}", "HEAD").split()

    def measure(self, commits):
        for start in range(0, len(commits) - 1, PIECE):
            end = min(start + PIECE, len(commits) - 1)
            said = self.history("backfill", "--suite", self.suite, f"{commits[end]}..{commits[start]}", check=False)
            print("\n".join(line for line in said.splitlines() if "skipped" in line), file=sys.stderr, flush=True)

    def report(self, commits):
        """How many changes are false."""
        document = json.loads(self.history("changes", "--json"))
        exported = self.history("export", "--format", "records").splitlines()
        known = {json.loads(line)["commit"]["hash"] for line in exported if line.strip()}
        measured = [commit for commit in commits if commit in known]
        touched = {}
        for commit in measured:
            names = self.run("git", "diff", "--name-only", f"{commit}^1", commit).splitlines()
            touched[commit] = any(name.startswith(self.built_of) for name in names)
        changes = [change for change in document["changes"] if change["commit"] in touched]
        wrong = 0
        for change in changes:
            same = self.is_reproduced(change)
            expected = touched[change["commit"]] or change["unmeasured"] > 0
            wrong += not same or not expected
            functions = ", ".join(moved["function"].split("::")[-1] for moved in change["moved"][:2])
            ratio = change["other"] / change["base"] - 1
            print(f"{change['commit'][:9]} {change['benchmark']} {change['base']:.0f} -> {change['other']:.0f}"
                  f" ({ratio * 100:+.3f} %) {functions}: {'reproduced' if same else 'NOT REPRODUCED'}"
                  f"{'' if expected else ', NOTHING CHANGED'}", flush=True)
        quiet = sum(not each for each in touched.values())
        print(f"{len(measured)} of {len(commits)} commits measured, {quiet} of them change nothing that is built; "
              f"{len(changes)} changes in {len({change['commit'] for change in changes})} commits reported, {wrong} false")
        return wrong

    def is_reproduced(self, change):
        """Whether clean builds of both sides have the same counts."""
        for side in (change["before"], change["commit"]):
            self.history("backfill", "--clean", "--suite", self.suite, "--store", self.again, side)
        again = json.loads(self.history("compare", "--json", "--all", "--store", self.again, change["before"], change["commit"],
                                        check=False))
        for row in again["rows"]:
            if all(row[key] == change[key] for key in ("benchmark", "parameters", "metric")):
                return (row["base"], row["other"]) == (change["base"], change["other"])
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("truecount")
    parser.add_argument("directory")
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--repository")
    parser.add_argument("--suite")
    parser.add_argument("--built-of", nargs="+")
    args = parser.parse_args()
    project = Project(args)
    commits = project.parents(args.commits + 1)
    project.measure(commits)
    return 1 if project.report(commits[:-1]) else 0


if __name__ == "__main__":
    sys.exit(main())
