# needs: sqlite3
set -e
sqlite3 db <<'Q'
pragma journal_mode = wal;
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) insert into t select i, printf('row %d', (i * 7919) % 100003), i / 3.0 from n;
create index ti on t(b);
select count(*), sum(a), printf('%.3f', sum(c)) from t;
select * from t where b like 'row 4242%' order by b limit 5;
select substr(b, 5, 1) d, count(*) from t group by d order by d;
delete from t where a % 3 = 0; vacuum; pragma integrity_check; select count(*) from t x join t y on x.b = y.b;
Q
rm -f db db-wal db-shm
