//! noise.
