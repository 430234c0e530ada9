//! Statistics for near-deterministic counts.
