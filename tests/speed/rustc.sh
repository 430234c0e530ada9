# needs: rustc python3
# bound: 2.5
exec "$(rustc --print sysroot)/bin/rustc" --edition 2021 --crate-type lib --emit=metadata -o big.rmeta big.rs
