gcc -O1 -pthread -o signals "$PROGRAMS/signals.c"
