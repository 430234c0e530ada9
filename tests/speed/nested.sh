# needs: gcc
# mean: no
# bound: 10
exec ./nested 5000000
