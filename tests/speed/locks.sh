# needs: gcc
# mean: no
# bound: -
exec ./contend locks
