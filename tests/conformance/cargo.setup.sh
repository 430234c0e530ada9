cp "$PROGRAMS/crate/Cargo.toml" .; mkdir src; cp "$PROGRAMS/crate/lib.rs" src/
