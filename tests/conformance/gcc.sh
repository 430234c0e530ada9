# needs: gcc python3
# time: 240
set -e
wc -l < big.c; gcc -O2 -c big.c -o big.o; gcc big.o -o big; ./big; sha256sum big.o
