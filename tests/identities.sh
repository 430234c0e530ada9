#!/bin/bash
# The tests of the command as other machines and users would run them: six CPU identities (TRUECOUNT_TEST_CPU), without
# HOME, with LANG=C and with UTF-8, as root and as an ordinary user, with temporary files in a directory whose name has a
# space. All of them together take hours: name what is wanted.
#   tests/identities.sh [FILTER…]          # of cargo test; default: schemas:: errors:: check:: identities:: gates:: verdicts::
# WAYS="zen2 nohome" chooses among: zen2 zen3 zen5 skylake alderlake unknown nohome langc utf8 user space
# Exit status 1 if a test fails in any of them.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here" || exit 2
ways=${WAYS:-zen2 zen3 zen5 skylake alderlake unknown nohome langc utf8 user space}
filters=("$@")
[ $# -gt 0 ] || filters=(schemas:: errors:: check:: identities:: gates:: verdicts::)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# Built once, then run as they are: a user without HOME has no cargo.
cargo test -p truecount-cli --tests --no-run --message-format=json >"$work/built" || exit 2
binary() { grep -o "\"executable\":\"[^\"]*/deps/$1-[0-9a-f]*\"" "$work/built" | tail -n 1 | cut -d'"' -f4; }
cli=$(binary cli) golden=$(binary golden)
[ -x "$cli" ] && [ -x "$golden" ] || { echo "the tests were not built" >&2; exit 2; }
cd crates/cli || exit 2
failed=0

run() { # NAME COMMAND… : both test programs, by that command
    local name=$1 begun=$SECONDS; shift
    if "$@" "$cli" "${filters[@]}" >"$work/log" 2>&1 && "$@" "$golden" >>"$work/log" 2>&1; then
        echo "ok     $name ($((SECONDS - begun)) s)"
    else
        echo "FAILS  $name"; grep -E "^(test .*FAILED|thread .* panicked|test result)" "$work/log"; cp "$work/log" "${TMPDIR:-/tmp}/identities-$name.log"
        echo "       see ${TMPDIR:-/tmp}/identities-$name.log"; failed=1
    fi
}

# A directory that an ordinary user can write to.
mine() { mkdir -p "$work/$1" && chmod 1777 "$work/$1" && chmod 755 "$work" && echo "$work/$1"; }

for way in $ways; do
    case $way in
        zen2) run $way env TRUECOUNT_TEST_CPU=AuthenticAMD-23-49-0 ;;
        zen3) run $way env TRUECOUNT_TEST_CPU=AuthenticAMD-25-33-0 ;;
        zen5) run $way env TRUECOUNT_TEST_CPU=AuthenticAMD-26-68-0 ;;
        skylake) run $way env TRUECOUNT_TEST_CPU=GenuineIntel-6-94-3 ;;
        alderlake) run $way env TRUECOUNT_TEST_CPU=GenuineIntel-6-151-2 ;;
        unknown) run $way env TRUECOUNT_TEST_CPU=unknown ;;
        nohome) run $way env -u HOME -u XDG_CACHE_HOME -u XDG_STATE_HOME ;;
        langc) run $way env -u LC_ALL LANG=C ;;
        utf8) run $way env -u LC_ALL LANG=C.UTF-8 ;;
        user)
            if [ "$(id -u)" != 0 ]; then
                echo "skip   $way: only root can become somebody else"
            elif ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$cli" -a -r Cargo.toml; then
                echo "skip   $way: user 65534 cannot read $here"
            else
                run $way env -u TRUECOUNT_REQUIRE HOME=/nonexistent TMPDIR="$(mine user)" \
                    setpriv --reuid=65534 --regid=65534 --clear-groups
            fi
            ;;
        space) run $way env TMPDIR="$(mine 'a b')" ;;
        *) echo "no such way: $way" >&2; exit 2 ;;
    esac
done
exit $failed
