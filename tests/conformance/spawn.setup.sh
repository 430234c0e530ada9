gcc -O1 -pthread -o spawn "$PROGRAMS/spawn.c"
