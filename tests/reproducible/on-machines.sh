#!/usr/bin/env bash
# Counts the programs of programs.tsv here and on other machines, and prints a table: one number for each program and
# reference machine, or the numbers that differ. Other machines are those of a rig that runs commands under another kernel and
# CPU: `$RIG [OPTIONS] -f FILE:FILE … -s COMMANDS`, with the options of each machine in MACHINES (one a line; an empty line
# is the rig as it is). The same files go along: what each program opens here, as strace(1) tells.
#   RIG=rig-x86.sh tests/reproducible/on-machines.sh TRUECOUNT [NAME…]
set -u
truecount=$(realpath "${1:?usage: RIG=… on-machines.sh TRUECOUNT [NAME…]}"); shift
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-/tmp/reproducible}
level=${LEVEL:-x86-64-v3}
options="--machine $level --deterministic=${FACTORS-all,time,threads,random}"
machines=${MACHINES-$'\n-k backports\n-c erms=off,fsrm=off'}
rm -rf "$work"; mkdir -p "$work"
libraries=$(cksum < /etc/ld.so.cache)
for i in $(seq 200); do echo "user$((i * 7919 % 1000)):x:$((i * 31 % 97)):root of $i:/home/$i:/bin/sh"; done > "$work/text"
cp "$truecount" "$work/truecount"; strip "$work/truecount"
{
  echo "cd $work"
  while IFS=$'\t' read -r name command; do
    case $name in '#'*|'') continue ;; esac
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    [ -x "${command%% *}" ] || { echo "skipped: $name: no ${command%% *}" >&2; continue; }
    # A shell's own quoting stays: the words go through sh once, then the program takes its place.
    printf 'n=$(echo %q | sh 2>/dev/null | tail -1); echo "count %s ${n:-failed}"\n' \
      "exec env -i LC_ALL=C PATH=/usr/bin $work/truecount run --no-cache $options --json=out.json -- $command > out.txt; " "$name"
    echo "$command" >> "$work/commands"
    echo "$name" >> "$work/names"
  done < "$here/programs.tsv"
} > "$work/script.0"
# The count is read from the document; what did not do its work counts nothing that is worth comparing.
sed 's/n=\$(echo \(.*\) | sh 2>\/dev\/null | tail -1)/rm -f out.json; echo \1 | sh 2>err.txt; n=$(grep -q "\\"code\\": 0" out.json \&\& grep -m1 -o "\\"value\\": *[0-9]*" out.json | grep -o "[0-9]*")/; s/exec env/env/' "$work/script.0" > "$work/script"
(cd "$work" && sh "$work/script") > "$work/host.txt"
# What they open, and the libraries. Links stay links: grep reads its own mappings, which have the names of the files.
links=
files=("$work/text" "$work/truecount" /etc/ld.so.cache)
while read -r command; do
  (cd "$work" && env -i LC_ALL=C PATH=/usr/bin strace -f -o trace -e trace=open,openat,execve sh -c "$command" > out.txt 2> err.txt)
  while read -r path; do
    [ -f "$path" ] || continue
    files+=("$path")
    real=$(readlink -f "$path")
    [ "${real##*/}" = "${path##*/}" ] || { files+=("$real"); links="$links ln -sf $real $path;"; }
  done < <(
    sed -n 's/.*\(openat\|open\|execve\)([^"]*"\(\/[^"]*\)".*= [0-9].*/\2/p' "$work/trace" | grep -v '^/\(proc\|sys\|dev\|tmp\)/' | sort -u)
  files+=("$(readlink -f "${command%% *}"):${command%% *}")
done < "$work/commands"
while read -r path; do files+=("$path"); done < <(ldd "$work/truecount" | grep -o '/[^ ]*')
args=()
while read -r file; do args+=(-f "$([[ $file == *:* ]] && echo "$file" || echo "$file:$file")"); done < <(printf '%s\n' "${files[@]}" "$work/script" ${EXTRA-} | sort -u)
# Where /lib is a link into /usr here, it has to be one there: programs that read their mappings see the names.
there=:
if [ -L /lib ]; then
  # shellcheck disable=SC2016
  there='for d in x86_64-linux-gnu; do mkdir -p /usr/lib/$d && cp -a /lib/$d/. /usr/lib/$d/ && rm -rf /lib/$d && ln -s /usr/lib/$d /lib/$d; done
    cp /lib64/ld-linux-x86-64.so.2 /usr/lib/x86_64-linux-gnu/; ln -sf /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2'
fi
columns=(host); n=0
while IFS= read -r machine; do
  n=$((n + 1)); columns+=("${machine:-rig}")
  # shellcheck disable=SC2086
  "${RIG:?}" -t 900 $machine "${args[@]}" -s "$there; $links sh $work/script" < /dev/null > "$work/rig.$n.txt" 2>&1
done <<< "$machines"
printf '%s, %s\n\n| program |' "$level" "$("$truecount" --version)"; printf ' %s |' "${columns[@]}"; printf ' |\n|---|'; printf -- '---|%.0s' "${columns[@]}"; printf -- '---|\n'
same=0; all=0
while read -r name; do
  row=$(sed -n "s/^count $name //p" "$work/host.txt"); cells="| $name | $row |"; verdict='one number'
  for i in $(seq $n); do
    other=$(tr -d '\r' < "$work/rig.$i.txt" | sed -n "s/^count $name //p"); cells="$cells ${other:-none} |"
    [ "$other" = "$row" ] && [ -n "$row" ] && [ "$row" != failed ] || verdict=differs
  done
  all=$((all + 1)); [ "$verdict" = differs ] || same=$((same + 1))
  echo "$cells $verdict |"
done < "$work/names"
[ "$libraries" = "$(cksum < /etc/ld.so.cache)" ] || echo "/etc/ld.so.cache was changed meanwhile: every program looks it up" >&2
echo; echo "$same of $all programs have one number on $((n + 1)) machines"
[ "$same" = "$all" ]
