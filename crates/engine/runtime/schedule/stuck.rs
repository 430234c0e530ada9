//! What if the token's owner is gone, sleeps in the kernel, or executes for ever.

use super::token::{idle, is_gone, is_over, is_process_over, lock, move_on, relieve};
use crate::layout::Context;
use crate::schedule_state::{cause, now};
use crate::sys;
use crate::syscall_table as nr;

/// Whether the run does not go on although it could.
#[derive(Default)]
pub struct Stuck {
    moves: u64,
    asleep: u32,
    busy: u32,
}

impl Stuck {
    /// Looks at the token's owner; called about every [`TICK`].
    pub fn look(&mut self, context: &mut Context) {
        let mut state = lock();
        let owner = state.owner;
        if owner == 0 {
            let idler = state.thread(state.idler);
            let lost = idler.now == now::GONE || idler.tid != 0 && is_over(idler.pid, idler.tid);
            if lost && state.idler != context.turn {
                state.idler = context.turn;
                drop(state);
                idle(context);
            }
            return;
        }
        let (pid, tid, is) = {
            let thread = state.thread(owner);
            (thread.pid, thread.tid, thread.now)
        };
        if tid != 0 && is_gone(&state) {
            let whole = is_process_over(pid);
            state.edit(owner).bits = u32::from(whole);
            drop(state);
            relieve(context);
            return;
        }
        let others = state.first().is_some();
        if self.moves != state.moves || !others || is != now::RUN || tid == 0 {
            (self.moves, self.asleep, self.busy) = (state.moves, 0, 0);
            return;
        }
        match kernel_state(pid, tid) {
            b'S' | b'T' | b't' => self.asleep += 1,
            _ => (self.asleep, self.busy) = (0, self.busy + 1),
        }
        if self.asleep >= 20 || self.busy >= 300 {
            let cause = if self.asleep >= 20 {
                cause::CALL
            } else {
                cause::FORCED
            };
            state.note(cause, 0);
            state.wait_other(owner, now::OUTSIDE);
            move_on(context, state);
            *self = Self::default();
        }
    }
}

/// The letter that the kernel gives a thread (proc(5)).
fn kernel_state(pid: u32, tid: u32) -> u8 {
    use core::fmt::Write;
    let mut path = crate::report::Text::new();
    let _ = write!(path, "/proc/{pid}/task/{tid}/stat\0");
    let mut text = [0u8; 256];
    // SAFETY: open, read and close with our own buffers.
    let got = unsafe {
        let at = path.bytes().as_ptr() as u64;
        let fd = sys::call(nr::OPEN, [at, 0o2_000_000, 0, 0, 0, 0]);
        if fd < 0 {
            return 0;
        }
        let got = sys::call(
            nr::READ,
            [fd as u64, text.as_mut_ptr() as u64, 256, 0, 0, 0],
        );
        sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
        got
    };
    let text = text.get(..got.max(0) as usize).unwrap_or(&[]);
    let end = text.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    text.get(end + 2).copied().unwrap_or(0)
}
