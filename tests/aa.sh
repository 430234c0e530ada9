#!/bin/bash
# A program against itself, many times: how often `bench` gives a verdict that is false (it should not in more than one of
# a hundred), or calls exact what varies (never); and how often +0.1 % instructions are found where nothing varies (always).
# The error rates of the statistics alone are simulated in crates/stats/tests/error_rates.rs; this is the command.
#   cargo build --release && tests/aa.sh [COMPARISONS]     # of each kind of program, 62 by default; minutes
# TRUECOUNT names another truecount, KINDS some of: coin threads noisy loaded short long memory python
# Exit status 0 if it is so, 1 if not, 2 if it cannot be tried here.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../target}
truecount=$(realpath -m "${TRUECOUNT:-$target/release/truecount}")
times=${1:-62}
[ -x "$truecount" ] || { echo "no $truecount: run \`cargo build --release\` first" >&2; exit 2; }
command -v cc >/dev/null || { echo "no C compiler" >&2; exit 2; }
"$truecount" check --require virtual >/dev/null 2>&1 || { echo "the virtual PMU does not work here" >&2; exit 2; }
work=$(mktemp -d) || exit 2
load=
trap '[ -z "$load" ] || kill "$load"; rm -rf "$work"' EXIT
cd "$work" || exit 2
failed=0

cat >work.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
static unsigned spin(unsigned n) { unsigned x = 1; for (unsigned i = 0; i < n; i++) { x = x * 33 + i; __asm__ volatile("" : "+r"(x)); } return x; }
static unsigned random_below(unsigned n) { unsigned x; if (getrandom(&x, sizeof x, 0) != sizeof x) abort(); return x % n; }
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned next;
static void *worker(void *unused) {
    (void)unused;
    for (;;) { while (pthread_mutex_trylock(&lock)) { } unsigned mine = next++; pthread_mutex_unlock(&lock);
        if (mine >= 200) return 0; spin(500); }
}
int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 100000;
    if (!strcmp(kind, "coin")) n += random_below(2) * n / 20;
    if (!strcmp(kind, "noisy")) n += random_below(n / 10);
    if (!strcmp(kind, "threads")) { pthread_t t[3]; for (int i = 0; i < 3; i++) pthread_create(t + i, 0, worker, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); }
    if (!strcmp(kind, "memory")) { size_t size = 1 << 20; unsigned *p = malloc(size * sizeof *p), at = 0;
        for (size_t i = 0; i < size; i++) p[i] = (unsigned)((i * 1664525 + 1013904223) % size);
        for (unsigned i = 0; i < n; i++) at = p[at]; printf("%u\n", at); free(p); }
    printf("%u\n", spin(n));
    return 0;
}
C
cc -O1 -pthread -o work work.c || exit 2
echo 'print(len({str(i) for i in range(2000)} | {str(i * i) for i in range(2000)}))' >hashes.py

# The program of a kind, and whether its instructions vary.
program() {
    case $1 in
        coin | noisy | threads) echo "./work $1" ;;
        loaded) echo "./work plain" ;;
        short) echo "./work plain 1" ;;
        long) echo "./work plain 20000000" ;;
        memory) echo "./work memory" ;;
        python) echo "python3 hashes.py" ;;
        *) echo "no such kind: $1" >&2; exit 2 ;;
    esac
}

# The verdict of the first comparison of a document, and what it rests on.
verdict() { tr -d '\n' <"$1" | sed 's/.*"comparisons": *\[//' | grep -o '"verdict": *"[^"]*"\|"exact": *[a-z]*' | head -n 2 | sed 's/.*: *//; s/"//g' | tr '\n' ' '; }

printf '%-8s %-14s %6s %6s %9s %6s\n' kind metric n false undecided exact
all=0 wrong=0
for kind in ${KINDS:-coin threads noisy loaded short long memory python}; do
    line=$(program "$kind") || exit 2
    [ "$kind" != python ] || command -v python3 >/dev/null || { echo "python   skipped: no python3"; continue; }
    if [ "$kind" = loaded ]; then while :; do :; done & load=$!; fi
    for metric in instructions:u cpu-time; do
        source=virtual rounds=6
        [ $metric = instructions:u ] || { source=software; rounds=10; }
        false=0 open=0 exact=0 n=0
        while [ $n -lt "$times" ]; do
            n=$((n + 1))
            "$truecount" bench --source $source --only -e $metric -n $rounds --json=result.json "$line" "$line" >/dev/null 2>log || { cat log; exit 1; }
            case $(verdict result.json) in
                more* | fewer* | faster* | slower*) false=$((false + 1)); cp result.json "${TMPDIR:-/tmp}/aa-$kind-$n.json" ;;
                undecided*) open=$((open + 1)) ;;
            esac
            # "exact" of a program whose count varies would be a lie, whatever the verdict.
            case $kind-$metric in
                coin-instructions:u | noisy-instructions:u | threads-instructions:u)
                    tr -d '\n' <result.json | grep -q '"verdict": *"\(more\|fewer\)"[^}]*"exact": *true' && exact=$((exact + 1)) ;;
            esac
        done
        printf '%-8s %-14s %6d %6d %9d %6d\n' "$kind" $metric $n $false $open $exact
        all=$((all + n)) wrong=$((wrong + false))
        [ $exact = 0 ] || failed=1
    done
    if [ -n "$load" ]; then kill "$load"; wait "$load" 2>/dev/null; load=; fi
done
echo "$wrong of $all comparisons of a program with itself end in a verdict"
[ $((wrong * 100)) -le "$all" ] || failed=1

found=0 n=0
while [ $n -lt "$times" ]; do
    n=$((n + 1))
    "$truecount" bench --source virtual --only -e instructions:u --floor instructions:u=0.05% -n 6 --json=result.json \
        './work plain 1000000' './work plain 1001000' >/dev/null 2>log || { cat log; exit 1; }
    case $(verdict result.json) in more*) found=$((found + 1)) ;; esac
done
echo "+0.1 % instructions of a program that does not vary: found $found times of $n"
[ $found = $n ] || failed=1
exit $failed
