//! Samples and branch stacks.
