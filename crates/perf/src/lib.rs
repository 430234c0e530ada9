//! The Linux `perf_event` boundary. The only crate that makes perf system calls.
