//! Time stamps at chosen program addresses, inline: the time stamp counter's distance between two
//! of them goes into a histogram in the thread's region. All registers and flags are the program's again
//! behind a stamp.
//!
//! Facts: Intel SDM volume 2 (`RDTSC`, `LFENCE`, `LAHF`, `SAHF`, `SETcc`) and AMD APM volume 3: `LFENCE`
//! in front lets everything before it complete, `LFENCE` behind keeps what follows from starting
//! before the counter was read. `SAHF` sets all arithmetic flags but OF, which an addition to 0 or 1 restores.

use super::emit::{Buffer, RAX, RCX, RDX};
use crate::layout::{
    MAX_WATCHES, TIME_BINS, TIME_HISTOGRAM_BYTES, TIME_HISTOGRAMS, TIME_SPILL, TIME_STATE, Watch,
    time_state,
};

/// What happens at an address for a watch point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Notes the time.
    Start,
    /// Takes the time since the last start.
    End,
    /// Both: the time between two executions.
    Both,
}

fn role(watch: &Watch, pc: u64) -> Option<Role> {
    match (watch.start == pc, watch.end == pc) {
        _ if watch.start == 0 => None,
        (true, _) if watch.end == 0 || watch.end == pc => Some(Role::Both),
        (true, false) => Some(Role::Start),
        (false, true) => Some(Role::End),
        _ => None,
    }
}

/// Whether a block must begin at `pc`.
pub fn is_watched(watches: &[Watch; MAX_WATCHES], pc: u64) -> bool {
    watches.iter().any(|watch| role(watch, pc).is_some())
}

/// A stamp of one watch point.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    number: u32,
    role: Role,
}

/// The stamps due at `pc`, ends first.
pub fn due(watches: &[Watch; MAX_WATCHES], pc: u64) -> impl Iterator<Item = Stamp> + use<> {
    let watches = *watches;
    [Role::End, Role::Both, Role::Start]
        .into_iter()
        .flat_map(move |wanted| {
            (0u32..).zip(watches).filter_map(move |(number, watch)| {
                let role = role(&watch, pc).filter(|role| *role == wanted)?;
                Some(Stamp { number, role })
            })
        })
}

/// A function (System V) that times nothing `rounds` times, by the same stamps.
pub fn calibration(hot: &mut Buffer<'_>, rounds: u32) {
    let number = MAX_WATCHES as u32;
    hot.mov_imm(RCX, u64::from(rounds));
    let again = hot.here();
    for role in [Role::Start, Role::End] {
        stamp(hot, Stamp { number, role });
    }
    hot.put(&[0xff, 0xc9]); // dec ecx
    hot.jcc(5, again);
    hot.put(&[0xc3]);
}

fn absolute(hot: &mut Buffer<'_>, opcode: &[u8], offset: u32) {
    hot.put(&[0x65]);
    hot.put(opcode);
    hot.put(&[0x25]);
    hot.put(&offset.to_le_bytes());
}

const LFENCE: [u8; 3] = [0x0f, 0xae, 0xe8];
const RDTSC: [u8; 2] = [0x0f, 0x31];
const FLAGS: u32 = TIME_SPILL + 24;

/// Writes a stamp.
pub fn stamp(hot: &mut Buffer<'_>, stamp: Stamp) {
    let Stamp { number, role } = stamp;
    let state = TIME_STATE + 16 * number;
    let (low, high, armed) = (state, state + 4, state + 8);
    hot.store_gs(TIME_SPILL, RAX);
    hot.store_gs(TIME_SPILL + 8, RDX);
    if role != Role::Start {
        hot.put(&LFENCE);
        hot.put(&RDTSC);
        hot.store_gs(TIME_SPILL + 16, RCX);
        hot.put(&[0x89, 0xc1]); // mov ecx, eax
        hot.flags_to_rax();
        absolute(hot, &[0x89, 0x04], FLAGS); // mov gs:[FLAGS], eax
        absolute(hot, &[0x83, 0x3c], armed); // cmp dword gs:[armed], ARMED
        hot.put(&[time_state::ARMED as u8]);
        let skip = short(hot, 0x75); // jne
        absolute(hot, &[0x2b, 0x0c], low); // sub ecx, gs:[low]
        absolute(hot, &[0x1b, 0x14], high); // sbb edx, gs:[high]
        let long = short(hot, 0x75); // jnz
        hot.put(&[0x81, 0xf9]); // cmp ecx, TIME_BINS - 1
        hot.put(&(TIME_BINS - 1).to_le_bytes());
        let fits = short(hot, 0x72); // jb
        hot.land(long);
        hot.put(&[0xb9]); // mov ecx, TIME_BINS - 1
        hot.put(&(TIME_BINS - 1).to_le_bytes());
        hot.land(fits);
        let histogram = TIME_HISTOGRAMS + TIME_HISTOGRAM_BYTES * number;
        hot.put(&[0x65, 0x48, 0x83, 0x04, 0xcd]); // add qword gs:[rcx*8+histogram], 1
        hot.put(&histogram.to_le_bytes());
        hot.put(&[1]);
        if role == Role::End {
            hot.set_gs32(armed, time_state::USED);
        }
        hot.land(skip);
        absolute(hot, &[0x8b, 0x04], FLAGS); // mov eax, gs:[FLAGS]
        hot.flags_from_rax();
        hot.load_gs(TIME_SPILL + 16, RCX);
    }
    if role != Role::End {
        hot.set_gs32(armed, time_state::ARMED);
        hot.put(&LFENCE);
        hot.put(&RDTSC);
        hot.put(&LFENCE);
        absolute(hot, &[0x89, 0x04], low); // mov gs:[low], eax
        absolute(hot, &[0x89, 0x14], high); // mov gs:[high], edx
    }
    hot.load_gs(TIME_SPILL, RAX);
    hot.load_gs(TIME_SPILL + 8, RDX);
}

/// A short branch to where [`Buffer::land`] says.
fn short(hot: &mut Buffer<'_>, opcode: u8) -> u64 {
    hot.put(&[opcode, 0]);
    hot.here().wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 0x40_1000;

    #[test]
    fn a_stamp_fits_one_record() {
        for role in [Role::Start, Role::End, Role::Both] {
            let mut bytes = [0u8; 512];
            let mut hot = Buffer::new(&mut bytes, HERE);
            stamp(&mut hot, Stamp { number: 3, role });
            assert!(
                !hot.overflowed() && hot.len() <= 255,
                "{role:?}: {}",
                hot.len()
            );
        }
    }

    #[test]
    fn roles_follow_from_the_addresses() {
        let watch = |start, end| Watch { start, end };
        assert_eq!(role(&watch(HERE, 0), HERE), Some(Role::Both));
        assert_eq!(role(&watch(HERE, HERE), HERE), Some(Role::Both));
        assert_eq!(role(&watch(HERE, HERE + 8), HERE), Some(Role::Start));
        assert_eq!(role(&watch(HERE, HERE + 8), HERE + 8), Some(Role::End));
        assert_eq!(role(&watch(HERE, HERE + 8), HERE + 4), None);
        assert_eq!(role(&watch(0, 0), 0), None);
        assert_eq!(role(&watch(0, HERE), HERE), None);
    }
}
