cc -O1 -fno-inline -fno-optimize-sibling-calls -o calls "$PROGRAMS/calls.c"
