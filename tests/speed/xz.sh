# needs: xz python3
# bound: 1.3
exec xz -T1 -1 -c in > /dev/null
