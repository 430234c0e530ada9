bash "$PROGRAMS/../conformance/gcc.setup.sh"
