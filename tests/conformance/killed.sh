# needs: bash sleep
# SIGKILL mid-run: of a child, of a pipeline, of a whole group, of itself. What bash says of it names PIDs.
exec 2>/dev/null
(while :; do :; done) & p=$!; sleep 0.2; kill -KILL $p; wait $p; echo "loop $?"
sh -c 'exec sleep 100' & p=$!; sleep 0.1; kill -KILL $p; wait $p; echo "sleep $?"
set -m; (sleep 100 & sleep 100 & wait) & p=$!; sleep 0.3; kill -KILL -- -$p; wait $p; echo "group $?"; set +m
bash -c 'echo before; kill -KILL $$; echo never'; echo "self $?"
yes | (head -n 3; kill -KILL $BASHPID); echo "pipe ${PIPESTATUS[1]}"
kill -KILL $$
