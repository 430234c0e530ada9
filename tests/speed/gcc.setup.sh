bash "$PROGRAMS/../right/gcc.setup.sh"
