#!/usr/bin/env bash
# Counts each program of again.tsv N times on a machine as idle as it is, and N times beside four busy processes, every
# other time with the translations of earlier runs and without, and prints a table: one number for each program, or the numbers with how often each came, and what the last run says of it.
#   tests/reproducible/again.sh [-n N] [-l LOADED_N] [-t SECONDS] TRUECOUNT [NAME…]      (default: 10, 10, 300)
set -u
runs=10 loaded=10 limit=300 turn=0
while getopts n:l:t: option; do
  case $option in n) runs=$OPTARG ;; l) loaded=$OPTARG ;; t) limit=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
truecount=$(realpath "${1:?usage: again.sh [-n N] [-l N] [-t SECONDS] TRUECOUNT [NAME…]}"); shift
here=$(cd "$(dirname "$0")" && pwd)
export PROGRAMS=${here%/*}/programs
work=$(mktemp -d)
export EACH=$work/each
mkdir -m 700 "$work/cache"
clean=(env -i LC_ALL=C "PATH=$PATH" "RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}" "CARGO_HOME=${CARGO_HOME:-$HOME/.cargo}")
busy=()
# Only what was started here is ended.
finish() { [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2> /dev/null; busy=(); }
trap 'finish; rm -rf "$work"' EXIT
yes "the quick brown fox jumps over the lazy dog" | head -c 50000 | awk '{print NR, $0, NR * 7919 % 104729}' > "$work/words"
for i in $(seq 60); do awk -v i="$i" '{print i, $0}' "$work/words"; done > "$work/text"
count() { # directory, command: adds a line to counts. Nothing of ours is in the directory: programs list it.
  rm -f "$work/out.json"
  (cd "$1" && sh "$EACH")
  turn=$((1 - turn))
  local kept=(); [ $turn = 1 ] || kept=(--no-cache)
  # The directory of translations is known to the program, too: always the same one.
  (cd "$1" && "${clean[@]}" HOME="$1" TMPDIR="$1" XDG_CACHE_HOME="$work/cache" timeout "$limit" "$truecount" run "${kept[@]}" \
    --reproducible "--json=$work/out.json" -- sh -c "$2" < /dev/null > "$work/out.txt" 2> "$work/err.txt")
  local n; n=$(grep -m1 -o '"value": *[0-9]*' "$work/out.json" 2> /dev/null | grep -o '[0-9]*$')
  # What did not do its work counts nothing that is worth comparing.
  grep -q '"code": 0' "$work/out.json" 2> /dev/null || n=failed
  echo "${n:-failed}" >> "$work/counts"
  [ ! -s "$work/out.json" ] || cp "$work/out.json" "$work/documents/$(wc -l < "$work/counts").json"
}
tell() { # what the last run said of itself, and which inputs were not the same in all runs
  /usr/bin/python3 - "$work/out.json" "$work"/documents/*.json <<'P' 2> /dev/null
import json, sys
outside, *all = (json.load(open(path))["outside"] for path in sys.argv[1:])
print("closed" if outside["closed"] else "; ".join(f'{i["title"]} {i["times"]}' for i in outside["inputs"]), end="")
varied = [part for part in outside["identity"]["parts"] if len({each["identity"]["parts"][part] for each in all}) > 1]
print(f" (inputs that varied: {', '.join(varied)})" if varied else "")
P
}
printf '| program | instructions:u | idle | beside load | a run says |\n|---|---|---|---|---|\n'
same=0 all=0
while IFS= read -r line; do
  case $line in '#'*|'') continue ;; esac
  name=${line%%$'\t'*} rest=${line#*$'\t'}
  setup=${rest%%$'\t'*} command=${rest#*$'\t'}
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  directory=$work/d; rm -rf "$directory" "$work/counts" "$work/documents"; mkdir "$directory" "$work/documents"; : > "$EACH"; ln "$work/words" "$work/text" "$directory"
  if ! (cd "$directory" && eval "${setup:-:}") > "$work/setup.txt" 2>&1; then
    echo "| $name | skipped: its files cannot be made here | | | |"; continue
  fi
  (cd "$directory" && sh "$EACH")
  # The first run fills what programs keep (compiled modules, fonts): natively, so that no count hides it.
  (cd "$directory" && "${clean[@]}" HOME="$directory" TMPDIR="$directory" XDG_CACHE_HOME="$work/cache" timeout "$limit" sh -c "$command") < /dev/null > /dev/null 2>&1
  for _ in $(seq "$runs"); do count "$directory" "$command"; done
  if [ "$loaded" -gt 0 ]; then
    for _ in 1 2 3 4; do while :; do :; done & busy+=($!); done
    for _ in $(seq "$loaded"); do count "$directory" "$command"; done
    finish
    wait 2> /dev/null
  fi
  distinct=$(sort "$work/counts" | uniq -c | awk '{print ($1 > 1 ? $1 " × " : "") $2}' | paste -sd ' ')
  numbers=$(sort -u "$work/counts" | wc -l)
  all=$((all + 1))
  if [ "$numbers" = 1 ] && ! grep -q failed "$work/counts"; then
    same=$((same + 1)); distinct=$(head -1 "$work/counts" | sed -E ':a; s/([0-9])([0-9]{3})(,|$)/\1,\2\3/; ta')
  fi
  echo "| $name | $distinct | $runs | $loaded | $(tell) |"
done < "$here/again.tsv"
echo; echo "$same of $all programs have one number"
[ "$same" = "$all" ]
