# needs: python3
# time: 900
# ignore: .
export PYTHONDONTWRITEBYTECODE=1
# Not a shell script that stands in for it (pyenv).
python=$(python3 -c 'import sys; print(sys.executable)')
for t in test_json test_re test_threading test_signal test_subprocess test_ctypes test_asyncio; do
    "$python" -m test -q "$t" > log 2>&1; s=$?
    echo "$t status $s"; grep -E '^Result:' log | head -n 1
    [ $s = 0 ] || { echo "--- $t"; tail -n 30 log; } >> "${LOG:-/dev/null}"
done
