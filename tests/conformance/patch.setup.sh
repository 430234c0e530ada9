gcc -O1 -pthread -o patch "$PROGRAMS/patch.c"
