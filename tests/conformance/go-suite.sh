# needs: go
# time: 6000
# when: all
# ignore: .
# The tests are built by a setup that both runs share.
d=$PWD
for p in os_exec syscall sync runtime; do
    [ -x "$p.test" ] || continue
    for i in $(seq ${TRUECOUNT_RUNS:-3}); do (cd -P "src/$p" && "$d/$p.test" -test.short -test.timeout 1200s >/dev/null 2>&1); echo "$p $?"; done
done
