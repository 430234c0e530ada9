//! Exact counts without a PMU.
