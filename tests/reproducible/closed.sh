#!/usr/bin/env bash
# Whether the verdict of one run (closed, or what came in) agrees with many runs: 30 programs, half of which take in something
# by one cause each. No program that is called closed may vary, and each open one has to name its cause. Prints a table.
#   tests/reproducible/closed.sh [-n N] TRUECOUNT      (default: 20 runs of each)
set -u
runs=20
while getopts n: option; do case $option in n) runs=$OPTARG ;; *) exit 2 ;; esac; done
shift $((OPTIND - 1))
truecount=$(realpath "${1:?usage: closed.sh [-n N] TRUECOUNT}")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cc -O1 -pthread -o inputs "$here/../programs/inputs.c" 2> cc.txt || { cat cc.txt; exit 1; }
seq 2000 > text
# What is to be named (`-`: nothing), and the command.
cat > list <<'L'
- ./inputs none
- ./inputs file
- ./inputs mapped
- ./inputs environment
- ./inputs malloc
- ./inputs pair
- ./inputs written
- ./inputs own-socket
- /usr/bin/grep -c 7 text
- /usr/bin/wc text
- /usr/bin/sed -e s,7,x,g text
- /usr/bin/gzip -c text
- /usr/bin/cut -c1-2 text
- /usr/bin/sha256sum text
- /usr/bin/od -c text
getrandom ./inputs getrandom
random-device ./inputs urandom
vdso-clock ./inputs time
clock ./inputs clock
time-stamp-counter ./inputs rdtsc
pid ./inputs pid
processes ./inputs fork
threads ./inputs thread
kernel-file ./inputs proc
named-pipe ./inputs fifo fifo
timer ./inputs alarm
memory-size ./inputs sysinfo
cpu-number ./inputs cpu
free-space ./inputs statfs
file-times ./inputs times
L
printf '| program | counts of %s runs | one run says |\n|---|---|---|\n' "$runs"
wrong=0
while read -r source command; do
  held=aslr,at-random,getrandom
  [ "$source" = getrandom ] && held=aslr,at-random
  : > counts
  for _ in $(seq "$runs"); do
    # shellcheck disable=SC2086
    "$truecount" run --no-cache "--deterministic=$held" --json=out.json -- $command < /dev/null > out.txt 2>&1
    grep -m1 -o '"value": *[0-9]*' out.json | grep -o '[0-9]*$' >> counts
  done
  says=$(/usr/bin/python3 -c 'import json
outside = json.load(open("out.json"))["outside"]
print("closed" if outside["closed"] else " ".join(each["source"] for each in outside["inputs"]))')
  distinct=$(sort -u counts | wc -l)
  verdict=
  case $source in
    -) [ "$says" = closed ] && [ "$distinct" = 1 ] || verdict=' **wrong**' ;;
    *) [[ " $says " == *" $source "* ]] || verdict=' **wrong**' ;;
  esac
  [ -z "$verdict" ] || wrong=$((wrong + 1))
  echo "| \`$command\` | $distinct | $says$verdict |"
done < list
echo; echo "$wrong of $(wc -l < list) are wrong"
[ "$wrong" = 0 ]
