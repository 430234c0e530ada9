#!/bin/bash
# What needs more of Python than CI has: the wheel in every CPython of this machine (3.9 to 3.13, of PATH or pyenv) with its
# own tests, the type hints by mypy, stubtest and pyright, and pyperf reading the counts.
#   bindings/python/check.sh WHEEL
set -euo pipefail
wheel=$(readlink -f "$1") here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
failed=0
said() { printf '%-28s %s\n' "$1" "$2"; [ "$2" != failed ] || failed=1; }
last=
for minor in 9 10 11 12 13; do
    python=
    for found in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python3; do
        if "$found" --version >/dev/null 2>&1; then python=$found; break; fi
    done
    if [ -z "$python" ]; then said "3.$minor" "skipped: not here"; continue; fi
    "$python" -m venv "v$minor"
    "v$minor/bin/pip" install -q --disable-pip-version-check "$wheel" pytest
    if "v$minor/bin/python" -m pytest -q -p no:cacheprovider --truecount=virtual "$here/tests/test_truecount.py" >"log$minor" 2>&1 &&
        ! grep -q skipped "log$minor"; then
        said "3.$minor own tests" "$(tail -1 "log$minor")"
    else
        tail -20 "log$minor"; said "3.$minor own tests" failed
    fi
    if [ ! -x "v$minor/bin/truecount" ]; then
        said "3.$minor truecount" "not in this wheel (wheel.sh puts it in)"
    elif "v$minor/bin/truecount" run -- "v$minor/bin/python" -c 'import truecount
c = truecount.counter(); s = c.read(); truecount.known_loop(1000); e = c.read(); print(c.between(s, e) >= 2000)' >log 2>&1 &&
        grep -q True log && grep -q instructions:u log; then
        said "3.$minor truecount" "$("v$minor/bin/truecount" --version)"
    else
        cat log; said "3.$minor truecount" failed
    fi
    # Uninstalled, nothing is left.
    "v$minor/bin/pip" uninstall -q -y --disable-pip-version-check truecount
    left=$(find "v$minor" -iname '*truecount*')
    if [ -z "$left" ]; then said "3.$minor uninstalled" "nothing is left"; else echo "$left"; said "3.$minor uninstalled" failed; fi
    "v$minor/bin/pip" install -q --disable-pip-version-check --no-deps "$wheel"
    last=v$minor
done
[ -n "$last" ] || { echo "no CPython from 3.9 on" >&2; exit 1; }
"$last/bin/pip" install -q --disable-pip-version-check mypy pyright pyperf
# What users write, with every function of the stubs.
cat >use.py <<'P'
import truecount
from typing import List

with truecount.counter("instructions:u") as c:
    sorted([3, 1])
count: "int | None" = c.count
measured = truecount.measure(sorted, [1, 2], runs=3)
counts: List[int] = measured.counts

@truecount.counted
def double(n: int) -> int:
    return 2 * n

four: int = double(2)
with truecount.regions("out") as region:
    with region("part"):
        pass
P
for tool in "mypy --strict use.py" "stubtest truecount --ignore-missing-stub --allowlist $here/tests/stubtest.txt" "pyright --pythonpath $last/bin/python use.py"; do
    if "$last/bin/"$tool >log 2>&1; then said "$tool" "$(tail -1 log)"; else cat log; said "${tool%% *}" failed; fi
done
if "$last/bin/python" -m pytest -q -p no:cacheprovider --truecount=virtual "$here/tests/limits.py::test_change" "$here/tests/zero.py" \
    --truecount-pyperf one.json >log 2>&1 &&
    "$last/bin/python" -m pyperf show one.json >>log 2>&1 && "$last/bin/python" -m pyperf stats one.json >>log 2>&1 &&
    cp one.json two.json && "$last/bin/python" -m pyperf compare_to one.json two.json >>log 2>&1; then
    said pyperf "$(tail -1 log)"
else
    cat log; said pyperf failed
fi
exit $failed
