//! The laboratory: how exact a counter is on this machine, and what sampling costs on it. Nothing is believed that can
//! be measured; what cannot be measured is labelled a model, and its inputs say where they are from.
//!
//! * [`check`]: what works here.
//! * [`loops`]: workloads whose instructions are known by construction.
//! * [`exact`]: counters against those workloads.
//! * [`discovery`]: what undocumented selectors count.
//! * [`reads`]: what one read of a counter costs.
//! * [`sampling`]: what a sample costs, by event, method, payload and rate.
//! * [`noise`]: what makes identical runs differ.
//! * [`overhead`]: what follows from what a sample costs.
//! * [`model`]: the sampling interrupt as a model, to be told from what was measured.

pub mod check;
pub mod discovery;
pub mod exact;
pub mod loops;
pub mod machine;
pub mod model;
pub mod noise;
pub mod overhead;
pub mod reads;
pub mod sampling;
