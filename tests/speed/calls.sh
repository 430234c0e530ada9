# needs: cc
# mean: no
# bound: 1.8
exec ./calls
