# needs: gcc
# mean: no
# bound: -
exec ./contend pipes
