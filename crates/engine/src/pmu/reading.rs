//! What `read` of an event gives: perf_event_open(2), "Reading results";
//! `__perf_event_read_size` and `perf_read_group` in `kernel/events/core.c`.

use super::attr::format;

/// Words of the largest reading: a group of [`MAX_MEMBERS`] with everything.
pub const MAX_WORDS: usize = 3 + 3 * MAX_MEMBERS;
/// Most members of a group whose reading fits (the kernel: 16 KiB of reading).
pub const MAX_MEMBERS: usize = 128;

/// One event's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The count.
    pub value: u64,
    /// The event's id.
    pub id: u64,
}

/// Words that a reading of `members` events takes.
pub fn words(read_format: u64, members: usize) -> usize {
    let each = 1
        + usize::from(read_format & format::ID != 0)
        + usize::from(read_format & format::LOST != 0);
    let times = usize::from(read_format & format::TIME_ENABLED != 0)
        + usize::from(read_format & format::TIME_RUNNING != 0);
    if read_format & format::GROUP != 0 {
        1 + times + members * each
    } else {
        times + each
    }
}

/// Lays a reading out; returns how many words it has. `members` holds the event
/// itself, or with [`format::GROUP`] the whole group, its leader first.
pub fn lay_out(read_format: u64, members: &[Member], time: u64, out: &mut [u64]) -> usize {
    let mut at = 0;
    let mut put = |value: u64| {
        if let Some(place) = out.get_mut(at) {
            *place = value;
        }
        at += 1;
    };
    let times = |put: &mut dyn FnMut(u64)| {
        // Enabled, then running: an event of the engine's never waits for a counter.
        for bit in [format::TIME_ENABLED, format::TIME_RUNNING] {
            if read_format & bit != 0 {
                put(time);
            }
        }
    };
    let rest = |put: &mut dyn FnMut(u64), member: &Member| {
        if read_format & format::ID != 0 {
            put(member.id);
        }
        if read_format & format::LOST != 0 {
            put(0);
        }
    };
    if read_format & format::GROUP != 0 {
        put(members.len() as u64);
        times(&mut put);
        for member in members {
            put(member.value);
            rest(&mut put, member);
        }
    } else if let Some(member) = members.first() {
        put(member.value);
        times(&mut put);
        rest(&mut put, member);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Member; 2] = [Member { value: 10, id: 1 }, Member { value: 20, id: 2 }];

    #[test]
    fn every_format_has_the_length_announced() {
        for read_format in 0..=format::KNOWN {
            let members = if read_format & format::GROUP != 0 {
                &TWO[..]
            } else {
                &TWO[..1]
            };
            let mut out = [0; 16];
            let got = lay_out(read_format, members, 5, &mut out);
            assert_eq!(got, words(read_format, members.len()), "{read_format:#x}");
        }
    }

    #[test]
    fn layouts_by_the_manual() {
        let lay = |read_format, members: &[Member]| {
            let mut out = [0; 16];
            let len = lay_out(read_format, members, 5, &mut out);
            out[..len].to_vec()
        };
        assert_eq!(lay(0, &TWO[..1]), [10]);
        assert_eq!(lay(0x17, &TWO[..1]), [10, 5, 5, 1, 0]);
        assert_eq!(lay(8, &TWO), [2, 10, 20]);
        assert_eq!(lay(0x1f, &TWO), [2, 5, 5, 10, 1, 0, 20, 2, 0]);
    }
}
