#!/bin/bash
# Two checkouts, one baseline: what a pipeline does with truecount, from beginning to end.
#   cargo build --release && tests/ci-story.sh      # seconds; TRUECOUNT names another truecount
# A small project is checked out twice, in directories of different names and lengths, by "runners" with different
# environments. The first saves a baseline, the second builds for itself and is gated by it:
#   unchanged             passes (0)
#   +0.3 % instructions   fails (3), and the function that costs more is named
#   -0.3 % instructions   passes
#   a baseline of another reference (a damaged file) is refused before anything is measured (1)
# Exit status 0 if all of it is so, 1 if not, 2 if it cannot be tried here (no C compiler, no virtual PMU).
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../target}
truecount=$(realpath -m "${TRUECOUNT:-$target/release/truecount}")
[ -x "$truecount" ] || { echo "no $truecount: run \`cargo build --release\` first" >&2; exit 2; }
command -v cc >/dev/null || { echo "no C compiler" >&2; exit 2; }
"$truecount" check --require virtual >/dev/null 2>&1 || { echo "the virtual PMU does not work here" >&2; exit 2; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0

# The project: a parser and a sum; EXTRA turns of the parser are what a commit changes.
project() {
    mkdir -p "$1" && cat >"$1/main.c" <<'C'
#include <stdio.h>
#ifndef TURNS
#define TURNS 100000
#endif
__attribute__((noinline)) unsigned parse_line(unsigned n) {
    unsigned x = 1;
    for (unsigned i = 0; i < n; i++) { x = x * 33 + i; __asm__ volatile("" : "+r"(x)); }
    return x;
}
__attribute__((noinline)) unsigned sum_up(unsigned n) {
    unsigned x = 0;
    for (unsigned i = 0; i < n; i++) { x += i ^ (x >> 3); __asm__ volatile("" : "+r"(x)); }
    return x;
}
int main(void) { printf("%u\n", parse_line(TURNS) + sum_up(100000)); return 0; }
C
}

# Builds a checkout as its pipeline does.
build() { (cd "$1" && cc -O1 ${2:+-DTURNS=$2} -o prog main.c) || { echo "cannot compile" >&2; exit 2; }; }

# Runs a command in a checkout as a runner with an environment of its own does.
first=$work/a
second="$work/another checkout, with a longer name"
as_first() { (cd "$first" && env -i PATH="$PATH" HOME="$work" LANG=C CI=true RUNNER=one "$@"); }
as_second() {
    (cd "$second" && env -i PATH="$PATH" HOME="$work/nowhere" LANG=C.UTF-8 PIPELINE_ID=4711 GIT_COMMIT=0123456789abcdef \
        SOME_TOKEN="a longer value than the other runner has" PWD="$second" "$@")
}

expect() { # WHAT STATUS WORD… : the last command's status and what it must have said
    local what=$1 status=$2 word; shift 2
    if [ "$got" != "$status" ]; then
        echo "WRONG  $what: exit status $got instead of $status"; cat "$work/out"; failed=1; return
    fi
    for word in "$@"; do
        grep -q -- "$word" "$work/out" || { echo "WRONG  $what: nothing about \`$word\`"; cat "$work/out"; failed=1; return; }
    done
    echo "ok     $what"
}

measure=("$truecount" bench --source virtual --only -e instructions:u)
gate=("${measure[@]}" --baseline "$work/base.json" --fail-above instructions:u=0.1% -- ./prog)

project "$first"; project "$second"
build "$first"
as_first "${measure[@]}" --save "$work/base.json" -- ./prog >"$work/out" 2>&1; got=$?
expect "the first checkout saves a baseline" 0 "instructions:u"
# The same environment for both: the loader reads it.
functions_of() { (cd "$1" && env -i PATH="$PATH" LANG=C "$truecount" run --functions --json="$2" -- ./prog >/dev/null 2>&1); }
functions_of "$first" "$work/base-functions.json"

build "$second"
as_second "${gate[@]}" >"$work/out" 2>&1; got=$?
expect "unchanged, elsewhere, another environment: passes" 0

# Three instructions of a thousand more, in parse_line.
build "$second" 100640
as_second "${gate[@]}" >"$work/out" 2>&1; got=$?
if [ "$got" = 3 ]; then
    # What a pipeline adds to its log: the functions of both, and which one grew.
    functions_of "$second" "$work/new-functions.json"
    functions() {
        tr -d '\n' <"$1" | sed 's/"functions": *\[/\n&/; s/"program":/\n&/g' |
            sed -n 's/.*"function": *"\([^"]*\)".*"instructions:u": *\([0-9]*\).*/\1 \2/p' |
            awk '{ all[$1] += $2 } END { for (name in all) print name, all[name] }' | sort
    }
    functions "$work/base-functions.json" >"$work/before"; functions "$work/new-functions.json" >"$work/after"
    join "$work/before" "$work/after" | awk '$3 != $2 { printf "%d more instructions in %s\n", $3 - $2, $1 }' |
        sort -nr | head -n 1 >>"$work/out"
fi
expect "+0.3 % instructions: fails, with the function" 3 "in parse_line"

build "$second" 99360
as_second "${gate[@]}" >"$work/out" 2>&1; got=$?
expect "fewer instructions: passes" 0

echo "{" >"$work/base.json"
as_second "${gate[@]}" >"$work/out" 2>&1; got=$?
expect "a damaged baseline: refused" 1 "base.json"
exit $failed
