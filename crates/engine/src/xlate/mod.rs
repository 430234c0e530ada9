//! The translator proper: decoding, flag liveness, emission. `core` only and
//! without state, so that the same sources serve the runtime in the target and
//! the tests here.

pub mod block;
mod classify;
pub mod decode;
pub mod emit;
pub mod entry;
pub mod facts;
pub mod features;
mod insn;
pub mod known;
pub mod levels;
pub mod low;
pub mod masked;
pub mod operand_size;
pub mod predictor;
pub mod recent;
pub mod references;
pub mod simple;
mod table;
pub mod time;
