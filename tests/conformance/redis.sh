# needs: redis-server redis-cli
# package: redis-server
# ignore: .
redis-server --port 0 --unixsocket "$PWD/s" --save '' --daemonize no --enable-debug-command yes > log & p=$!
for i in $(seq 600); do redis-cli -s s ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-cli -s s ping
redis-cli -s s debug populate 2000 k 20
redis-cli -s s eval 'local s = 0 for i = 1, 20000 do s = s + i end redis.call("set", "sum", s) return s' 0
for i in $(seq 300); do echo "incr n"; echo "zadd z $i m$i"; done | redis-cli -s s | tail -1
redis-cli -s s zrangebyscore z 298 300; redis-cli -s s dbsize
redis-cli -s s set big "$(head -c 9999 /dev/zero | tr '\0' x)"; redis-cli -s s strlen big
redis-cli -s s save; redis-cli -s s bgsave | head -c 10; echo
redis-cli -s s shutdown nosave; wait $p; echo "status $?"
