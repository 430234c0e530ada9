#!/bin/bash
# Five runs under the virtual PMU, one number: what repeats, and what the programs vary themselves.
#   cargo build --release && tests/repeat.sh           # about two minutes
# TRUECOUNT names another truecount. Prints the five counts of each program.
set -u
here=$(cd "$(dirname "$0")" && pwd)
truecount=${TRUECOUNT:-${CARGO_TARGET_DIR:-$here/../target}/release/truecount}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work" || exit 2
export LC_ALL=C PYTHONHASHSEED=0
seq 1 100000 | awk '{print $1 * 7919 % 1000003, "text", $1 % 17}' > in
cp "$here/programs/crate/lib.rs" lib.rs
count() {
    "$truecount" stat --json --output count.json --source virtual -e instructions:u -- "$@" >/dev/null 2>&1
    sed -n 's/.*"value": \([0-9]*\).*/\1/p' count.json | head -n 1
    rm -f count.json
}
row() {
    command -v "$1" >/dev/null || { echo "skipped: $1 is not installed"; return; }
    local counts=() i
    for i in 1 2 3 4 5; do rm -f in.*; counts+=("$(count "$@")"); done
    if [ "$(printf '%s\n' "${counts[@]}" | sort -u | wc -l)" = 1 ] && [ -n "${counts[0]}" ]; then echo "equal    ${counts[0]}  $*"
    else echo "differs  ${counts[*]}  $*"; fi
}
row gzip -k -n in
row xz -k -T1 -1 in
row zstd -q -T1 --single-thread in -o in.zst
# Without the threads that read and write for it.
row zstd -q -T1 --single-thread --no-asyncio in -o in.zst
row sqlite3 :memory: 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) select count(*), sum(i * i % 7) from n'
row "$(python3 -c 'import sys; print(sys.executable)')" -c 'import json; print(len(json.dumps(list(range(10000)))))'
rustc=$(rustc --print sysroot 2>/dev/null)/bin/rustc
row "$rustc" --crate-type lib --emit=metadata -o lib.rmeta lib.rs
