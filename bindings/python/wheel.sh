#!/bin/sh
# Builds the wheel with the command inside: `pip install` of it gives the module and the program `truecount`.
#   bindings/python/wheel.sh [--command FILE] [--out DIR] [--profile NAME] [--target TRIPLE]
# --command: the program to put in (default: built here; `cargo xtask dist` makes one that runs on every Linux).
# Where `pip install ziglang` has been done, the wheel is for glibc from 2.17 on (manylinux2014); else for this machine's.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
command= out=$here/dist profile=release target=
while [ $# -gt 0 ]; do
    case $1 in
    --command) command=$2 ;;
    --out) out=$2 ;;
    --profile) profile=$2 ;;
    --target) target=$2 ;;
    *) echo "wheel.sh: unknown argument $1 (--command FILE, --out DIR, --profile NAME, --target TRIPLE)" >&2; exit 2 ;;
    esac
    shift 2
done
if [ -z "$command" ]; then
    (cd "$root" && cargo build --locked --profile "$profile" -p truecount-cli)
    case $profile in dev) directory=debug ;; *) directory=$profile ;; esac
    command=${CARGO_TARGET_DIR:-$root/target}/$directory/truecount
fi
[ -x "$command" ] || { echo "wheel.sh: $command is not a program" >&2; exit 1; }
command -v maturin >/dev/null || { echo "wheel.sh: no maturin: pip install maturin" >&2; exit 1; }
# What stands in MODULE.data/scripts is installed among the environment's programs.
data=$here/truecount._truecount.data
trap 'rm -rf "$data"' EXIT
mkdir -p "$data/scripts"
install -m 755 "$command" "$data/scripts/truecount"
strip "$data/scripts/truecount" 2>/dev/null || true
set -- --locked --profile "$profile" --out "$out" --manifest-path "$here/Cargo.toml"
[ -z "$target" ] || set -- "$@" --target "$target"
if python3 -c 'import ziglang' 2>/dev/null; then set -- "$@" --zig --compatibility manylinux2014; fi
maturin build "$@"
