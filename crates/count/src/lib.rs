//! Exact counters to embed.
