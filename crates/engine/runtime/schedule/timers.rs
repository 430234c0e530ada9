//! Timers go off by the run's clock, at moves of the token: `setitimer(2)`, `alarm(2)`, `timer_create(2)`,
//! `timerfd_create(2)`. Those of the kernel are made, where it numbers them, and never set. A timer that is read by a
//! descriptor is an eventfd, which its process writes to.

use super::{Step, descriptors, run};
use crate::frames::Info;
use crate::layout::Context;
use crate::program_memory;
use crate::schedule_state::timers::{Timer, kind};
use crate::schedule_state::{Move, NEVER, cause};
use crate::syscall_table as nr;
use crate::turns::state;
use crate::{clock, signal_calls, sys};

const EINVAL: i64 = 22;
const SI_TIMER: i32 = -2;
const SI_KERNEL: i32 = 0x80;
const SIGALRM: u32 = 14;
const O_CLOEXEC: u64 = 0o2_000_000;
const MICROSECOND: u64 = 1000;
/// Timers that go off in a row while nobody goes on by them: then real time passes.
const MOST: u32 = 4096;

/// Interval and first time, as `struct itimerspec` and `struct itimerval`.
type Spec = [u64; 4];

/// Moves the token on, and sends what timers send. `None`: all wait.
pub fn move_on(state: &mut run::Guard) -> Option<u32> {
    for _ in 0..MOST {
        match state.move_on() {
            Move::Fire(timer) => fire(state, &timer),
            Move::Run(next) => return Some(next),
            Move::Idle { .. } => return None,
        }
    }
    None
}

/// A timer goes off.
pub fn fire(state: &mut run::Guard, timer: &Timer) {
    if timer.kind == kind::DESCRIPTOR {
        // Who waits for the descriptor tries again.
        state.epoch += 1;
        return;
    }
    if timer.signal == 0 {
        return;
    }
    state.look(timer.pid, timer.tid);
    state.epoch += 1;
    // Those of setitimer(2) have the kernel's own code, which a thread may send to itself only (see `executed`).
    let by_kernel = timer.kind != kind::MADE && timer.tid != 0;
    let code = if by_kernel { SI_KERNEL } else { SI_TIMER };
    let mut info = Info::message(timer.signal, code, timer.value);
    if !by_kernel {
        info.address = u64::from(timer.id) | timer.missed.min(i32::MAX as u64) << 32;
    }
    let (pid, signal) = (u64::from(timer.pid), u64::from(timer.signal));
    let at = core::ptr::from_ref(&info) as u64;
    // SAFETY: a siginfo_t of ours; what cannot be sent is not (the process is gone).
    unsafe {
        match timer.tid {
            0 => sys::call(nr::RT_SIGQUEUEINFO, [pid, signal, at, 0, 0, 0]),
            tid => sys::call(nr::RT_TGSIGQUEUEINFO, [pid, tid.into(), signal, at, 0, 0]),
        }
    };
}

/// Timers of this process's executed time. Of its threads the one that executes is meant, unless it blocks the signal, as in
/// the kernel (`check_cpu_itimer` in kernel/time/posix-cpu-timers.c, `complete_signal` in kernel/signal.c).
pub fn executed(context: &Context) {
    // SAFETY: a word that says whether to look; the token's owner asks.
    if unsafe { (&raw const (*state()).timers.executed).read_volatile() } == 0 {
        return;
    }
    let pid = sys::getpid();
    let mut state = run::lock();
    while let Some(mut timer) = state.timers.due_executed(pid, clock::ran()) {
        let blocked = signal_calls::real_mask(context) >> (timer.signal.max(1) - 1) & 1 != 0;
        if timer.tid == 0 && !blocked {
            timer.tid = context.tid;
        }
        fire(&mut state, &timer);
    }
}

/// Writes to this process's descriptors how often their timers went off.
pub fn write(context: &Context) {
    // SAFETY: as above.
    if unsafe { (&raw const (*state()).timers.unwritten).read_volatile() } == 0 {
        return;
    }
    loop {
        let mut state = run::lock();
        let of_ours = |timer: &Timer| timer.unwritten > 0 && timer.pid == context.pid;
        let Some(at) = state.timers.find(of_ours) else {
            return;
        };
        let mut timer = state.timers.get(at);
        let times = core::mem::take(&mut timer.unwritten);
        state.timers.put(at, timer);
        state.epoch += 1;
        drop(state);
        // The descriptor may be closed, and its number another file's.
        if event_of(timer.id.into()) == Some(timer.event) {
            sys::write(timer.id.into(), &times.to_ne_bytes());
        }
    }
}

/// The number of an eventfd.
fn event_of(fd: u64) -> Option<u64> {
    descriptors::number_in(fd, b"eventfd-id:")
}

/// The calls of this file; `None`: another.
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> Option<Step> {
    Some(match number {
        nr::SETITIMER if a[0] < 3 => set_interval(context, a),
        nr::GETITIMER if a[0] < 3 => {
            let at = interval(context, a[0]);
            tell(context, at, a[1], MICROSECOND)
        }
        nr::ALARM => alarm(context, a[0] & 0xffff_ffff),
        nr::TIMER_CREATE => make(context, a),
        nr::TIMER_SETTIME => set(context, made(context, a[0])?, a),
        nr::TIMER_GETTIME => {
            let at = made(context, a[0])?;
            tell(context, Some(at), a[1], 1)
        }
        nr::TIMER_GETOVERRUN => {
            let at = made(context, a[0])?;
            Step::Done(run::lock().timers.get(at).missed.min(i32::MAX as u64) as i64)
        }
        nr::TIMER_DELETE => {
            let (pid, id) = (context.pid, a[0] as u32);
            run::lock()
                .timers
                .forget(|timer| timer.kind == kind::MADE && (timer.pid, timer.id) == (pid, id));
            return None;
        }
        nr::TIMERFD_CREATE => make_descriptor(context, a),
        nr::TIMERFD_SETTIME => set(context, of_descriptor(context, a[0])?, a),
        nr::TIMERFD_GETTIME => {
            let at = of_descriptor(context, a[0])?;
            tell(context, Some(at), a[1], 1)
        }
        _ => return None,
    })
}

/// The timer of this number of `setitimer(2)`, where there is one.
fn interval(context: &Context, which: u64) -> Option<usize> {
    let (pid, kind) = (context.pid, kind::INTERVAL + which as u32);
    run::lock()
        .timers
        .find(|timer| (timer.pid, timer.kind) == (pid, kind))
}

fn made(context: &Context, id: u64) -> Option<usize> {
    let (pid, id) = (context.pid, id as u32);
    run::lock()
        .timers
        .find(|timer| timer.kind == kind::MADE && (timer.pid, timer.id) == (pid, id))
}

/// The timer of a descriptor, which may have another number than it was made with.
fn of_descriptor(context: &Context, fd: u64) -> Option<usize> {
    let event = event_of(fd)?;
    let (pid, id) = (context.pid, fd as u32);
    let mut state = run::lock();
    let at = state
        .timers
        .find(|timer| timer.kind == kind::DESCRIPTOR && timer.event == event)?;
    let mut timer = state.timers.get(at);
    (timer.pid, timer.id) = (pid, id);
    state.timers.put(at, timer);
    Some(at)
}

/// The time of a timer's clock now.
fn time(context: &mut Context, executed: bool) -> u64 {
    let now = super::charge(context);
    if executed { clock::ran() } else { now }
}

/// Interval and what is left, `parts` nanoseconds a unit.
fn left(context: &mut Context, timer: &Timer, parts: u64) -> Spec {
    let now = time(context, timer.executed != 0);
    let rest = match timer.due {
        NEVER => 0,
        // What is about to go off has not yet.
        due => due.saturating_sub(now).max(parts),
    };
    let ([a, b], [c, d]) = (clock::pair(timer.interval, parts), clock::pair(rest, parts));
    [a, b, c, d]
}

/// timer_gettime and its kin. No timer: one that is not set.
fn tell(context: &mut Context, at: Option<usize>, to: u64, parts: u64) -> Step {
    let timer = at.map(|at| run::lock().timers.get(at));
    let spec = timer.map_or([0; 4], |timer| left(context, &timer, parts));
    Step::Done(match program_memory::write(to, &spec) {
        true => 0,
        false => -sys::EFAULT,
    })
}

/// What the program asks for.
fn wanted(at: u64, parts: u64) -> Result<(u64, u64), i64> {
    let Some(spec) = program_memory::read::<Spec>(at) else {
        return Err(-sys::EFAULT);
    };
    let [interval, interval_part, first, first_part] = spec;
    let most = clock::SECOND / parts;
    if interval_part >= most || first_part >= most || (first | interval) >> 63 != 0 {
        return Err(-EINVAL);
    }
    Ok((
        clock::from_pair([interval, interval_part], parts),
        clock::from_pair([first, first_part], parts),
    ))
}

/// A timer that the kernel has after all.
fn by_the_kernel(number: u64) -> Step {
    run::lock().note(cause::TIMER, number);
    Step::Native
}

/// Sets a timer of `setitimer(2)`; what was left of it before.
fn start(context: &mut Context, which: u64, interval_is: u64, first: u64) -> Option<Timer> {
    let executed = which != 0;
    let now = time(context, executed);
    let at = interval(context, which);
    let mut state = run::lock();
    let unset = Timer {
        due: NEVER,
        ..Timer::default()
    };
    let old = at.map_or(unset, |at| state.timers.get(at));
    let timer = Timer {
        kind: kind::INTERVAL + which as u32,
        pid: context.pid,
        // SIGALRM, SIGVTALRM, SIGPROF.
        signal: [SIGALRM, 26, 27][which as usize % 3],
        executed: u32::from(executed),
        due: match first {
            0 => NEVER,
            first => now.saturating_add(first),
        },
        interval: interval_is,
        ..Timer::default()
    };
    match at {
        Some(at) => state.timers.put(at, timer),
        None if first == 0 => {}
        None => {
            state.timers.add(timer)?;
        }
    }
    Some(old)
}

fn set_interval(context: &mut Context, a: [u64; 6]) -> Step {
    let (interval, first) = match a[1] {
        0 => (0, 0),
        at => match wanted(at, MICROSECOND) {
            Ok(wanted) => wanted,
            Err(error) => return Step::Done(error),
        },
    };
    let Some(old) = start(context, a[0], interval, first) else {
        return by_the_kernel(nr::SETITIMER);
    };
    let spec = left(context, &old, MICROSECOND);
    match a[2] == 0 || program_memory::write(a[2], &spec) {
        true => Step::Done(0),
        false => Step::Done(-sys::EFAULT),
    }
}

fn alarm(context: &mut Context, seconds: u64) -> Step {
    let Some(old) = start(context, 0, 0, seconds * clock::SECOND) else {
        return by_the_kernel(nr::ALARM);
    };
    let [_, _, seconds, micros] = left(context, &old, MICROSECOND);
    // As the kernel rounds: never to none.
    let more = micros >= 500_000 || seconds == 0 && micros > 0;
    Step::Done((seconds + u64::from(more)) as i64)
}

/// timer_create: the kernel says what is wrong, and numbers it.
fn make(context: &mut Context, a: [u64; 6]) -> Step {
    const NONE: u32 = 1;
    const THREAD_ID: u32 = 4;
    let executed = clock::base(a[0]).is_none();
    // struct sigevent: value, signal, how, thread.
    let event = match a[1] {
        0 => None,
        at => {
            let value = program_memory::read::<u64>(at);
            let rest = program_memory::read::<[u32; 3]>(at.wrapping_add(8));
            value.zip(rest)
        }
    };
    // SAFETY: as the program made it.
    let result = unsafe { sys::call(nr::TIMER_CREATE, a) };
    if result < 0 {
        return Step::Done(result);
    }
    let Some(id) = program_memory::read::<u32>(a[2]) else {
        return Step::Done(-sys::EFAULT);
    };
    let (value, [signal, how, tid]) = event.unwrap_or((id.into(), [SIGALRM, 0, 0]));
    let timer = Timer {
        kind: kind::MADE,
        pid: context.pid,
        id,
        signal: if how == NONE { 0 } else { signal },
        tid: if how == THREAD_ID { tid } else { 0 },
        executed: u32::from(executed),
        value,
        clock: a[0],
        due: NEVER,
        ..Timer::default()
    };
    if run::lock().timers.add(timer).is_none() {
        run::lock().note(cause::TIMER, nr::TIMER_CREATE);
    }
    Step::Done(result)
}

/// timer_settime and timerfd_settime.
fn set(context: &mut Context, at: usize, a: [u64; 6]) -> Step {
    let (interval, first) = match wanted(a[2], 1) {
        Ok(wanted) => wanted,
        Err(error) => return Step::Done(error),
    };
    let mut timer = run::lock().timers.get(at);
    let old = left(context, &timer, 1);
    let now = time(context, timer.executed != 0);
    timer.due = match first {
        0 => NEVER,
        first if a[1] & 1 != 0 => first.saturating_sub(clock::base(timer.clock).unwrap_or(0)),
        first => now.saturating_add(first),
    };
    (timer.interval, timer.missed, timer.unwritten) = (interval, 0, 0);
    if timer.kind == kind::DESCRIPTOR && descriptors::is_ready(a[0], descriptors::IN) {
        let mut count = 0u64;
        // SAFETY: what the eventfd counted, into a local: it is there.
        unsafe { sys::call(nr::READ, [a[0], &raw mut count as u64, 8, 0, 0, 0]) };
    }
    run::lock().timers.put(at, timer);
    match a[3] == 0 || program_memory::write(a[3], &old) {
        true => Step::Done(0),
        false => Step::Done(-sys::EFAULT),
    }
}

/// timerfd_create: an eventfd under the number that the kernel gave.
fn make_descriptor(context: &Context, a: [u64; 6]) -> Step {
    // SAFETY: as the program made it.
    let fd = unsafe { sys::call(nr::TIMERFD_CREATE, a) };
    if fd < 0 {
        return Step::Done(fd);
    }
    let cloexec = a[1] & O_CLOEXEC;
    // SAFETY: an eventfd with the same flags takes the place of what the kernel gave.
    let result = unsafe {
        let event = sys::call(nr::EVENTFD2, [0, a[1], 0, 0, 0, 0]);
        if event < 0 {
            event
        } else {
            let result = sys::call(nr::DUP3, [event as u64, fd as u64, cloexec, 0, 0, 0]);
            sys::call(nr::CLOSE, [event as u64, 0, 0, 0, 0, 0]);
            result
        }
    };
    let (fd, pid) = (fd as u64, context.pid);
    let Some(event) = event_of(fd).filter(|_| result >= 0) else {
        // SAFETY: what was just made.
        unsafe { sys::call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]) };
        return by_the_kernel(nr::TIMERFD_CREATE);
    };
    let timer = Timer {
        kind: kind::DESCRIPTOR,
        pid,
        id: fd as u32,
        clock: a[0],
        event,
        due: NEVER,
        ..Timer::default()
    };
    let mut state = run::lock();
    // What had this number was closed.
    let gone =
        |timer: &Timer| timer.kind == kind::DESCRIPTOR && (timer.pid, timer.id) == (pid, fd as u32);
    state.timers.forget(gone);
    if state.timers.add(timer).is_none() {
        drop(state);
        // SAFETY: as above.
        unsafe { sys::call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]) };
        return by_the_kernel(nr::TIMERFD_CREATE);
    }
    Step::Done(fd as i64)
}
