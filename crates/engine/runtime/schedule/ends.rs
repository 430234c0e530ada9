//! Threads and processes begin, end, and become other programs.

use super::stops::goes_free;
use super::{descriptors, futex, on, refuel, run, token};
use crate::layout::Context;
use crate::schedule_state::timers::kind;
use crate::schedule_state::{cause, now, why, word};
use crate::syscall_table as nr;
use crate::{check, program_memory, slots, sys};

const CLONE_VFORK: u64 = 0x4000;
const CLONE_PARENT: u64 = 0x8000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;

/// A new image begins. It has the token, as its process had, or is the first of the run.
pub fn started(context: &mut Context) {
    if !on() {
        return;
    }
    futex::memory_begins();
    let pid = sys::getpid();
    let mut state = run::lock();
    let known = state.find(|thread| thread.pid == pid && thread.exec != 0);
    let number = known.or_else(|| state.add(slots::slot_of(context)));
    let Some(number) = number else {
        drop(state);
        return check!(false, "more threads than can be scheduled");
    };
    context.turn = number;
    refuel(context);
    let thread = state.edit(number);
    (thread.pid, thread.tid, thread.exec) = (pid, sys::gettid(), 0);
    thread.slot = slots::slot_of(context);
    state.knows(pid);
    // exec(3): intervals of setitimer stay.
    state
        .timers
        .forget(|timer| timer.pid == pid && timer.kind == kind::MADE);
    state.remove_process(pid, number);
    state.release_parent(number);
    state.epoch += 1;
    if state.owner == number {
        return;
    }
    let alone = state.numbers().count() == 1;
    if alone {
        (state.inherited, state.pipes) = descriptors::inherited();
        state.give(number);
        return;
    }
    if state.thread(number).now != now::READY {
        state.ready(number, why::TURN);
    }
    token::come_back(context, state);
}

/// A child is about to be made; its number.
pub fn announces(
    context: &Context,
    child: &mut Context,
    slot: u32,
    flags: u64,
    tid_at: u64,
) -> u32 {
    if !on() {
        return 0;
    }
    let mut state = run::lock();
    let Some(number) = state.add(slot) else {
        drop(state);
        check!(false, "more threads than can be scheduled");
        return 0;
    };
    child.turn = number;
    refuel(child);
    state.edit(number).ppid = match flags & (CLONE_THREAD | CLONE_PARENT) {
        0 => context.pid,
        _ => state.thread(context.turn).ppid,
    };
    child.clear_tid = if flags & CLONE_CHILD_CLEARTID != 0 {
        tid_at
    } else {
        0
    };
    if flags & CLONE_VFORK != 0 {
        state.edit(number).parent = context.turn;
        state.wait_other(context.turn, now::VFORK);
        state.give(number);
        drop(state);
        run::tell(number, word::TOKEN);
    }
    number
}

/// The child was made, or not.
pub fn made(context: &mut Context, child: u32, flags: u64, result: i64) {
    if !on() {
        return;
    }
    let mut state = run::lock();
    if result < 0 {
        state.edit(child).parent = 0;
        state.remove(child);
        if flags & CLONE_VFORK != 0 {
            state.give(context.turn);
        }
        return;
    }
    if flags & CLONE_VFORK != 0 {
        // A child that is traced leaves the schedule without a word.
        if state.thread(context.turn).now == now::VFORK {
            state.ready(context.turn, why::TURN);
        }
        token::come_back(context, state);
    } else {
        let thread = state.edit(child);
        thread.tid = result as u32;
        thread.pid = match flags & CLONE_THREAD {
            0 => result as u32,
            _ => context.pid,
        };
        let pid = thread.pid;
        state.knows(pid);
    }
}

/// A process whose parent is in another namespace of process ids begins. Numbers mean something else here: none of the
/// others can tell whether it still executes, nor it of them. It goes on beside them.
fn begins_elsewhere(context: &mut Context) {
    let mut state = run::lock();
    state.note(cause::NATIVE, nr::CLONE);
    let owned = state.owner == context.turn;
    state.wait_other(context.turn, now::OUTSIDE);
    goes_free(state.time);
    if owned {
        token::move_on_without(context, state);
    }
}

/// A new thread or process is there: it goes on when its turn comes.
pub fn begins(context: &mut Context) {
    if !on() {
        return;
    }
    if context.parent == 0 {
        return begins_elsewhere(context);
    }
    {
        let mut state = run::lock();
        let thread = state.edit(context.turn);
        (thread.pid, thread.tid) = (context.pid, context.tid);
        state.knows(context.pid);
    }
    token::park(context);
}

/// A thread, or its process, is about to end: who waits for the thread is woken, and somebody moves the token on once
/// it is gone.
pub fn leaves(context: &mut Context, number: u64) {
    if !on() {
        return;
    }
    token::own(context);
    super::charge(context);
    let own = context.turn;
    let mut state = run::lock();
    let others = |state: &super::Run| {
        state
            .find(|thread| thread.pid == context.pid && thread.tid != context.tid)
            .is_some()
    };
    let whole = number == nr::EXIT_GROUP || !others(&state);
    if !whole {
        let space = futex::memory();
        if context.clear_tid != 0 {
            // As the kernel will (set_tid_address(2)): nobody can wait for the end of a first thread that others outlive,
            // and who joins it looks here.
            if context.tid == context.pid {
                program_memory::write(context.clear_tid, &0u32);
            }
            state.wake([space, context.clear_tid], u32::MAX, 1);
        }
        robust(|at| {
            state.wake([space, at], u32::MAX, 1);
        });
    }
    let thread = state.edit(own);
    (thread.now, thread.bits) = (now::LEAVING, u32::from(whole));
    let pid = thread.pid;
    let sleeps = |is: u32| matches!(is, now::READY | now::FUTEX | now::SLEEP | now::TRY);
    let next = state
        .numbers()
        .filter(|&number| {
            let thread = state.thread(number);
            sleeps(thread.now) && thread.tid != 0 && (!whole || thread.pid != pid)
        })
        .min_by_key(|&number| {
            let thread = state.thread(number);
            (thread.now != now::READY, thread.sequence)
        });
    drop(state);
    if let Some(next) = next {
        run::tell(next, word::MOVE);
    }
}

/// The robust locks that the thread holds: whoever waits for one is to be woken.
fn robust(mut wake: impl FnMut(u64)) {
    const MOST: usize = 2048;
    let (mut head, mut size) = (0u64, 0u64);
    // SAFETY: writes to locals.
    let result = unsafe {
        let to = [&raw mut head as u64, &raw mut size as u64];
        sys::call(nr::GET_ROBUST_LIST, [0, to[0], to[1], 0, 0, 0])
    };
    if result < 0 || head == 0 {
        return;
    }
    // struct robust_list_head: first entry, offset of the futex, the entry that is being taken.
    let Some([mut entry, offset, _]) = program_memory::read::<[u64; 3]>(head) else {
        return;
    };
    for _ in 0..MOST {
        if entry & !1 == head {
            return;
        }
        wake((entry & !1).wrapping_add(offset));
        match program_memory::read::<u64>(entry & !1) {
            Some(next) => entry = next,
            None => return,
        }
    }
}

/// The thread is about to be another program: it keeps the token, but where nobody follows it.
pub fn becomes(context: &mut Context, can: bool, followed: bool) {
    if !on() || !can {
        return;
    }
    let mut state = run::lock();
    if followed {
        state.edit(context.turn).exec = 1;
        return;
    }
    state.note(cause::NATIVE, nr::EXECVE);
    state.release_parent(context.turn);
    state.wait_other(context.turn, now::OUTSIDE);
    token::move_on_without(context, state);
}

/// It was not to be.
pub fn stays(context: &mut Context) {
    if !on() {
        return;
    }
    let mut state = run::lock();
    state.edit(context.turn).exec = 0;
    if state.owner != context.turn {
        state.ready(context.turn, why::TURN);
        token::come_back(context, state);
    }
}
