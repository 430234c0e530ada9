# needs: psql pgbench setpriv
# package: postgresql
# time: 600
# when: all
# ignore: .
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1); export PATH=$bin:$PATH LC_ALL=C PGHOST=$PWD/s PGUSER=u PGDATABASE=postgres
mkdir s; chmod 777 s . ..; d=$PWD/s
as=; [ "$(id -u)" = 0 ] && as='setpriv --reuid 65534 --regid 65534 --clear-groups'
$as initdb -D "$d/d" -U u -A trust --no-sync > log 2>&1; echo "initdb $?"
$as postgres -D "$d/d" -k "$d" -c listen_addresses= -c fsync=off -c jit_above_cost=0 -c jit_inline_above_cost=0 -c jit_optimize_above_cost=0 > s/log 2>&1 & p=$!
for i in $(seq 600); do pg_isready -q && break; sleep 0.2; done
psql -qAt <<'X' 2>&1
show jit;
create table t as select g as id, md5(g::text) as h, g % 10 as k from generate_series(1, 20000) g;
create index on t (h); analyze t;
select k, count(*), min(h), max(id) from t group by k order by k;
select count(*) from t a join t b on a.id = b.id + 1 where a.h < b.h;
with recursive f(a, b) as (select 0::numeric, 1::numeric union all select b, a + b from f where b < 1e30) select max(a) from f;
create function fact(n int) returns numeric language plpgsql as $$ begin if n < 2 then return 1; end if; return n * fact(n - 1); end $$;
select fact(50); select 1 / 0; select jsonb_agg(id order by id) from t where id < 6;
begin; savepoint a; insert into t values (1, null, null); rollback to a; commit; select count(*) from t;
select regexp_replace('a1b22', '\d+', '#', 'g'), to_char(date '2020-02-29' + interval '1 year', 'YYYY-MM-DD');
X
pgbench -i -q 2>/dev/null; pgbench -c 4 -j 2 -t 50 2>/dev/null | grep -E '^number of (clients|transactions actually|failed)'
psql -qAt -c 'select sum(abalance) = (select sum(delta) from pgbench_history), count(*) from pgbench_accounts'
kill -INT $p; wait $p; echo "status $?"
