# needs: cc python3
# mean: no
# bound: 10
exec ./faults 5000
