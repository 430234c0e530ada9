gcc -O1 -z execstack -o nested "$PROGRAMS/nested.c"
