gcc -O1 -o vectors "$PROGRAMS/vectors.c" -lm
