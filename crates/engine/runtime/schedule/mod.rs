//! The deterministic scheduler: one thread of the whole run has the token and executes the program's code, the others
//! wait. What it decides is in `schedule_state`, in memory that all processes of the run share; here are the threads
//! that come and go, and the system calls.
//!
//! | file | idea |
//! |---|---|
//! | `run` | the lock, words to sleep on |
//! | `token` | giving the token up, waiting for it, what if its owner is gone or does not give it up |
//! | `ends` | new threads and processes, their ends, `execve` |
//! | `futex` | futexes |
//! | `waits` | sleeps, and calls that wait: tried without waiting each time the token comes round |
//! | `tries` | tries, and waits between them |
//! | `locks` | locks of files |
//! | `writes` | writes of more than there is room for |
//! | `sets` | `poll`, `select`, `epoll`: waits for one of several descriptors |
//! | `descriptors` | what is asked of descriptors for that |
//! | `children` | waiting for children |
//! | `signals`, `sending` | signals inside the run, and from outside |
//! | `stops`, `stopping` | processes that are stopped, or traced |
//! | `kernel` | what the kernel tells of threads |
//! | `timers` | timers go off by the run's clock |
//!
//! A call that can wait is first asked whether it would (`poll` without a limit and the like). Where it would not, it is
//! made as without the scheduler, and nobody else executes meanwhile.

mod children;
mod descriptors;
mod ends;
mod fifos;
mod futex;
pub mod kernel;
mod locks;
mod run;
mod sending;
mod sets;
mod signals;
mod stopping;
mod stops;
mod timers;
mod token;
mod tries;
mod waits;
mod writes;

pub use crate::turns::on;
pub use ends::{announces, becomes, begins, leaves, made, started, stays};
pub use futex::memory_begins;
pub use kernel::kernel_state;
pub use signals::{born, came};

use crate::layout::Context;
use crate::shown::mixed;
use crate::syscall_table::{self as nr, Class};
use crate::turns::{Run, state};
use crate::xlate::block::FUEL;
use crate::{action, clock};
use signals::deliverable;

const EAGAIN: i64 = 11;
const EINTR: i64 = 4;

/// What becomes of a system call.
pub enum Step {
    /// It does not wait: it is made as ever.
    Native,
    /// It is done; its result.
    Done(i64),
    /// A signal came first: it is made again afterwards.
    Again,
}

/// The time of what the thread executed.
fn charge(context: &mut Context) -> u64 {
    let now = clock::now(context);
    timers::executed(context);
    now
}

/// A turn begins. It goes on where the thread waits in between: one that waits often would always be left where it waits,
/// and what others can do only while it is elsewhere would never come about. Turns differ in length, by half of [`FUEL`]
/// both ways, as the thread's number and that of its turn have it: of one length, a loop would be left at the same
/// instruction for ever where its branches divide that length, and a thread that waits to see another one elsewhere would
/// never see it.
pub fn refuel(context: &mut Context) {
    context.turns = context.turns.wrapping_add(1);
    let drawn = mixed(u64::from(context.turn) << 32 | u64::from(context.turns));
    context.fuel = FUEL / 2 + (drawn % FUEL.unsigned_abs()).cast_signed();
}

/// The thread has executed for so long that others have their turn.
pub fn turn(context: &mut Context) {
    refuel(context);
    if !on() {
        return;
    }
    token::own(context);
    charge(context);
    let mut state = run::lock();
    state.ends_turn(context.turn);
    token::give_up(context, state);
}

/// A system call that the program is about to make.
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> Step {
    token::own(context);
    match number {
        nr::FUTEX => return futex::call(context, a),
        nr::SCHED_YIELD => {
            charge(context);
            let mut state = run::lock();
            state.ends_turn(context.turn);
            token::give_up(context, state);
            return Step::Done(0);
        }
        nr::PTRACE => return stopping::traces(context, a),
        nr::NANOSLEEP | nr::CLOCK_NANOSLEEP => return waits::sleep(context, number, a),
        nr::SET_TID_ADDRESS => {
            context.clear_tid = a[0];
            return Step::Native;
        }
        _ => {}
    }
    if let Some(step) = timers::call(context, number, a) {
        return step;
    }
    let class = nr::class(number);
    if matches!(class, Class::Plain | Class::Memory | Class::Clock) {
        return Step::Native;
    }
    // Calls of others may succeed after it.
    run::lock().epoch += 1;
    if class == Class::File {
        return fifos::open(context, number, a);
    }
    if let Some(step) = children::call(context, number, a) {
        return step;
    }
    if let Some(step) = sending::call(context, number, a) {
        return step;
    }
    if let Some(step) = sets::call(context, number, a) {
        return step;
    }
    if let Some(step) = locks::call(context, number, a) {
        return step;
    }
    waits::call(context, number, a)
}

/// What a call that a signal ended gives. `restarts`: it is made again where the handler allows that.
fn interrupted(context: &Context, restarts: bool) -> Step {
    match restarts && self::restarts(context) {
        true => Step::Again,
        false => Step::Done(-EINTR),
    }
}

/// Whether a signal waits for the thread that ends a wait.
pub fn is_called(context: &mut Context) -> bool {
    signals::shut(context) && deliverable(context) != 0
}

/// Whether a call that the signal which has come ended is made again after it.
pub fn restarts(context: &Context) -> bool {
    const SA_RESTART: u64 = 0x1000_0000;
    let first = deliverable(context).trailing_zeros() + 1;
    let again = || {
        let action = action::get(context, first);
        action.handler <= 1 || action.flags & SA_RESTART != 0
    };
    first > 64 || again()
}
