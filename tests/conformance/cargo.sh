# needs: cargo
# time: 300
# ignore: target
set -e
export CARGO_TERM_COLOR=never CARGO_TARGET_DIR=$PWD/target CARGO_INCREMENTAL=0
cargo build --offline -q; cargo test --offline -q 2>&1 | grep -E '^test result' | sed 's/finished in.*//'
