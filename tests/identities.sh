#!/bin/bash
# All tests of the workspace as other machines and users would run them: six CPU identities (TRUECOUNT_TEST_CPU), without
# HOME, with LANG=C and with UTF-8, as root and as an ordinary user, with temporary files in a directory whose name has a
# space. What does not depend on each other goes together: six runs over test programs that are built once.
#   tests/identities.sh                    # about six times as long as the tests of the workspace: an hour on two cores
#   tests/identities.sh FILTER…            # only tests whose names have one of these
# WAYS="zen2+nohome skylake" chooses among: zen2 zen3 zen5 skylake alderlake unknown nohome langc utf8 user root space;
# those that are joined by + hold together. `clone` builds and runs a clone in a directory whose name has a space (cold).
# ONLY="truecount-cli/golden truecount-stats/*" chooses test programs: PACKAGE/TARGET, each a pattern.
# Exit status 1 if a test fails in any of them; the failures are listed at the end, their output is kept.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here" || exit 2
ways=${WAYS:-zen2+nohome zen3+user zen5+langc skylake+utf8 alderlake+space unknown+root}
only=${ONLY:-*/*}
filters=("$@")
work=$(mktemp -d) || exit 2
logs=${LOGS:-${TMPDIR:-/tmp}/identities}
mkdir -p "$logs" || exit 2
trap 'rm -rf "$work"' EXIT
set -f

# Built once, then run as they are: a user without HOME has no cargo.
cargo test --workspace --no-run --message-format=json >"$work/built" || exit 2
# Directory of the crate, name of the target, program.
sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml","target":{[^}]*"name":"\([^"]*\)".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1\t\2\t\3|p' \
    "$work/built" | sort -u >"$work/programs"
[ -s "$work/programs" ] || { echo "the tests were not built" >&2; exit 2; }
# What cargo sets for those that it runs.
sysroot=$(rustc --print sysroot) && libraries=$(rustc --print target-libdir) || exit 2
if command -v rustup >/dev/null; then
    RUSTUP_HOME=$(rustup show home) RUSTUP_TOOLCHAIN=$(rustup show active-toolchain | cut -d' ' -f1) || exit 2
    export RUSTUP_HOME RUSTUP_TOOLCHAIN
fi
first=$(head -n 1 "$work/programs" | cut -f3)
# An ordinary user may not see the toolchain of who built them.
mkdir "$work/lib" && find "$libraries" -name 'libstd-*.so' -exec cp {} "$work/lib" \; && chmod 755 "$work" "$work/lib" || exit 2
export LD_LIBRARY_PATH=$sysroot/lib:$work/lib:${first%/*}:${first%/deps/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
failures=$work/failures
: >"$failures"

# A directory that an ordinary user can write to.
mine() { mkdir -p "$work/$1" && chmod 1777 "$work/$1" && chmod 755 "$work" && echo "$work/$1"; }

wanted() { # PACKAGE/TARGET
    local pattern
    for pattern in $only; do case $1 in $pattern) return 0 ;; esac; done
    return 1
}

# Every test program by a command.
run() { # NAME COMMAND…
    local name=$1 begun=$SECONDS programs=0 wrong=0 directory target program started; shift
    while IFS=$'\t' read -r directory target program; do
        local package=truecount-${directory##*/}
        wanted "$package/$target" || continue
        programs=$((programs + 1)) started=$SECONDS
        local log=$logs/$name-${directory##*/}-$target.log
        if (cd "$directory" && CARGO_MANIFEST_DIR=$directory "$@" "$program" ${filters[@]+"${filters[@]}"}) >"$log" 2>&1 </dev/null; then
            [ $((SECONDS - started)) -lt 20 ] || echo "       $name $package/$target ($((SECONDS - started)) s)"
            rm -f "$log"
        else
            wrong=$((wrong + 1))
            echo "FAILS  $name $package/$target ($((SECONDS - started)) s): $log"
            { grep -E '^test .*FAILED$' "$log" || tail -n 1 "$log"; } | sed "s|^|$name $package/$target: |" >>"$failures"
        fi
    done <"$work/programs"
    [ $wrong -gt 0 ] || echo "ok     $name: $programs test programs ($((SECONDS - begun)) s)"
}

for way in $ways; do
    if [ "$way" = clone ]; then
        clone="$work/a b/clone"
        if git clone --quiet "$here" "$clone" && (cd "$clone" && cargo test --workspace --no-fail-fast) >"$logs/clone.log" 2>&1; then
            echo "ok     clone"
        else
            echo "FAILS  clone: $logs/clone.log"; grep -E '^(test .*FAILED|error)' "$logs/clone.log" | sed 's/^/clone: /' >>"$failures"
        fi
        continue
    fi
    with=(env) become=()
    for part in ${way//+/ }; do
        case $part in
            zen2) with+=(TRUECOUNT_TEST_CPU=AuthenticAMD-23-49-0) ;;
            zen3) with+=(TRUECOUNT_TEST_CPU=AuthenticAMD-25-33-0) ;;
            zen5) with+=(TRUECOUNT_TEST_CPU=AuthenticAMD-26-68-0) ;;
            skylake) with+=(TRUECOUNT_TEST_CPU=GenuineIntel-6-94-3) ;;
            alderlake) with+=(TRUECOUNT_TEST_CPU=GenuineIntel-6-151-2) ;;
            unknown) with+=(TRUECOUNT_TEST_CPU=unknown) ;;
            nohome) with+=(-u HOME -u XDG_CACHE_HOME -u XDG_STATE_HOME) ;;
            langc) with+=(-u LC_ALL LANG=C) ;;
            utf8) with+=(-u LC_ALL LANG=C.UTF-8) ;;
            space) with+=(TMPDIR="$(mine 'a b')") ;;
            root) [ "$(id -u)" = 0 ] || echo "       $way: not root, but $(id -un)" ;;
            user)
                become=(setpriv --reuid=65534 --regid=65534 --clear-groups)
                if [ "$(id -u)" != 0 ]; then
                    become=()
                elif ! "${become[@]}" test -x "$first" -a -r "$here/Cargo.toml"; then
                    echo "skip   $way: user 65534 cannot read $here"; continue 2
                fi
                with+=(-u TRUECOUNT_REQUIRE HOME=/nonexistent TMPDIR="$(mine user)")
                ;;
            *) echo "no such way: $part" >&2; exit 2 ;;
        esac
    done
    # Options of env stand before what it sets.
    options=() sets=()
    skip=
    for word in "${with[@]:1}"; do
        if [ -n "$skip" ]; then options+=(-u "$word"); skip=; continue; fi
        case $word in -u) skip=1 ;; *) sets+=("$word") ;; esac
    done
    run "$way" env ${options[@]+"${options[@]}"} ${sets[@]+"${sets[@]}"} ${become[@]+"${become[@]}"}
done
if [ -s "$failures" ]; then
    echo "$(wc -l <"$failures") failures:"; cat "$failures"
    exit 1
fi
echo "all green"
