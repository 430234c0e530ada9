#!/usr/bin/env bash
# Would the checks notice? Makes faults one by one in a scratch copy of HEAD, runs the smallest part of .ci/run that must
# turn red, and says whether it did. Exits with 1 if any fault stays green.
#
#   tests/sabotage.sh            all faults
#   tests/sabotage.sh skip help  those whose names contain one of these words
#
# A fault is a substitution in the first file that has its pattern, so that it survives moves; where no file has it the
# script ends with an error. SABOTAGE_TARGET: where to compile (default: target/sabotage, kept for the next time).
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 RUST_BACKTRACE=0
export CARGO_TARGET_DIR=${SABOTAGE_TARGET:-$root/target/sabotage}
export TRUECOUNT_REQUIRE=virtual,step,cc,rustc
unset TRUECOUNT_SKIPPED

scratch=$(mktemp -d)
copy=$scratch/copy
trap 'git -C "$root" worktree remove --force "$copy"; rm -rf "$scratch"' EXIT
git -C "$root" worktree add -q --detach "$copy" HEAD || exit 2
cd "$copy" || exit 2
# Only another checkout has these; the tests of recordings are not needed here.
export TRUECOUNT_SHARED=$scratch/none

# The parts of .ci/run.
golden() { cargo test -q -p truecount-cli --test golden "$@"; }
engine() { cargo test -q -p truecount-engine --test run equal_to_single_stepping; }
gate() { cargo test -q -p truecount-stats --lib gate; }
mutants() { cargo test -q -p truecount-fuzz-targets --test mutate branch_text; }
fuzz() { cargo check -q --locked --no-default-features --manifest-path fuzz/Cargo.toml; }
skips() { cargo test -q -p truecount-testing --test skips; }
without_cc() {
    mkdir -p "$scratch/no-cc"
    printf '#!/bin/sh\nexit 1\n' >"$scratch/no-cc/cc"
    chmod +x "$scratch/no-cc/cc"
    # Compiled before, with the compiler: rustc links with it too.
    cargo test -q -p truecount-cli --test golden --no-run 2>/dev/null
    PATH=$scratch/no-cc:$PATH golden measured_by_single_steps
}

green=""
faults=0 missed=0
log=$scratch/log

# must_be_green PART...: the part passes without a fault; otherwise its red would say nothing.
must_be_green() {
    case " $green " in *" $* "*) return ;; esac
    if ! "$@" >"$log" 2>&1; then
        echo "sabotage: \`$*\` is red without any fault:"
        tail -40 "$log"
        exit 2
    fi
    green="$green $* "
}

# fault NAME WHERE PATTERN SUBSTITUTION PART...
# WHERE: paths to look in; PATTERN: what the file contains (extended regular expression); SUBSTITUTION: for perl -0.
fault() {
    local name=$1 where=$2 pattern=$3 substitution=$4 file
    shift 4
    wanted "$name" || return
    must_be_green "$@"
    if [ -n "$pattern" ]; then
        # shellcheck disable=SC2086 # several paths
        file=$(grep -rlE --include='*.rs' -- "$pattern" $where 2>/dev/null | sort | head -1)
        if [ -z "$file" ]; then
            echo "sabotage: $name: nothing in $where matches: $pattern"
            exit 2
        fi
        cp "$file" "$scratch/before"
        perl -0pi -e "$substitution" "$file"
        if cmp -s "$file" "$scratch/before"; then
            echo "sabotage: $name: the substitution changes nothing in $file"
            exit 2
        fi
    fi
    judge "$name" "${file:-}" "$@"
    git checkout -q -- .
}

# environment NAME GREEN-PART RED-PART: a fault of the machine, not of the source.
environment() {
    wanted "$1" || return
    must_be_green golden measured_by_single_steps
    judge "$1" "" "$2"
}

judge() {
    local name=$1 file=$2
    shift 2
    faults=$((faults + 1))
    if "$@" >"$log" 2>&1; then
        missed=$((missed + 1))
        printf 'STILL GREEN  %-34s %s  (%s)\n' "$name" "$*" "$file"
    else
        printf 'red          %-34s %s  (%s)\n' "$name" "$*" "$file"
        [ -z "${SABOTAGE_SHOW:-}" ] || tail -15 "$log"
    fi
}

words=("$@")
wanted() {
    [ ${#words[@]} -eq 0 ] && return 0
    local word
    for word in "${words[@]}"; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

fault "the virtual PMU counts one too many" "crates/engine/src/xlate" 'fn whole\(&self\) -> Added' \
    's/(fn whole\(&self\) -> Added .*?value: self\.config\.pending \+ self\.count as i32)/$1 + 1/s' engine

fault "single-stepping refuses" "crates/engine/src/step/mod.rs" 'pub fn run\(command: Command' \
    's/(pub fn run\(command: Command[^{]*\{)/$1 if command.get_program() != "" { return Err(StepError::Refused { source: std::io::Error::from_raw_os_error(1) }); }/' engine

environment "no C compiler" without_cc

fault "a key of a document is lost" "crates/cli/src crates/run/src" 'under_virtual_pmu: bool' \
    's/((?:pub(?:\([a-z]+\))? )?under_virtual_pmu: bool)/#[serde(skip)] $1/' golden measured_by_the_virtual_pmu

fault "a gate looks the wrong way" "crates/stats/src" 'Worse::Lower => judged' \
    's/Worse::Higher => judged\.comparison,\s*Worse::Lower => judged\.comparison\.reversed\(\)/Worse::Lower => judged.comparison, Worse::Higher => judged.comparison.reversed()/' gate

fault "a test is skipped without need" "crates/cli/tests/golden.rs" 'truecount_testing::counts' \
    's/truecount_testing::counts\([^)]*\), "virtual"\)/{ truecount_testing::skip("virtual", "not today"); false }/' golden measured_by_the_virtual_pmu

fault "a skip that nobody records" "crates/cli/tests/golden.rs" 'truecount_testing::skip!' \
    's/truecount_testing::skip!\(\s*"[a-z]+",\s*"/println!("skipped: /' skips

fault "a parser indexes without a check" "crates/sample/src/blocks" 'fn address\(text: &str\)' \
    's/(fn address\(text: &str\).*?)let text = text\.strip_prefix\("0x"\)\?;/$1let text = &text[2..];/s' mutants

fault "an exit status changes" "crates/run/src crates/cli/src" 'NotFound => 127' \
    's/NotFound => 127/NotFound => 1/' golden fixed_outputs

fault "a line of help is lost" "crates/cli/src/cmd" '/// Print the counts of every MS milliseconds' \
    's/ *\/\/\/ Print the counts of every MS milliseconds\n//' golden help

fault "a fuzz target does not compile" "fuzz/fuzz_targets" 'named\("event_expr"\)' \
    's/named\("event_expr"\)/nemad("event_expr")/' fuzz

echo "sabotage: $((faults - missed)) of $faults faults turn the checks red"
[ "$missed" -eq 0 ]
