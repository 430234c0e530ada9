//! Tests of the command as a user runs it. One binary, one module a topic.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/bench_calls.rs"]
mod bench_calls;
#[path = "cli/call_edges.rs"]
mod call_edges;
#[path = "cli/callgrind_lines.rs"]
mod callgrind_lines;
#[path = "cli/calls.rs"]
mod calls;
#[path = "cli/check.rs"]
mod check;
#[cfg(feature = "history")]
#[path = "cli/ci.rs"]
mod ci;
#[path = "cli/client_requests.rs"]
mod client_requests;
#[path = "cli/closed.rs"]
mod closed;
#[path = "cli/codspeed.rs"]
mod codspeed;
#[path = "cli/detached_values.rs"]
mod detached_values;
#[path = "cli/deterministic.rs"]
mod deterministic;
#[path = "cli/discover.rs"]
mod discover;
#[path = "cli/errors.rs"]
mod errors;
#[path = "cli/exact.rs"]
mod exact;
#[path = "cli/exactness.rs"]
mod exactness;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/gates.rs"]
mod gates;
#[path = "cli/gungraun.rs"]
mod gungraun;
#[cfg(feature = "history")]
#[path = "cli/history.rs"]
mod history;
#[cfg(feature = "history")]
#[path = "cli/history_gone.rs"]
mod history_gone;
#[cfg(feature = "history")]
#[path = "cli/history_places.rs"]
mod history_places;
#[path = "cli/home.rs"]
mod home;
#[path = "cli/identities.rs"]
mod identities;
#[path = "cli/inputs.rs"]
mod inputs;
#[path = "cli/interrupted_commits.rs"]
mod interrupted_commits;
#[path = "cli/interrupts.rs"]
mod interrupts;
#[path = "cli/kept.rs"]
mod kept;
#[path = "cli/latency.rs"]
mod latency;
#[path = "cli/lines.rs"]
mod lines;
#[path = "cli/machine.rs"]
mod machine;
#[path = "cli/memory.rs"]
mod memory;
#[path = "cli/memory_data.rs"]
mod memory_data;
#[path = "cli/memory_ends.rs"]
mod memory_ends;
#[path = "cli/memory_events.rs"]
mod memory_events;
#[path = "cli/memory_heap.rs"]
mod memory_heap;
#[path = "cli/memory_order.rs"]
mod memory_order;
#[path = "cli/memory_paths.rs"]
mod memory_paths;
#[path = "cli/memory_registers.rs"]
mod memory_registers;
#[path = "cli/model_paths.rs"]
mod model_paths;
#[path = "cli/model_told.rs"]
mod model_told;
#[path = "cli/noise.rs"]
mod noise;
#[path = "cli/noise_paths.rs"]
mod noise_paths;
#[path = "cli/overhead.rs"]
mod overhead;
#[path = "cli/own_clock.rs"]
mod own_clock;
#[path = "support/pty.rs"]
mod pty;
#[path = "cli/regions.rs"]
mod regions;
#[path = "cli/repairs.rs"]
mod repairs;
#[path = "cli/replacement.rs"]
mod replacement;
#[path = "cli/reproducible.rs"]
mod reproducible;
#[path = "cli/run.rs"]
mod run;
#[path = "cli/schemas.rs"]
mod schemas;
#[cfg(feature = "history")]
#[path = "cli/serve.rs"]
mod serve;
#[cfg(feature = "history")]
#[path = "cli/serve_clients.rs"]
mod serve_clients;
#[path = "cli/stat.rs"]
mod stat;
#[path = "cli/stopped.rs"]
mod stopped;
#[path = "cli/story.rs"]
mod story;
#[path = "cli/streams.rs"]
mod streams;
#[cfg(feature = "history")]
#[path = "cli/suites.rs"]
mod suites;
#[path = "cli/support.rs"]
mod support;
#[path = "cli/switches.rs"]
mod switches;
#[path = "cli/system.rs"]
mod system;
#[path = "cli/threads.rs"]
mod threads;
#[path = "cli/valgrind.rs"]
mod valgrind;
#[path = "cli/valgrind_requests.rs"]
mod valgrind_requests;
#[path = "cli/verdicts.rs"]
mod verdicts;
#[path = "cli/width.rs"]
mod width;
