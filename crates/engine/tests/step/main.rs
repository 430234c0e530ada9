//! Single-stepping, compared with counts computed by hand.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failure is the test's

mod counts;
mod elf;
mod left_out;
mod whole;
