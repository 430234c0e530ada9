//! Tests of the command that need a PMU. Without one each prints `skipped: …`; `cargo xtask vm-test` runs them
//! inside virtual machines that have one. One module a topic.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "hardware/discover.rs"]
mod discover;
#[path = "hardware/exactness.rs"]
mod exactness;
#[path = "hardware/overhead.rs"]
mod overhead;
#[path = "hardware/record.rs"]
mod record;
#[path = "hardware/stat.rs"]
mod stat;
#[path = "hardware/system.rs"]
mod system;
#[path = "hardware/top.rs"]
mod top;
