# needs: go
./goroutines
