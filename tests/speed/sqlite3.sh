# needs: sqlite3
# bound: 2.0
exec sqlite3 :memory: "create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 700000) insert into t select i, printf('row %d', (i * 7919) % 100003), i / 3.0 from n;
create index ti on t(b); select count(*), sum(x.c) from t x join t y on x.b = y.b; select substr(b, 5, 2) d, count(*), avg(c) from t group by d order by 2 desc limit 3; update t set c = c + a where a % 2; select sum(c) from t;"
