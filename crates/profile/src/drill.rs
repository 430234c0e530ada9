//! drill.
