# needs: erl
# package: erlang-base
# time: 120
cat > a.erl <<'X'
-module(a). -export([main/0, ring/2]).
ring(P, 0) -> P ! done; ring(P, N) -> Q = spawn(?MODULE, ring, [self(), N - 1]), receive done -> P ! done end, Q.
main() -> io:format("~p~n", [lists:sum([X * X || X <- lists:seq(1, 50000)])]),
  ring(self(), 2000), receive done -> io:format("ring~n") end,
  io:format("~p~n", [catch 1 / (length([]))]), T = ets:new(t, []), [ets:insert(T, {K, K}) || K <- lists:seq(1, 5000)],
  io:format("~p ~p~n", [ets:info(T, size), re:run("a1b22", "\\d+", [global, {capture, all, list}])]),
  io:format("~s", [os:cmd("echo port")]), halt(3).
X
erlc +no_docs a.erl 2>/dev/null || erl -noshell -eval 'compile:file(a), halt().'
erl -noshell -s a main 2>&1 | sed 's/{a,main.*//; s/\[{.*//' ; echo "status ${PIPESTATUS[0]}"
rm -f a.beam
