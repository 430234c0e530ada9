//! The laboratory: how exact a counter is on this machine, and what sampling costs on it. Nothing is believed that can
//! be measured; what cannot be measured is labelled a model, and its inputs say where they are from.
//!
//! * [`loops`]: workloads whose instructions are known by construction.
//! * [`exact`]: counters against those workloads.
//! * [`sampling`]: what a sample costs, by event, method, payload and rate.

pub mod exact;
pub mod loops;
pub mod machine;
pub mod sampling;
