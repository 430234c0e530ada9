gcc -O1 -o io_uring "$PROGRAMS/io_uring.c"
