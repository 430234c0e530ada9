#!/usr/bin/env bash
# rustc, checking large crates, counts itself (`-Zself-profile-counter=instructions:u`) below `truecount run --reproducible`:
# how many of its intervals have the same count in every run, and by how much the others differ. Prints what
# `truecount profile aggregate` says of the runs of each crate, and one line for each.
#   tests/reproducible/rustc.sh [-n N] [-t THREADS] [-T TOOLCHAIN] TRUECOUNT [CRATE@VERSION…]      (default: 10 runs, 1 thread)
# With several threads the profiles have the time instead: rustc's counter is its first thread's (on another one measureme's
# check of an interval fails, on hardware, too), and the time of such a run is its instructions, one nanosecond each.
# Needs crates from outside, through cargo, and a toolchain whose rustc has that counter (1.49 and later).
set -u
runs=10 threads=1 toolchain=1.95.0
while getopts n:t:T: option; do
  case $option in n) runs=$OPTARG ;; t) threads=$OPTARG ;; T) toolchain=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
truecount=$(realpath "${1:?usage: rustc.sh [-n N] [-t THREADS] [-T TOOLCHAIN] TRUECOUNT [CRATE@VERSION…]}"); shift
[ $# -gt 0 ] || set -- nalgebra@0.33.2 diesel@2.2.12 syn@2.0.106 regex-syntax@0.8.6 tokio@1.47.1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
counter=instructions:u; [ "$threads" = 1 ] || counter=wall-time
# Cargo gives the call of the compiler for the crate itself to this, which keeps it.
cat > keep <<'K'
#!/bin/bash
# Cargo asks the compiler for its version, too.
for word in "$@"; do [ "$word" = --crate-name ] && kept=1; done
[ "${kept-}" ] || exec "$@"
{ printf 'cd %q\n' "$PWD"; export -p | grep -E '^declare -x (CARGO|OUT_DIR|RUSTC|DEP_)' | grep -v MAKEFLAGS | sed 's/^declare -x/export/'; } > "$KEEP.env"
printf '%s\0' "$@" > "$KEEP.words"
exec "$@"
K
chmod +x keep
for crate in "$@"; do
  name=${crate%@*} version=${crate#*@}
  rm -rf fetch c; mkdir -p fetch/src profiles; : > fetch/src/lib.rs
  printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$name" "$version" > fetch/Cargo.toml
  (cd fetch && cargo fetch -q) || { echo "skipped: $crate is not available"; continue; }
  cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-$version" c && chmod -R u+w c && rm -f c/Cargo.lock
  grep -q '^\[workspace' c/Cargo.toml || printf '\n[workspace]\n' >> c/Cargo.toml
  features=; [ "$name" != tokio ] || features='--features full'; [ "$name" != syn ] || features='--features full,extra-traits,visit,fold,visit-mut'
  # shellcheck disable=SC2086
  (cd c && KEEP=$work/kept RUSTC_WORKSPACE_WRAPPER=$work/keep cargo "+$toolchain" check -q --lib $features) > log.txt 2>&1 ||
    { tail -3 log.txt; echo "skipped: $crate is not built by $toolchain"; continue; }
  rm -rf profiles; mkdir profiles
  for run in $(seq "$runs"); do
    rm -rf out; mkdir -p out/p
    ( # shellcheck disable=SC1091
      . ./kept.env
      mapfile -d '' all < "$work/kept.words"
      # Without what it writes where, and without what earlier builds left.
      words=()
      for ((i = 0; i < ${#all[@]}; i++)); do
        case ${all[i]} in
          --out-dir) i=$((i + 1)) ;;
          --emit=*) ;;
          -C) [[ ${all[i + 1]} == incremental=* ]] || words+=(-C "${all[i + 1]}"); i=$((i + 1)) ;;
          *) words+=("${all[i]}") ;;
        esac
      done
      RUSTC_BOOTSTRAP=1 "$truecount" run --reproducible "--json=$work/out.json" -- "${words[@]}" --emit=metadata --out-dir "$work/out" \
        "-Zself-profile=$work/out/p" -Zself-profile-events=default "-Zself-profile-counter=$counter" "-Zthreads=$threads"
    ) > run.txt 2>&1 < /dev/null || { tail -3 run.txt; echo "$crate: run $run failed"; failed=1; break; }
    mv out/p/*.mm_profdata "profiles/$run.mm_profdata"
    grep -m1 -o '"value": *[0-9]*' out.json | grep -o '[0-9]*$' >> profiles/counts
  done
  echo "== $crate, -Zthreads=$threads, $runs runs of $("rustc" "+$toolchain" --version)"
  echo "whole runs: $(sort profiles/counts | uniq -c | awk '{print $1 " × " $2}' | paste -sd ' ')"
  "$truecount" profile aggregate profiles/*.mm_profdata > aggregate.txt 2>&1 || { tail -2 aggregate.txt; failed=1; }
  cat aggregate.txt
  [ -z "${KEEP:-}" ] || { mkdir -p "$KEEP/$name-$threads" && cp -r profiles/. "$KEEP/$name-$threads/"; }
done
exit $failed
