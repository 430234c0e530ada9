#!/bin/bash
# Two ways of counting, one number: the virtual PMU against single-stepping, instruction for instruction.
#   cargo build --release && tests/exact.sh            # about ten minutes: a step costs 20 microseconds
# TRUECOUNT names another truecount. Exit status 1 if a row differs.
set -u
here=$(cd "$(dirname "$0")" && pwd)
truecount=${TRUECOUNT:-${CARGO_TARGET_DIR:-$here/../target}/release/truecount}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work" || exit 2
export LC_ALL=C PERL_HASH_SEED=0 PERL_PERTURB_KEYS=0 PYTHONHASHSEED=0
failed=0
count() {
    "$truecount" stat --json --output count.json --source "$1" -e instructions:u -- "${@:2}" >/dev/null 2>&1
    sed -n 's/.*"value": \([0-9]*\).*/\1/p' count.json | head -n 1
    rm -f count.json
}
row() {
    local virtual step
    virtual=$(count virtual "$@"); step=$(count step "$@")
    if [ -n "$virtual" ] && [ "$virtual" = "$step" ]; then echo "equal    $virtual  $*"
    else echo "DIFFERS  virtual ${virtual:-none}, step ${step:-none}  $*"; failed=1; fi
}
has() { command -v "$1" >/dev/null || { echo "skipped: $1 is not installed"; false; }; }
row true
row ls /
row sort /etc/passwd
row sha256sum /etc/passwd
has bash && row bash -c 'for i in 1 2 3; do x=$((x + i)); done; echo $x'
has perl && row perl -e 'print "x" x 3'
has python3 && row "$(python3 -c 'import sys; print(sys.executable)')" -I -S -c 'print(1)'
has gcc && g++ -O1 -o throws -x c++ - <<'P' && row ./throws
#include <stdexcept>
int main() { int n = 0; for (int i = 0; i < 3; i++) try { throw std::runtime_error("x"); } catch (const std::exception &) { n++; } return n - 3; }
P
has go && mkdir g && printf 'package main\nfunc main() { println(42) }\n' > g/m.go && CGO_ENABLED=0 GO111MODULE=off go build -o gostatic g/m.go && row ./gostatic
if has rustc && rustc --print target-libdir --target x86_64-unknown-linux-musl 2>/dev/null | xargs -r test -d; then
    echo 'fn main() { println!("{}", (1..=10u64).product::<u64>()); }' | rustc --target x86_64-unknown-linux-musl -O -o musl - && row ./musl
else echo "skipped: no rust target x86_64-unknown-linux-musl"; fi
exit $failed
