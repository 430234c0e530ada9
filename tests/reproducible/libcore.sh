#!/usr/bin/env bash
# An old rustc without a counter of its own, checking its core library below `truecount run --reproducible`: one count of
# the whole run, or which ones there were. Debian's packages rustc, libstd-rust-dev and rust-src, unpacked or installed.
#   tests/reproducible/libcore.sh [-n N] TRUECOUNT RUSTC .../library/core/src/lib.rs      (default: 10 runs)
set -u
runs=10
while getopts n: option; do case $option in n) runs=$OPTARG ;; *) exit 2 ;; esac; done
shift $((OPTIND - 1))
truecount=$(realpath "${1:?usage: libcore.sh [-n N] TRUECOUNT RUSTC LIB.RS}") rustc=$(realpath "${2:?no rustc}") core=$(realpath "${3:?no lib.rs}")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir "$work/out"
for _ in $(seq "$runs"); do
  # A file that is there already is another input.
  rm -f "$work"/out/*
  (cd "$work" && env -i PATH=/usr/bin:/bin HOME="$work" LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" RUSTC_BOOTSTRAP=1 "$truecount" run --reproducible \
    "--json=$work/run.json" -- "$rustc" --edition 2021 --crate-type lib --crate-name core --emit metadata -Awarnings \
    --out-dir "$work/out" "$core") > "$work/log" 2>&1
  n=$(grep -m1 -o '"value": *[0-9]*' "$work/run.json" 2> /dev/null | grep -o '[0-9]*$')
  grep -q '"code": 0' "$work/run.json" 2> /dev/null || { tail -3 "$work/log"; n=failed; }
  echo "${n:-failed}" >> "$work/counts"
done
sort "$work/counts" | uniq -c
[ "$(sort -u "$work/counts" | wc -l)" = 1 ] && ! grep -q failed "$work/counts"
