# needs: sha256sum awk find
set -e
mkdir -p t/a t/b; seq 1 20000 > t/a/n; seq 5 3 60000 | tac > t/a/m
for i in $(seq 40); do head -n $((i * 37)) t/a/n | tail -n 30 > t/b/f$i; done
ln -s ../a/n t/b/link; cp -a t t2; mv t2/b t2/c; rm t2/c/f1; touch -d @1000000000 t2/a/n; chmod 640 t2/a/n
sort -n t/a/m | uniq -c | head -n 5; sort -R --random-source=t/a/n t/a/m | head -n 5; sort --parallel=2 -S 1M -rn t/a/m | sha256sum
wc t/a/n; cut -c1-3 t/a/n | sort | uniq -c | sort -rn | head; tr 0-9 a-j < t/a/n | md5sum; cksum t/a/n; base64 t/a/n | sha1sum
od -A d -t x1z t/a/n | sed -n 3,5p; factor 1234567890 97 600851475143; expr 6 \* 7; date -u -d @86400 +%F; stat -c '%a %s %F' t2/a/n t/b/link
paste t/b/f1 t/b/f2 | head -n 3; join t/b/f3 t/b/f4 | head; comm -12 <(sort t/b/f5) <(sort t/b/f5) | wc -l; split -l 3000 t/a/n x.; ls x.*
nl t/b/f2 | tail -n 2; fold -w 2 t/b/f2 | head -n 4; fmt -w 30 t/b/f2 | head -n 3; pr -l 20 -h x t/b/f2 | grep -c . || true
printf 'b a\nc b\n' | tsort; dd if=t/a/n bs=1k count=3 status=none | sha512sum; numfmt --to=iec 1234567; timeout 5 nice env -i X=1 printenv X
yes | head -n 100000 | wc -c; cat t/a/n t/a/m | tee copy | b2sum; cmp t/a/n t2/a/n && echo same; diff t/b/f2 t/b/f3 | head -n 4 || true
find t t2 -type f -size -2k | sort | xargs sha256sum | sha256sum; grep -c 7 t/a/n; grep -E '^(1|22)+$' t/a/n | head; sed -n 's/99/<&>/gp' t/a/n | tail -n 2
awk '{s += $1 * 1.5} END {printf "%.3f\n", s}' t/a/n; du -a --apparent-size t/b | sort | tail -n 1 | cut -f2; shuf --random-source=t/a/n -n 3 t/a/m; test -d t && [ -L t/b/link ] && echo ok
tail -n +19990 t/a/n | tac | rev; head -c 100 t/a/n | hexdump -C 2>/dev/null | head -n 2 || true; ls -lR --time-style=+%s t2/a | awk '/ n$/ {print $1, $5, $6}'
sleep 0.05; false || echo "false says $?"
