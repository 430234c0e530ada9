//! Architectures without workloads of known length.

use super::Loop;

pub(super) const LOOPS: &[Loop] = &[];
