# The interpreter itself: `python3` may be a shim, a shell script that starts dozens of processes.
python3 -c 'import sys; print(sys.executable)' > interpreter
