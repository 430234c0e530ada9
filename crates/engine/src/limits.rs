//! Limits of the address space (`RLIMIT_AS`) and of private memory (`RLIMIT_DATA`) count the engine's
//! memory, too: so the kernel is given the program's limit and what the engine takes, and the program
//! is told its own. `core` only; launcher and runtime compile this same source.
//!
//! A limit that has been enlarged carries a mark in its low bits, which the kernel ignores (it compares
//! pages), so that it is known after `fork`, after `execve`, and by the launcher.

use crate::layout::{Header, MAX_SLOTS, REGION, option, region_offset};
use crate::xlate::known;

/// `RLIMIT_DATA` of getrlimit(2).
pub const DATA: u64 = 2;
/// `RLIMIT_AS` of getrlimit(2).
pub const ADDRESS_SPACE: u64 = 9;
/// No limit.
pub const INFINITY: u64 = u64::MAX;

const MARK_BITS: u64 = 0x3ff;
const MARK: u64 = 0x2a7;

/// Instead of how far regions are apart: they are [`REGION`] apart, and there is a shadow of all addresses.
const SHADOWED: u64 = REGION + 1;

/// How far a run's regions are apart, and whether it has a shadow, in one number.
pub fn apart(header: &Header) -> u64 {
    match header.options & option::FILTERED {
        0 => header.apart,
        _ => SHADOWED,
    }
}

/// What the engine takes at most: 2 GiB of code and tables (some 200 MB at first; what is not used of it
/// the program may use), and the totals file, which is not memory, and whose regions are `apart` bytes apart
/// (or [`SHADOWED`]).
fn own(resource: u64, apart: u64) -> Option<u64> {
    let (apart, shadow) = match apart {
        SHADOWED => (REGION, known::SHADOW + (1 << 30)),
        apart => (apart, 0),
    };
    let reserved = 2 << 30;
    match resource {
        DATA if shadow == 0 => Some(reserved),
        // (The bits of the pages of the shadow, and the heap's blocks.)
        DATA => Some(reserved + (1 << 30)),
        ADDRESS_SPACE => Some(region_offset(MAX_SLOTS, apart) + shadow + reserved),
        _ => None,
    }
}

/// What the kernel is given for a limit of the program's.
pub fn enlarged(resource: u64, limit: u64, apart: u64) -> u64 {
    match own(resource, apart) {
        Some(own) if limit != INFINITY && !is_enlarged(limit) => {
            (limit & !MARK_BITS).saturating_add(own).min(1 << 62) | MARK
        }
        _ => limit,
    }
}

/// The program's limit behind what the kernel says.
pub fn own_limit(resource: u64, limit: u64, apart: u64) -> u64 {
    match own(resource, apart) {
        Some(own) if is_enlarged(limit) => (limit & !MARK_BITS).saturating_sub(own),
        _ => limit,
    }
}

/// Whether the kernel's limit counts the engine.
pub fn is_enlarged(limit: u64) -> bool {
    limit != INFINITY && limit & MARK_BITS == MARK
}

/// Whether limits of this resource are exchanged.
pub fn concerns(resource: u64) -> bool {
    own(resource, 0).is_some()
}

#[cfg(test)]
mod tests {
    use super::{ADDRESS_SPACE, DATA, INFINITY, enlarged, own_limit};
    use crate::layout::{CONTEXT_BYTES, REGION};

    #[test]
    fn a_limit_comes_back() {
        for (resource, apart) in [
            (DATA, 0),
            (ADDRESS_SPACE, CONTEXT_BYTES),
            (ADDRESS_SPACE, REGION),
            (ADDRESS_SPACE, super::SHADOWED),
            (DATA, super::SHADOWED),
        ] {
            for limit in [0, 1 << 10, 4_000_000 << 10, 3 << 40, INFINITY] {
                let kernel = enlarged(resource, limit, apart);
                assert_eq!(own_limit(resource, kernel, apart), limit);
                assert_eq!(enlarged(resource, kernel, apart), kernel, "once only");
                assert_eq!(own_limit(resource, limit, apart), limit, "not enlarged");
            }
        }
        assert_eq!(enlarged(7, 20, REGION), 20); // descriptors
    }
}
