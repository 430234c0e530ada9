# needs: go
# bound: 2.0
exec ./spin
