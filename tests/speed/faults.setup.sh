python3 "$PROGRAMS/faults.py" 20000 > faults.c && cc -O0 -o faults faults.c
