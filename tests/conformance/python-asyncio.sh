# needs: python3
# time: 1200
# ignore: .
export PYTHONDONTWRITEBYTECODE=1
python=$(python3 -c 'import sys; print(sys.executable)')
VERDICTS_LIMIT=1100 "$python" "$PROGRAMS/verdicts.py" test_asyncio 2>/dev/null; echo "status $?"
