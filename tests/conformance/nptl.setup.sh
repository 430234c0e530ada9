gcc -O1 -pthread -o nptl "$PROGRAMS/nptl.c"
