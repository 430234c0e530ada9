#!/bin/bash
# The region of docs/languages/same.md in CPython, by the PMU of the x86 rig: ten runs of the program in the guest, which
# gets the interpreter, its library and what is in the wheel.
#   bindings/python/rig.sh WHEEL [PYTHON]...       (TRUECOUNT_SHARED: where the rigs are, as for cargo xtask vm-test)
set -euo pipefail
[ $# -ge 1 ] || { echo "rig.sh: which wheel?" >&2; exit 2; }
wheel=$(readlink -f "$1") here=$(cd "$(dirname "$0")" && pwd)
shift
rig=${TRUECOUNT_SHARED:-$here/../../../shared}/rigs/x86/rig-x86.sh
[ -x "$rig" ] || { echo "rig.sh: skipped: no $rig" >&2; exit 0; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
for python in "${@:-python3}"; do
    read -r program prefix name < <("$python" -c 'import sys
print(sys._base_executable, sys.base_prefix, "python%d.%d" % sys.version_info[:2])')
    rm -rf "$scratch"/*
    mkdir -p "$scratch/home/lib" "$scratch/site"
    "$python" -m zipfile -e "$wheel" "$scratch/site"
    rm -rf "$scratch"/site/*.data
    # The parts that nothing here uses are most of it.
    tar c -C "$prefix/lib" --exclude=test --exclude=site-packages --exclude=idlelib --exclude=ensurepip --exclude=lib2to3 \
        --exclude=tkinter --exclude=turtledemo --exclude=__pycache__ --exclude='config-*' --exclude=pydoc_data \
        --exclude=unittest --exclude=distutils "$name" | tar x -C "$scratch/home/lib"
    # With the libraries that they need, found where they are here.
    module=$(find "$scratch/site" -name '_truecount*.so')
    strip -g "$module" 2>/dev/null || true
    "$rig" -t 600 -m 1024 -f "$program:/job/python" -f "$module" -f "$scratch/home:/job/home" -f "$scratch/site:/job/site" \
        -f "$here/../../crates/capi/tests/programs/languages/loop.py:/job/loop.py" \
        -s 'export PYTHONHOME=/job/home PYTHONPATH=/job/site PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
            for run in 0 1 2 3 4 5 6 7 8 9; do /job/python -S /job/loop.py; done' >"$scratch/log" 2>&1 || true
    if [ "$(grep -c '^beyond [0-9]' "$scratch/log")" = 40 ] && [ "$(grep '^beyond' "$scratch/log" | sort -u | wc -l)" = 1 ]; then
        echo "$("$python" --version): $(grep -m1 '^beyond' "$scratch/log"), the same in 10 runs"
    else
        tail -20 "$scratch/log"
        echo "$("$python" --version): FAILED"
        failed=1
    fi
done
exit $failed
