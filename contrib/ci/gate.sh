#!/bin/sh
# Did this branch make it slower? Measures what truecount.toml names at the merge base and at HEAD, each built in a work
# tree of its own, compares them and ends with the gate's status: 0 passed, 3 regressed, 4 undecided.
#
# Settings, all of them optional:
#   TRUECOUNT         the command (default: truecount)
#   TARGET_BRANCH     the branch that is merged into (default: origin's, main, or master)
#   TRUECOUNT_STORE   where records are kept (default: .truecount/history.db; keep it between jobs and the base is
#                     measured once)
#   TRUECOUNT_OUT     where comment.md, junit.xml, compare.json and page.html are written (default: truecount-out)
#   TRUECOUNT_ACCEPT  facts that may differ between the two, as history compare --accept takes them
#   TRUECOUNT_LINK    address that the comment links to
set -eu

truecount=${TRUECOUNT:-truecount}
out=${TRUECOUNT_OUT:-truecount-out}

say() { printf 'truecount gate: %s\n' "$*" >&2; }

top=$(git rev-parse --show-toplevel)
cd "$top"
if [ ! -f truecount.toml ]; then
    say "there is no truecount.toml in $top: it names what is measured"
    exit 4
fi
if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
    say "the clone is shallow, so that the merge base may be missing: fetching the rest"
    git fetch --quiet --unshallow
fi

# The remote's branch goes before a local one of the same name, which may be old.
target=
for name in ${TARGET_BRANCH:+"origin/$TARGET_BRANCH" "$TARGET_BRANCH"} origin/HEAD origin/main origin/master main master; do
    if git rev-parse --verify --quiet "$name^{commit}" >/dev/null; then
        target=$name
        break
    fi
done
if [ -z "$target" ]; then
    say "no branch to compare with: set TARGET_BRANCH"
    exit 4
fi
head=$(git rev-parse HEAD)
base=$(git merge-base HEAD "$target")
if [ "$base" = "$head" ]; then
    # On the branch itself a commit is compared with the one before.
    base=$(git rev-parse --verify --quiet HEAD~1) || {
        say "the first commit has nothing to be compared with"
        exit 0
    }
fi

mkdir -p "$out"
say "base $base, on $target"
# A base that does not build must not hide what HEAD costs: compare says which ancestor it takes instead.
"$truecount" history backfill "$base" || say "the base has no numbers"
"$truecount" history backfill "$head"

set -- "$base" "$head" --limits ${TRUECOUNT_ACCEPT:+--accept "$TRUECOUNT_ACCEPT"}
"$truecount" history page -o "$out/page.html" >/dev/null || say "no page"
"$truecount" history compare "$@" --json="$out/compare.json" || true
status=0
"$truecount" history compare "$@" --all --junit "$out/junit.xml" \
    --markdown="$out/comment.md" ${TRUECOUNT_LINK:+--link "$TRUECOUNT_LINK"} || status=$?
case $status in
    0) say "passed" ;;
    3) say "regressed: see the table above; truecount history bless HEAD --reason TEXT accepts a change" ;;
    4) say "undecided: the table says why" ;;
    *) say "history compare failed with status $status" ;;
esac
exit "$status"
