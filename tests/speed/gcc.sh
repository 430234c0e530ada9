# needs: gcc python3
# bound: 2.5
exec gcc -O2 -c big.c -o big.o
