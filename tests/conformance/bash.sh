# needs: bash
# when: ci
fib() { local n=$1; if ((n < 2)); then echo "$n"; else echo $(($(fib $((n - 1))) + $(fib $((n - 2))))); fi; }
fib 9
declare -A m; for i in {1..500}; do m[k$i]=$((i * i)); done; echo "${#m[@]} ${m[k77]}"
trap 'echo usr1' USR1; trap 'echo bye $?' EXIT; kill -USR1 $$; sleep 0.01
(trap 'echo term; exit 7' TERM; kill -TERM $BASHPID; echo never); echo "sub $?"
cat <<X | while read -r a b; do echo "$b:$a"; done
one two
three four
X
diff <(seq 5) <(seq 2 6)
sleep 30 & p=$!; kill -9 $p; wait $p 2>/dev/null; echo "killed $?"
for i in 3 1 2; do ( ((i == 1)) || sleep 2; exit "$i") & done; wait -n; echo "first $?"; wait
x=abcdefg; echo "${x:2:3} ${x/cd/--} ${x^^} ${#x}"; printf '%05.2f|%-6s|%x\n' 3.14159 ab 255
set -o pipefail; yes | head -n 1000 | tail -n 1; echo "pipe ${PIPESTATUS[*]}"; coproc { read -r l; echo "got $l"; }; echo hello >&"${COPROC[1]}"; read -r r <&"${COPROC[0]}"; echo "$r"
timeout 0.2 sleep 5; echo "timeout $?"; bash -c 'exec sh -c "exec echo chained"'; { bash -c 'kill -SEGV $$'; } 2>/dev/null; echo "segv $?"
exit 3
