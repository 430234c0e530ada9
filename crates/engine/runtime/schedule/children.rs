//! Waiting for children.

use super::tries::{Over, Tried, until};
use super::{Step, interrupted, run};
use crate::layout::Context;
use crate::schedule_state::{NEVER, now};
use crate::syscall_table as nr;
use crate::{clock, sys};

const NOHANG: u64 = 1;
const NOWAIT: u64 = 0x0100_0000;

pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> Option<Step> {
    match number {
        nr::WAIT4 if a[2] & NOHANG == 0 => Some(wait4(context, a)),
        nr::WAITID if a[3] & NOHANG == 0 => Some(waitid(context, a)),
        _ => None,
    }
}

fn wait(context: &mut Context, attempt: impl FnMut(&mut Context) -> Tried) -> Step {
    // Children of the run end when it is their turn; others, when they like.
    let others = || {
        run::lock()
            .find(|thread| thread.now == now::OUTSIDE)
            .is_some()
    };
    match until(context, NEVER, others, attempt) {
        Ok(step) => step,
        Err(Over::Signal | Over::Timeout) => interrupted(context, true),
    }
}

fn wait4(context: &mut Context, a: [u64; 6]) -> Step {
    wait(context, |_| {
        // SAFETY: as the program made it, but that it does not wait.
        match unsafe { sys::call(nr::WAIT4, [a[0], a[1], a[2] | NOHANG, a[3], 0, 0]) } {
            0 => Tried::NotYet,
            result if result < 0 => Tried::Step(Step::Done(result)),
            result => Tried::Step(Step::Done(clock::used(a[3], 0, result))),
        }
    })
}

fn waitid(context: &mut Context, a: [u64; 6]) -> Step {
    wait(context, |_| {
        let mut info = [0u64; 16];
        let to = info.as_mut_ptr() as u64;
        // SAFETY: waitid into a siginfo_t of ours, which changes nothing and does not wait.
        let result =
            unsafe { sys::call(nr::WAITID, [a[0], a[1], to, a[3] | NOHANG | NOWAIT, 0, 0]) };
        // si_signo
        match result == 0 && info[0] as u32 == 0 {
            true => Tried::NotYet,
            false => Tried::Step(Step::Native),
        }
    })
}
