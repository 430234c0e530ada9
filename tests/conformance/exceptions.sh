# needs: g++
./exceptions
