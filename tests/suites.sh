#!/usr/bin/env bash
# Published benchmarks, ported, in ten runs each: the counts must be the same. Figures and how: docs/languages/suites.md.
#   tests/suites.sh [criterion] [gungraun] [python] [go]      (default: all; ROUNDS=10; KEEP=DIR keeps the built suites)
# Needs crates, wheels and modules from outside, through their ordinary clients; what is not available is said and left out.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${ROUNDS:-10}
scratch=${KEEP:-$(mktemp -d)}
mkdir -p "$scratch"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
failed=0
said() { printf '%-10s %s\n' "$1" "$2"; }
skipped() { said "$1" "skipped: $2"; }
wrong() { said "$1" "FAILED: $2"; failed=1; }

# CPU time of a command and its children, in seconds.
cpu() {
    local TIMEFORMAT='%U %S' times
    times=$({ time "$@" >/dev/null 2>&1; } 2>&1) || return 1
    awk '{print $1 + $2}' <<<"$times"
}

# The sources of a published crate, in a directory of its own.
crate() { # NAME VERSION
    mkdir -p fetch/src && : >fetch/src/lib.rs
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$1" "$2" >fetch/Cargo.toml
    rm -f fetch/Cargo.lock
    (cd fetch && cargo fetch -q) || return 1
    rm -rf "$1"
    cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$1-$2" "$1"
    chmod -R u+w "$1"
    rm -f "$1/Cargo.lock"
    printf '\n[workspace]\n' >>"$1/Cargo.toml"
}

# The benchmark's executable.
built() { # DIRECTORY NAME
    (cd "$1" && cargo bench -q --bench "$2" --no-run --message-format=json) |
        sed -n "s/.*\"name\":\"$2\".*\"executable\":\"\([^\"]*\)\".*/\1/p" | tail -1
}

# crc32fast's suite of criterion's: one line is another.
criterion() {
    crate crc32fast 1.5.5 || { skipped criterion "crc32fast is not available"; return; }
    sed -i 's/^use criterion::{/use truecount_criterion::{/' crc32fast/benches/bench.rs
    printf '\n[dev-dependencies.truecount-criterion]\npath = "%s/crates/criterion"\n' "$root" >>crc32fast/Cargo.toml
    local suite
    suite=$(built crc32fast bench)
    local estimates='s/.*"median":{[^}]*}*,"point_estimate":\([0-9.]*\).*/\1/p'
    for round in $(seq "$rounds"); do
        rm -rf home
        CRITERION_HOME=$PWD/home "$suite" --bench --noplot --sample-size 10 --warm-up-time 0.01 --measurement-time 0.02 >criterion.log 2>&1 ||
            { tail -3 criterion.log; wrong criterion "the suite ended with an error"; return; }
        (cd home && find . -path '*/new/estimates.json' | sort | while read -r file; do
            printf '%s %s\n' "${file%/new/*}" "$(sed -n "$estimates" "$file") $(sha256sum <"$file")"
        done) >"criterion.$round"
    done
    same criterion criterion
}

same() { # NAME PREFIX: the files PREFIX.1 to PREFIX.N
    local cases
    cases=$(wc -l <"$2.1")
    if [ "$cases" -eq 0 ]; then wrong "$1" "nothing was counted"; return; fi
    for round in $(seq 2 "$rounds"); do
        if ! cmp -s "$2.1" "$2.$round"; then
            diff "$2.1" "$2.$round" | head -6 || true
            wrong "$1" "run $round differs from the first"
            return
        fi
    done
    said "$1" "$cases benchmarks, the same in $rounds runs"
}

# vmf-forge's suite of gungraun's (iai-callgrind then): the attribute and the macro of main are others.
gungraun() {
    crate vmf-forge 0.5.0 || { skipped gungraun "vmf-forge is not available"; return; }
    local bench=vmf-forge/benches/parser_iai_bench.rs
    rm -rf published && cp -r vmf-forge published
    awk '/^\[\[bench\]\]/ { getline name; print; print name; if (name ~ /parser_iai_bench/) print "harness = false"; next } { print }' \
        published/Cargo.toml >Cargo.new && mv Cargo.new published/Cargo.toml
    sed -i -e 's/^use iai_callgrind::.*/use truecount_bench::bench;/' -e 's/#\[library_benchmark\]/#[bench]/' \
        -e '/^library_benchmark_group!(/,/^);/d' -e 's/^main!(.*/fn main() -> std::process::ExitCode { truecount_bench::main() }/' "$bench"
    # As setup that is counted by nobody: the text is read as often as SETUP says. (One that leaves the allocator another
    # heap changes what the allocator does in what is counted: 0.2 % where it freed ten times as many texts.)
    cat >>"$bench" <<'R'

fn prepared() -> &'static str {
    let times = std::env::var("SETUP").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let bytes = (0..100 * times).flat_map(|_| VMF_CONTENT_SMALL.bytes());
    std::hint::black_box(bytes.fold(0u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte)));
    VMF_CONTENT_SMALL
}

#[bench(setup = prepared)]
fn parse_prepared(text: &'static str) -> VmfFile {
    VmfFile::parse(text).unwrap()
}
R
    # The same two, once each, as Valgrind runs them: a process a benchmark.
    mkdir -p vmf-forge/examples
    cat >vmf-forge/examples/once.rs <<'R'
use vmf_forge::VmfFile;
fn main() {
    let text = match std::env::args().nth(1).as_deref() {
        Some("large") => include_str!("../vmf_examples/complex.vmf"),
        _ => include_str!("../vmf_examples/valid.vmf"),
    };
    std::mem::forget(std::hint::black_box(VmfFile::parse(text)));
}
R
    awk '/^\[\[bench\]\]/ && !done { getline name; print; print name; if (name ~ /parser_iai_bench/) print "harness = false"; next } { print }' \
        vmf-forge/Cargo.toml >Cargo.new && mv Cargo.new vmf-forge/Cargo.toml
    sed -i '/iai-callgrind/,+1d' vmf-forge/Cargo.toml
    printf '\n[[example]]\nname = "once"\npath = "examples/once.rs"\n' >>vmf-forge/Cargo.toml
    printf '\n[dev-dependencies.truecount-bench]\npath = "%s/crates/bench"\n' "$root" >>vmf-forge/Cargo.toml
    local suite
    suite=$(built vmf-forge parser_iai_bench)
    for round in $(seq "$rounds"); do
        "$suite" --bench --source virtual >"gungraun.$round" 2>gungraun.log || { cat gungraun.log; wrong gungraun "the suite ended with an error"; return; }
    done
    same gungraun gungraun
    sed 's/^/           /' gungraun.1
    # Of one length: the environment is memory of the program's.
    SETUP=01 "$suite" --bench --source virtual prepared >setup.1
    SETUP=10 "$suite" --bench --source virtual prepared >setup.2
    if cmp -s setup.1 setup.2; then said gungraun "setup ten times as long changes nothing"; else diff setup.1 setup.2 || true; wrong gungraun "setup is counted"; fi
    if ! command -v valgrind >/dev/null; then skipped gungraun "no valgrind to compare with"; return; fi
    (cd vmf-forge && cargo build -q --release --example once)
    local once=${CARGO_TARGET_DIR:-$PWD/vmf-forge/target}/release/examples/once
    # In turn, seven times: one run of each benchmark by both, and what truecount-bench does unless it is told otherwise.
    local chosen=(parse_small_vmf parse_large_vmf) small large
    rm -f times.*
    for _ in 1 2 3 4 5 6 7; do
        cpu "$suite" --bench --source virtual --warmup 0 --runs 1 "${chosen[@]}" >>times.once
        cpu "$suite" --bench --source virtual "${chosen[@]}" >>times.usual
        small=$(cpu valgrind --tool=callgrind --callgrind-out-file=/dev/null "$once" small)
        large=$(cpu valgrind --tool=callgrind --callgrind-out-file=/dev/null "$once" large)
        awk -v a="$small" -v b="$large" 'BEGIN { print a + b }' >>times.callgrind
    done
    compared "callgrind (one run of each)"
    published
}

# The middle one of some numbers.
median() { sort -n | awk '{ all[NR] = $1 } END { printf "%.3f", all[int((NR + 1) / 2)] }'; }

# The CPU times of times.once and times.usual beside those of times.callgrind: medians of the times, and of the pairs' ratios.
compared() { # WHAT
    local name ours=()
    for name in once usual; do
        ours+=("$(median <"times.$name") s, $(paste "times.$name" times.callgrind | awk '{ print $2 / $1 }' | median | awk '{ printf "%.1f", $1 }') times less")
    done
    said gungraun "CPU time: $(median <times.callgrind) s by $1; by truecount-bench: one run of each ${ours[0]}; as it is without flags (four to six runs of each) ${ours[1]}"
}

# The same suite as it is published, by its own runner: cargo install iai-callgrind-runner --version 0.14.2 --root DIR, and
# IAI_CALLGRIND_RUNNER=DIR/bin/iai-callgrind-runner.
published() {
    local runner=${IAI_CALLGRIND_RUNNER:-$(command -v iai-callgrind-runner || true)}
    [ -x "$runner" ] || { skipped gungraun "no iai-callgrind-runner to compare with (IAI_CALLGRIND_RUNNER)"; return; }
    export IAI_CALLGRIND_RUNNER=$runner
    local version=0.14.2
    (cd published && cargo update -q -p iai-callgrind --precise "$version" && cargo bench -q --bench parser_iai_bench --no-run) ||
        { wrong gungraun "the published suite does not build"; return; }
    local suite
    suite=$(built vmf-forge parser_iai_bench)
    rm -f times.*
    for _ in 1 2 3; do
        cpu "$suite" --bench --source virtual --warmup 0 --runs 1 parse_small_vmf parse_large_vmf >>times.once
        cpu "$suite" --bench --source virtual parse_small_vmf parse_large_vmf >>times.usual
        (cd published && cpu cargo bench -q --bench parser_iai_bench) >>times.callgrind
    done
    compared "iai-callgrind $version as published, with cargo"
}

# wcwidth's tests with the fixture `benchmark` of pytest-benchmark: as they are.
python() {
    if ! python3 -m venv venv || ! venv/bin/pip install -q --disable-pip-version-check maturin pytest wcwidth==0.9.4; then
        skipped python "no environment with maturin and pytest"; return
    fi
    venv/bin/pip download -q --disable-pip-version-check --no-deps --no-binary :all: wcwidth==0.9.4 -d sdist ||
        { skipped python "wcwidth's sources are not available"; return; }
    rm -rf tests
    tar xf sdist/wcwidth-0.9.4.tar.gz --strip-components=1 wcwidth-0.9.4/tests/test_benchmarks.py
    # PROFILE=dev builds faster and counts the same code.
    if [ -n "${WHEEL:-}" ]; then cp "$WHEEL" .; else
        venv/bin/maturin build -q --locked --profile "${PROFILE:-release}" --out . --manifest-path "$root/bindings/python/Cargo.toml" --interpreter venv/bin/python
    fi
    venv/bin/pip install -q --disable-pip-version-check --force-reinstall --no-deps ./truecount-*.whl
    # A directory of its own: pytest lists the one that it runs in, and the list is in its memory.
    rm -rf pytest && mkdir pytest && mv tests pytest
    for round in $(seq "$rounds"); do
        (cd pytest && ../venv/bin/pytest -q --truecount=virtual tests/test_benchmarks.py --truecount-json counts.json) >python.log 2>&1 ||
            { tail -20 python.log; wrong python "pytest ended with an error"; return; }
        venv/bin/python -c 'import json
for r in json.load(open("pytest/counts.json"))["results"]: print(r["name"], r["count"])' >"python.$round"
    done
    same python python
}

# google/uuid's benchmarks: each loop over b.N becomes truecount.Bench.
go() {
    command -v go >/dev/null || { skipped go "no go"; return; }
    mkdir -p uuid
    local source
    source=$(cd uuid && printf 'module none\n\ngo 1.21\n' >go.mod && command go mod download -json github.com/google/uuid@v1.6.0 | sed -n 's/.*"Dir": "\(.*\)",/\1/p') || true
    [ -n "$source" ] || { skipped go "github.com/google/uuid is not available"; return; }
    rm -rf uuid && cp -r "$source" uuid && chmod -R u+w uuid
    (
        cd uuid
        for file in *_test.go; do
            grep -q 'i < b.N' "$file" || continue
            awk '/^\tfor i := 0; i < b.N; i\+\+ \{$/ { print "\ttruecount.Bench(b, func() {"; open = 1; next }
                 open && /^\t}$/ { print "\t})"; open = 0; next } { print }' "$file" |
                sed '0,/^\t"testing"$/s//\t"testing"\n\t"truecount"/' >new && mv new "$file"
        done
        printf 'package uuid\n\nimport (\n\t"testing"\n\n\t"truecount"\n)\n\nfunc TestMain(m *testing.M) { truecount.Main(m) }\n' >main_test.go
        printf '\nrequire truecount v0.0.0\n\nreplace truecount => %s/bindings/go\n' "$root" >>go.mod
        GOFLAGS=-mod=mod GOPROXY=off command go test -c -o ../uuid.test .
    ) || { wrong go "the ported tests do not build"; return; }
    local truecount=${TRUECOUNT:-$root/target/release/truecount}
    [ -x "$truecount" ] || { skipped go "no $truecount: cargo build --release, or TRUECOUNT=FILE"; return; }
    for round in $(seq "$rounds"); do
        (cd uuid && TRUECOUNT=$truecount ../uuid.test -test.run '^$' -test.bench . -test.benchtime 200x) >go.log 2>&1 ||
            { tail -5 go.log; wrong go "the benchmarks ended with an error"; return; }
        sed -n 's/^\(Benchmark[^ \t-]*\).*[ \t]\([0-9.]*\) instructions\/op.*/\1 \2/p' go.log >"go.$round"
    done
    same go go
}

for part in ${*:-criterion gungraun python go}; do
    case $part in
    criterion | gungraun | python | go) "$part" ;;
    *) echo "suites.sh: unknown part $part (criterion, gungraun, python, go)" >&2; exit 2 ;;
    esac
done
exit $failed
