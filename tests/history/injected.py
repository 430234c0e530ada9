#!/usr/bin/env python3
"""Commits with known costs: every planted change is found in its commit with its function, and nothing else is.

usage: injected.py [COMMITS] [TRUECOUNT]

Makes a repository in which every tenth commit or so costs 0.1 % more or less in one of three functions, and the others
change documentation, comments, names of variables, or code that is not executed; measures all of them by `history
backfill`, and compares what `history changes` tells with what was planted. The same seed makes the same repository.
"""

import json
import os
import random
import subprocess
import sys
import tempfile

COMMITS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
TRUECOUNT = sys.argv[2] if len(sys.argv) > 2 else "truecount"
FUNCTIONS = ["parse", "hash", "sort"]

PROGRAM = """
{comment}
#include <stdlib.h>
static volatile unsigned long sum;
{functions}
static int never(int {name}) {{ for (int i = 0; i < {idle}; i++) sum += {name}; return 0; }}
int main(int argc, char **argv) {{
  (void)argv;
  {calls}
  return argc > 99 ? never(argc) : 0;
}}
"""


def source(state):
    functions = "\n".join(
        f"__attribute__((noinline)) static void {name}(void) {{ for (int i = 0; i < {state[name]}; i++) sum += i ^ {k}; }}"
        for k, name in enumerate(FUNCTIONS)
    )
    calls = " ".join(f"{name}();" for name in FUNCTIONS)
    return PROGRAM.format(functions=functions, calls=calls, **{k: state[k] for k in ("comment", "name", "idle")})


def main():
    random.seed(20)
    directory = tempfile.mkdtemp(prefix="truecount-injected-")
    print(directory, file=sys.stderr)

    def run(*words, **more):
        return subprocess.run(words, cwd=directory, check=True, text=True, stdout=subprocess.PIPE, **more).stdout.strip()

    def git(*words):
        return run("git", "-c", "user.name=A", "-c", "user.email=a@example.org", *words)

    def write(name, text):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)

    git("init", "--quiet", "-b", "main", ".")
    write("truecount.toml", 'suite = "s"\nbuild = "cc -O1 -w -o prog prog.c"\nfunctions = true\n'
          '[[benchmark]]\nname = "all"\ncommand = ["./prog"]\nruns = 1\n')
    write(".gitignore", "prog\n")
    state = dict.fromkeys(FUNCTIONS, 20000) | {"comment": "/* 0 */", "name": "a", "idle": 1}
    planted = {}
    for number in range(COMMITS):
        kind = "first" if number == 0 else random.choice(
            ["cost", "words", "comment", "name", "idle", "words", "comment", "words", "comment", "words"])
        function = random.choice(FUNCTIONS)
        if kind == "cost":
            # Three functions of 20,000 turns each: 60 turns are 0.1 % of all.
            state[function] += random.choice([-60, 60])
        elif kind == "comment":
            state["comment"] = f"/* {number} */"
        elif kind == "name":
            state["name"] = f"n{number}"
        elif kind == "idle":
            state["idle"] = number
        write("README", f"{number}\n")
        write("prog.c", source(state))
        git("add", ".")
        git("commit", "--quiet", "-m", f"{number}: {kind}")
        if kind == "cost":
            planted[git("rev-parse", "HEAD")] = function
    first = git("rev-list", "--max-parents=0", "HEAD")
    subprocess.run([TRUECOUNT, "history", "backfill", first], cwd=directory, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([TRUECOUNT, "history", "backfill", f"{first}..HEAD"], cwd=directory, check=True, stdout=subprocess.DEVNULL)
    changes = json.loads(run(TRUECOUNT, "history", "changes", "--json"))
    found = {change["commit"]: change for change in changes["changes"]}
    wrong = 0
    for commit in found.keys() - planted.keys():
        wrong += 1
        print("false:", git("show", "-s", "--format=%h %s", commit), found[commit]["base"], found[commit]["other"])
    for commit, function in planted.items():
        change = found.get(commit)
        named = change and change["moved"] and change["moved"][0]["function"]
        if named != function:
            wrong += 1
            print("missed:", git("show", "-s", "--format=%h %s", commit), function, named)
    shares = [abs(change["other"] / change["base"] - 1) * 100 for change in found.values()]
    span = f"{min(shares):.3f} % to {max(shares):.3f} %" if shares else "none"
    print(f"{COMMITS} commits, {len(planted)} planted changes ({span}), {len(found)} found, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
