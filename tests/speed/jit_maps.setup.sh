cc -O1 -o jit_churn "$PROGRAMS/jit_churn.c"
