#!/bin/bash
# compare.sh PROFILES: CPU time and peak memory of this crate beside measureme's own library.
#
# PROFILES is a directory with rustc's profiles of syn: check/syn-*.mm_profdata (events default,args),
# all/syn-*.mm_profdata (events all), syn-default/run*/*.mm_profdata (ten identical runs). Prints for
# each the least user + system time of five runs, the peak memory, and the ratio.
set -euo pipefail
profiles=${1:?usage: compare.sh PROFILES}
cd "$(dirname "$0")/../../.."
cargo build --quiet --release -p truecount-profile --example yardstick
binary=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')/release/examples/yardstick
python3 - "$binary" "$profiles" <<'P'
import glob, os, subprocess, sys
binary, profiles = sys.argv[1:]

def run(arguments):
    """CPU seconds and peak resident bytes of the quickest of five runs."""
    best = None
    for _ in range(5):
        child = subprocess.Popen([binary, *arguments], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{arguments[:2]} failed")
        cpu = usage.ru_utime + usage.ru_stime
        this = (cpu, usage.ru_maxrss * 1024)
        best = min(best or this, this)
    return best

for name, what, pattern, wanted in [
    ("syn default,args", "summarize", "check/syn-*.mm_profdata", 8),
    ("syn all", "summarize", "all/syn-*.mm_profdata", 20),
    ("ten syn default", "aggregate", "syn-default/run*/*.mm_profdata", 25),
]:
    files = sorted(f for f in glob.glob(os.path.join(profiles, pattern)) if os.path.getsize(f))
    if not files:
        print(f"skipped: no {pattern} in {profiles}")
        continue
    size = sum(map(os.path.getsize, files))
    theirs, ours = (run([who, what, *files]) for who in ("theirs", "ours"))
    print(f"{what} {name}: {theirs[0]:.3f} s against {ours[0]:.3f} s: {theirs[0] / ours[0]:.1f} times less (wanted {wanted}); "
          f"peak {ours[1] / 1e6:.0f} MB for {size / 1e6:.0f} MB of files (theirs {theirs[1] / 1e6:.0f} MB)")
P
