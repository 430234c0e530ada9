//! The rows. The order matters: the first row whose errno and condition apply is the answer.

mod access;
mod missing;
mod options;
mod resources;

use super::Row;
use crate::errno::Errno;
use crate::situation::Situation;

const ANY: fn(&Situation) -> bool = |_| true;
const DENIED: &[Errno] = &[Errno::EACCES, Errno::EPERM];

/// The table, in its order.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    let parts = [missing::ROWS, access::ROWS, options::ROWS, resources::ROWS];
    parts.into_iter().flatten()
}
