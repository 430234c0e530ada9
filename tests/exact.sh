#!/bin/bash
# Two ways of counting, one number: the virtual PMU against single-stepping, instruction for instruction.
#   cargo build --release && tests/exact.sh [NAME…]    # about fifteen minutes on an idle machine, ten of them for python: a step costs 20 microseconds
# TRUECOUNT names another truecount; NAMEs choose rows. Both runs must end with status 0 and write the same output.
# A row that differs is counted again. A program that varies by itself (single-stepping runs differ among each other)
# is equal when both ways meet on one of its numbers, else it "varies": not equal, and no proof of a fault (the
# example `differ` of truecount-engine says where). Exit status 1 if a row fails, 2 if nothing could be compared.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../target}
truecount=$(realpath -m "${TRUECOUNT:-$target/release/truecount}")
[ -x "$truecount" ] || { echo "no $truecount: run \`cargo build --release\` first" >&2; exit 2; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT; cd "$work" || exit 2
export LC_ALL=C PERL_HASH_SEED=0 PERL_PERTURB_KEYS=0 PYTHONHASHSEED=0
failed=0 rows=0 equal=0 wanted=("$@") held=

# One run: the count to stdout, the program's output to the file $1.out; a complaint and failure otherwise.
count() {
    local source=$1 status value; shift
    rm -f count.json
    "$truecount" stat --json --output count.json --source "$source" $held -e instructions:u -- "$@" >"$source.out" 2>"$source.err" </dev/null
    status=$?
    if [ $status != 0 ]; then echo "FAILS    $source: exit status $status: $(tail -n 1 "$source.err")  $*" >&2; return 1; fi
    # The number must come from the source asked for, exact.
    value=$(tr -d '\n ' < count.json | sed -n 's/.*"event":"instructions:u","value":\([0-9]\+\),"unit":"count","source":"'"$source"'","precision":"exact".*/\1/p')
    if [ -z "$value" ]; then echo "FAILS    $source gave no exact count  $*" >&2; return 1; fi
    echo "$value"
}

distinct() { printf '%s\n' "$@" | sort -u | wc -l; }

row() {
    local name=$1 virtual step v s i; shift
    [ ${#wanted[@]} = 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || return 0
    rows=$((rows + 1))
    virtual=$(count virtual "$@") && step=$(count step "$@") || { failed=1; return 0; }
    if ! cmp -s virtual.out step.out; then echo "FAILS    the output differs  $*"; failed=1; return; fi
    for i in 1 2 3 4 5; do
        for v in $virtual; do for s in $step; do
            if [ "$v" = "$s" ]; then
                equal=$((equal + 1))
                if [ $i = 1 ]; then echo "equal    $v  $name: $*"
                else echo "equal    $v  $name: $*  (varies by itself: virtual $virtual, step $step)"; fi
                return 0
            fi
        done; done
        [ $i = 5 ] && break
        v=$(count virtual "$@") && s=$(count step "$@") || { failed=1; return 0; }
        virtual="$virtual $v"; step="$step $s"
        # Neither varies: there is nothing to wait for.
        [ $i = 1 ] && [ "$(distinct $virtual)$(distinct $step)" = 11 ] && break
    done
    if [ "$(distinct $virtual)" != 1 ] && [ "$(distinct $step)" != 1 ]; then
        echo "varies   virtual $virtual, step $step  $name: $*"
        return 0
    fi
    echo "DIFFERS  virtual $virtual, step $step  $name: $*"; failed=1
    return 0
}
has() { command -v "$1" >/dev/null || { echo "skipped: $1 is not installed"; false; }; }

row true true
row ls ls -l /usr
row sort sort /etc/passwd
row sha256sum sha256sum /etc/passwd
row grep grep -c root /etc/passwd
has gzip && row gzip gzip -nc /etc/passwd
has awk && row awk awk -F: '{n += $3} END {print n}' /etc/passwd
has bash && row bash bash -c 'for i in 1 2 3; do x=$((x + i)); done; echo $x'
has perl && row perl perl -e 'print "x" x 3'
has sqlite3 && row sqlite3 sqlite3 :memory: 'select 6 * 7'
# No -I or -E: with them it would not see PYTHONHASHSEED. It reads the clock: the vDSO's loops depend on the time, which
# single steps stretch.
held=--deterministic=clock
has python3 && row python "$(python3 -c 'import sys; print(sys.executable)')" -s -S -c 'print(1)'
held=
if has g++; then
    g++ -O1 -o throws -x c++ - <<'P' && row throws ./throws || { echo "FAILS    g++"; failed=1; }
#include <stdexcept>
int main() { int n = 0; for (int i = 0; i < 3; i++) try { throw std::runtime_error("x"); } catch (const std::exception &) { n++; } return n - 3; }
P
fi
if has go; then
    mkdir g && printf 'package main\nfunc main() { println(42) }\n' > g/m.go &&
        CGO_ENABLED=0 GO111MODULE=off GOCACHE=${TMPDIR:-/tmp}/truecount-gocache go build -o gostatic g/m.go &&
        row go ./gostatic || { echo "FAILS    go build"; failed=1; }
fi
if has rustc && rustc --print target-libdir --target x86_64-unknown-linux-musl 2>/dev/null | xargs -r test -d; then
    echo 'fn main() { println!("{}", (1..=10u64).product::<u64>()); }' | rustc --target x86_64-unknown-linux-musl -O -o musl - && row musl ./musl ||
        { echo "FAILS    rustc"; failed=1; }
elif has musl-gcc; then
    printf '#include <stdio.h>\nint main(void) { printf("%%d\\n", 42); return 0; }\n' | musl-gcc -static -O1 -o musl -x c - && row musl ./musl ||
        { echo "FAILS    musl-gcc"; failed=1; }
else echo "skipped: no rust target x86_64-unknown-linux-musl and no musl-gcc"; fi
[ $rows -gt 0 ] || { echo "nothing was compared" >&2; exit 2; }
echo "exact: $equal of $rows equal"
exit $failed
