# needs: gcc
# when: ci
# What the C library does with threads: cancellation, robust and priority-inheriting mutexes, barriers, keys, forks and programs that threads start.
./nptl; echo "status $?"
