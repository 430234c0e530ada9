# needs: python3
# package: libpython3-testsuite
# time: 20000
# when: all
# ignore: .
export PYTHONDONTWRITEBYTECODE=1
python=$(python3 -c 'import sys; print(sys.executable)')
# TRUECOUNT_MODULES names some of them; without: all, but those that need the network, a display, or look at their own speed.
all=$("$python" -c 'import os, test; print(*sorted(n[:-3] for n in os.listdir(os.path.dirname(test.__file__)) if n.startswith("test_") and n.endswith(".py")))')
for t in ${TRUECOUNT_MODULES:-$all}; do
    case $t in test_gdb | test_idle | test_tk | test_tcl | test_ttk* | test_turtle | test_socket | test_ssl | test_urllib2net | test_perf_profiler) continue;; esac
    timeout 900 "$python" "$PROGRAMS/verdicts.py" "$t" 2>/dev/null; echo "$t status $?"
done
