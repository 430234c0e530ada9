# needs: python3
# time: 1800
# ignore: .
export PYTHONDONTWRITEBYTECODE=1
# The suite skips tests where a process may have many files, and a reference machine has 1,024.
ulimit -S -n 1024
# Not a shell script that stands in for it (pyenv).
python=$(python3 -c 'import sys; print(sys.executable)')
# Test by test: what fails natively (test_threading where a package imports threading at the start) must
# fail here, and nothing else.
for t in test_json test_re test_threading test_signal test_subprocess test_ctypes; do
    "$python" "$PROGRAMS/verdicts.py" "$t" 2>/dev/null; echo "$t status $?"
done
