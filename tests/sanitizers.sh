#!/usr/bin/env bash
# The C interface with its Rust code instrumented, which the tests of the workspace leave as it is: random strings and uses
# of handles, every wrong use from C (threads, forks, closed handles), the library's own tests.
#   tests/sanitizers.sh [address] [valgrind] [miri]       (default: all; MUTANTS=20000; CARGO_TARGET_DIR)
# address: any toolchain of x86-64 or aarch64 Linux, and clang. miri: TOOLCHAIN=nightly with that component.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}/sanitizers
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
said() { printf '%-10s %s\n' "$1" "$2"; }
wrong() { said "$1" "FAILED: $2"; failed=1; }

# Every wrong use: by clocks, which are counted everywhere.
misuse() { # NAME COMMAND...
    local name=$1 log=$scratch/log
    shift
    if "$@" wall-time "$scratch/regions" >"$log" 2>&1; then
        said "$name" "misuse.c: $(tail -1 "$log")"
    else
        tail -30 "$log"
        wrong "$name" "misuse.c"
    fi
}

address() {
    # The option is not a stable one, the runtime comes with every toolchain.
    export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
    local log=$scratch/strings
    # What threads keep for the process (a handle's 32 bytes) is reachable: leaks are faults.
    if TRUECOUNT_MUTANTS=${MUTANTS:-20000} cargo test -q --locked -p truecount-capi --target "$host" --target-dir "$target" \
        --lib --test strings >"$log" 2>&1; then
        said address "strings, uses and the library's tests: $(grep -c '^test result: ok' "$log") times ok, ${MUTANTS:-20000} cases each"
    else
        tail -40 "$log"
        wrong address "strings"
    fi
    if ! command -v clang >/dev/null; then said address "misuse.c skipped: no clang"; return; fi
    cargo build -q --locked -p truecount-capi --target "$host" --target-dir "$target"
    clang -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -Icrates/capi/include -o "$scratch/misuse" \
        crates/capi/tests/programs/misuse.c "$target/$host/debug/libtruecount_c.a" -lgcc_s -lutil -lrt -lpthread -lm -ldl
    misuse address "$scratch/misuse"
    unset RUSTC_BOOTSTRAP RUSTFLAGS
}

valgrind() {
    command -v valgrind >/dev/null || { said valgrind "skipped: no valgrind"; return; }
    cargo build -q --locked -p truecount-capi --target-dir "$target"
    cc -g -O1 -Icrates/capi/include -o "$scratch/plain" crates/capi/tests/programs/misuse.c "$target/debug/libtruecount_c.a" \
        -lgcc_s -lutil -lrt -lpthread -lm -ldl
    misuse valgrind command valgrind -q --error-exitcode=9 --leak-check=full \
        --show-leak-kinds=definite --errors-for-leak-kinds=definite "$scratch/plain"
}

miri() {
    local toolchain=${TOOLCHAIN:-nightly}
    if ! cargo "+$toolchain" miri --version >/dev/null 2>&1; then
        said miri "skipped: rustup component add --toolchain $toolchain miri rust-src"
        return
    fi
    local log=$scratch/miri
    # Slots and handles; what opens events makes system calls that Miri does not have.
    if MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" cargo "+$toolchain" miri test -q --locked -p truecount-capi --lib \
        --target-dir "$target/miri" >"$log" 2>&1; then
        said miri "$(grep '^test result' "$log" | tail -1)"
    else
        tail -30 "$log"
        wrong miri "slots"
    fi
}

for part in ${*:-address valgrind miri}; do
    case $part in
    address | valgrind | miri) "$part" ;;
    *) echo "sanitizers.sh: unknown part $part (address, valgrind, miri)" >&2; exit 2 ;;
    esac
done
exit $failed
