gcc -O1 -pthread -o smc "$PROGRAMS/smc.c"
