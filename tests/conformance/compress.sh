# needs: gzip xz zstd pigz
set -e
seq 1 200000 | awk '{print $1 * 7919 % 1000003, "text", $1 % 17}' > in
gzip -n -9 < in | sha256sum; gzip -n -1 < in > in.gz; gzip -dc in.gz | cmp - in; xz -T1 -2 < in | sha256sum; xz -T2 --block-size=500000 -1 < in > in.xz; xz -T2 -dc in.xz | cmp - in
zstd -q -T1 -9 < in | sha256sum; zstd -q -T2 -3 in -o in.zst; zstd -q -dc in.zst | cmp - in; pigz -n -p 2 < in | sha256sum; pigz -p 2 -dc in.gz | cmp - in; echo ok
