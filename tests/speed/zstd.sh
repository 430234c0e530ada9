# needs: zstd python3
# bound: 1.3
exec zstd -q -T1 -9 -c in > /dev/null
