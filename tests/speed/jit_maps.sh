# needs: cc
# mean: no
# bound: 5
# (plus 1 s: the program itself is done in no time)
exec ./jit_churn maps 0
