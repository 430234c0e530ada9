gcc -O2 -pthread -o contend "$PROGRAMS/contend.c"
