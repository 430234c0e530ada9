//! Putting the runtime into an image that has just been loaded: a handful of
//! system calls made by the stopped process itself, then its registers point
//! at the runtime. Nothing of the program has run yet.

use super::CommandLine;
use super::beginning::Beginning;
use super::image::FLAT;
use super::initial_stack;
use super::programs::Program;
use super::ptrace::{self, Event};
use super::remote::{Call, InjectError, Remote, step};
use super::shared::Shared;
use super::store::Plan;
use crate::layout::{
    ARENA_BASE, BOOT_STACK, CANNOT_START, Context, LOW, LOW_BYTES, REGION, RUNTIME_BASE, StartArgs,
    TOTALS_BASE, TOTALS_FAR, TOTALS_NEAR,
};
use crate::{limits, restartable};
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;

/// Injects into the thread `tid`, stopped at its exec event, and detaches.
/// `previous` is the slot it had before (0: none). `failed` is told why it goes on natively, before it does.
pub(super) fn inject(
    shared: &Shared,
    tid: i32,
    previous: u32,
    failed: impl FnOnce(&InjectError),
) -> Result<(), InjectError> {
    let mut result = try_inject(shared, tid, previous);
    if result.is_err() {
        // Whatever failed, it may have been because the process was killed.
        if ptrace::regs(tid).is_err() {
            result = Err(InjectError::Gone);
        }
        if let Err(error) = &result {
            failed(error);
        }
        if previous == 0 {
            // The run's first program: whoever started it is told, and may start it natively. So
            // nothing of this one may run.
            // SAFETY: a signal to a process that we trace.
            unsafe { libc::kill(tid, libc::SIGKILL) };
        }
        let _ = ptrace::detach(tid, 0);
    }
    result
}

fn try_inject(shared: &Shared, tid: i32, previous: u32) -> Result<(), InjectError> {
    let regs = step("reading registers", ptrace::regs(tid))?;
    if regs.cs != 0x33 {
        return Err(InjectError::NotX86_64);
    }
    let mask = step("reading the signal mask", ptrace::mask(tid))?;
    let open = !(1 << (libc::SIGTRAP - 1));
    step("setting the signal mask", ptrace::set_mask(tid, open))?;
    let remote = Remote::new(tid, regs)?;
    remote.enter()?;
    for resource in [limits::DATA, limits::ADDRESS_SPACE] {
        // Where that is not allowed, the runtime finds out whether it can do with what there is.
        let apart = limits::apart(shared.header());
        let _ = ptrace::change_limit(tid, resource, |l| limits::enlarged(resource, l, apart));
    }
    let program = shared.programs.of(tid);
    let begins = Beginning::of(tid, regs.rsp);
    let kept = program.as_ref();
    let mut plan = shared.store.plan(tid, shared.emitted(), kept, begins.fixed);
    let mut low = 0;
    let outcome = map_all(shared, &remote, &mut plan, &mut low)
        .and_then(|opened| {
            if shared.machine.is_some() {
                // Nothing may fail any more once the stack is being written anew.
                remote.reach(regs.rsp.saturating_sub(ROOM))?;
                unmap_vdso(&remote);
            }
            Ok(opened)
        })
        .inspect_err(|_| remove(shared, &remote, low, None));
    let left = remote.leave();
    let (totals_fd, cache_fd) = outcome.inspect_err(|_| {
        let _ = ptrace::set_mask(tid, mask);
    })?;
    left?;
    let sp = match &shared.machine {
        Some(machine) => arrange_stack(shared, tid, regs.rsp, machine.hwcap())?,
        None => regs.rsp,
    };
    let slot = shared.header().take_slot().ok_or_else(|| {
        let error = io::Error::other("too many threads and processes");
        InjectError::Step("finding a place to count in", error)
    })?;
    name_slot(shared, tid, slot, previous)?;
    note_command(shared, &begins, slot);
    if let Some(regions) = &shared.regions {
        let (hooks, names) = regions.hooks(tid);
        if let Ok(mut hooked) = shared.hooked.lock()
            && !names.is_empty()
        {
            hooked.insert(slot, names);
        }
        step("choosing functions", shared.write_hooks(slot, &hooks))?;
    }
    let args = StartArgs {
        pc: regs.rip,
        sp,
        rflags: regs.eflags & !0x100,
        slot: u64::from(slot),
        regs: [
            regs.rax, regs.rcx, regs.rdx, regs.rbx, regs.rsp, regs.rbp, regs.rsi, regs.rdi,
            regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
        ],
        totals_fd,
        cache_fd,
        cache_effort: plan.effort.unwrap_or(u64::MAX),
        cache_key: plan.key(),
        sequences: {
            let named = |program: Program| program.facts.sequences;
            let preloaded = restartable::preloaded(&begins.environment);
            u64::from(!program.is_some_and(named) && !preloaded)
        },
        low,
        watches: shared
            .watched
            .as_ref()
            .map(|watched| watched.in_process(tid))
            .unwrap_or_default(),
    };
    shared.store.note(slot, plan);
    // SAFETY: plain integers without padding.
    let args = unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(&args).cast::<u8>(),
            size_of::<StartArgs>(),
        )
    };
    step(
        "writing the start arguments",
        ptrace::write(tid, BOOT_STACK, args),
    )?;
    if shared.machine.is_none() {
        fix_vector(shared, tid, regs.rsp)?;
    }
    let mut start = regs;
    start.rip = RUNTIME_BASE;
    start.orig_rax = u64::MAX;
    step("setting registers", ptrace::set_regs(tid, &start))?;
    step("restoring the signal mask", ptrace::set_mask(tid, mask))?;
    if let Err(reason) = start_runtime(tid)? {
        // Nothing of the program has been executed: it can run natively.
        remote.enter()?;
        step("setting the signal mask", ptrace::set_mask(tid, !(1 << 4)))?;
        remove(shared, &remote, low, Some(totals_fd));
        remote.leave()?;
        let mut natively = regs;
        natively.rsp = sp;
        step("restoring registers", ptrace::set_regs(tid, &natively))?;
        step("restoring the signal mask", ptrace::set_mask(tid, mask))?;
        shared.forget(slot);
        return Err(InjectError::Start(reason));
    }
    let sent = remote.sent.take();
    let signal = sent.map_or(Ok(0), |info| ptrace::pend(tid, &info, mask));
    step("letting go", signal.and_then(|s| ptrace::detach(tid, s)))
}

/// Exchanges the random bytes of the kernel's auxiliary vector and hides the vDSO in it, where that is wanted.
fn fix_vector(shared: &Shared, tid: i32, sp: u64) -> Result<(), InjectError> {
    let [random, vdso] = if shared.random_bytes.held() || shared.hide_vdso {
        let word = |at| ptrace::peek(tid, at).map(i64::cast_unsigned);
        let keys = [libc::AT_RANDOM, libc::AT_SYSINFO_EHDR];
        step(
            "reading the auxiliary vector",
            crate::auxv::entries(word, sp, keys),
        )?
    } else {
        [None; 2]
    };
    if let Some(bytes) = shared.random_bytes.next(tid) {
        let (_, at) = random.ok_or(InjectError::Gone)?;
        step("writing AT_RANDOM", ptrace::write(tid, at, &bytes))?;
    }
    // Without one there is nothing to hide.
    if shared.hide_vdso
        && let Some((entry, _)) = vdso
    {
        let ignore = libc::AT_IGNORE.to_le_bytes();
        step("hiding the vDSO", ptrace::write(tid, entry, &ignore))?;
    }
    Ok(())
}

/// How far below the kernel's stack pointer the launcher writes, and the new one is at most.
const ROOM: u64 = 2048;

/// Gives the program the stack of a reference machine; its stack pointer.
fn arrange_stack(shared: &Shared, tid: i32, old: u64, hwcap: u64) -> Result<u64, InjectError> {
    let word = |at| ptrace::peek(tid, at).map(i64::cast_unsigned);
    let what = "arranging the stack";
    let arranged = initial_stack::arranged(word, old, hwcap, shared.random_bytes.next(tid));
    let stack = step(what, arranged)?;
    step(what, ptrace::write(tid, stack.pointer, &stack.bytes))?;
    // What is left of the old one, and of what the launcher wrote below it.
    let (low, high) = (stack.old.saturating_sub(ROOM), stack.pointer);
    let left = usize::try_from(high.saturating_sub(low)).unwrap_or(0);
    step(what, ptrace::write(tid, high - left as u64, &vec![0; left]))?;
    Ok(stack.pointer)
}

/// Takes the vDSO and its data away: their size differs from kernel to kernel, and so would where the program's mappings
/// go. Where that is not allowed they stay, unused.
fn unmap_vdso(remote: &Remote) {
    for mapping in mappings(remote.tid) {
        if mapping.file.contains("[vdso]") || mapping.file.contains("[vvar") {
            let bytes = mapping.end.saturating_sub(mapping.start);
            let unmapped = [mapping.start, bytes, 0, 0, 0, 0];
            let _ = remote.call("removing the vDSO", libc::SYS_munmap as u64, unmapped);
        }
    }
}

/// Keeps the command line that an image began with.
fn note_command(shared: &Shared, begins: &Beginning, slot: u32) {
    let arguments = &begins.arguments;
    let words = arguments
        .strip_suffix(&[0])
        .unwrap_or(arguments)
        .split(|&byte| byte == 0);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if let Ok(mut commands) = shared.commands.lock() {
        let command = CommandLine {
            file: text(&begins.file),
            words: words.map(text).collect(),
        };
        commands.insert(slot, command);
    }
}

/// A line of `/proc/PID/maps`.
struct Mapping {
    start: u64,
    end: u64,
    /// Empty: none.
    file: String,
}

/// What is mapped; nothing where the kernel does not say.
fn mappings(tid: i32) -> Vec<Mapping> {
    let maps = std::fs::read_to_string(format!("/proc/{tid}/maps")).unwrap_or_default();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let mapping = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some(Mapping {
            start: number(start)?,
            end: number(end)?,
            file: line.splitn(6, ' ').nth(5).unwrap_or("").trim().to_owned(),
        })
    };
    maps.lines().filter_map(mapping).collect()
}

/// Who runs in a slot, and what it was before its `execve`.
fn name_slot(shared: &Shared, tid: i32, slot: u32, previous: u32) -> Result<(), InjectError> {
    let name = program_name(tid);
    let mut bytes = [0u8; 63];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    let named = shared.map(slot).and_then(|context| {
        context.write(offset_of!(Context, name), &bytes)?;
        context.write(offset_of!(Context, previous), &previous.to_ne_bytes())
    });
    step("naming the slot", named)
}

/// Lets the runtime set itself up until its breakpoint; the reason if it cannot.
fn start_runtime(tid: i32) -> Result<Result<(), String>, InjectError> {
    step("starting the engine", ptrace::resume(tid, 0))?;
    loop {
        match step("starting the engine", ptrace::wait())? {
            Event::Signal(_, libc::SIGTRAP) => {
                let regs = step("reading registers", ptrace::regs(tid))?;
                if !(RUNTIME_BASE..RUNTIME_BASE + FLAT).contains(&regs.rip) {
                    // Sent by somebody.
                    step("passing a signal on", ptrace::resume(tid, libc::SIGTRAP))?;
                    continue;
                }
                if regs.rax != CANNOT_START {
                    return Ok(Ok(()));
                }
                let text = ptrace::read(tid, regs.rdi, regs.rsi.min(1000) as usize);
                return Ok(Err(text.map_or_else(
                    |error| error.to_string(),
                    |bytes| String::from_utf8_lossy(&bytes).into_owned(),
                )));
            }
            Event::Gone(_) => {
                return Err(InjectError::Start("it was killed in there".to_owned()));
            }
            Event::Group(tid) => step("waiting while stopped", ptrace::listen(tid))?,
            Event::Exec(tid) => step("passing a signal on", ptrace::resume(tid, 0))?,
            Event::Signal(tid, signal) => {
                step("passing a signal on", ptrace::resume(tid, signal))?;
            }
        }
    }
}

/// Takes the runtime out of a program that it could not start in. What cannot be undone is the
/// engine's, not the program's.
fn remove(shared: &Shared, remote: &Remote, low: u64, totals_fd: Option<u64>) {
    let call =
        |number: i64, a: [u64; 6]| drop(remote.call("removing the engine", number as u64, a));
    let own = [
        (RUNTIME_BASE, FLAT),
        (low, LOW_BYTES),
        (ARENA_BASE, TOTALS_BASE + TOTALS_NEAR - ARENA_BASE),
        (TOTALS_FAR + TOTALS_NEAR, REGION),
    ];
    for mapping in mappings(remote.tid) {
        // (The program may be there as well.)
        let ours = mapping.file.is_empty() || mapping.file.contains("memfd:truecount");
        let inside = |&(at, bytes): &(u64, u64)| at <= mapping.start && mapping.end <= at + bytes;
        if ours && own.iter().any(inside) {
            let bytes = mapping.end - mapping.start;
            call(libc::SYS_munmap, [mapping.start, bytes, 0, 0, 0, 0]);
        }
    }
    if let Some(fd) = totals_fd {
        call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    }
    call(libc::SYS_arch_prctl, [ARCH_SET_GS, 0, 0, 0, 0, 0]);
    // The engine's handlers, and the stack they run on: as after every `execve`.
    let scratch = (remote.regs.rsp - 1024) & !15;
    if ptrace::write(remote.tid, scratch, &[0u8; 64]).is_ok() {
        for signal in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
        ] {
            let signal = signal.unsigned_abs().into();
            call(libc::SYS_rt_sigaction, [signal, scratch, 0, 8, 0, 0]);
        }
        let disabled = [0u64, 2, 0].map(u64::to_ne_bytes).concat();
        if ptrace::write(remote.tid, scratch, &disabled).is_ok() {
            call(libc::SYS_sigaltstack, [scratch, 0, 0, 0, 0, 0]);
        }
        let _ = ptrace::write(remote.tid, scratch, &[0u8; 64]);
    }
    // Its limits are its own again.
    for resource in [limits::DATA, limits::ADDRESS_SPACE] {
        let apart = limits::apart(shared.header());
        let change = |limit| limits::own_limit(resource, limit, apart);
        let _ = ptrace::change_limit(remote.tid, resource, change);
    }
}

/// `arch_prctl(2)`.
const ARCH_SET_GS: u64 = 0x1001;

/// Maps image and tables; returns the descriptors in the target of the totals
/// file and of translations to use (`u64::MAX`: none). One descriptor at a time, as far as can be:
/// a program may be limited to few.
fn map_all(
    shared: &Shared,
    remote: &Remote,
    plan: &mut Plan,
    low: &mut u64,
) -> Result<(u64, u64), InjectError> {
    /// Bytes for `/proc/PID/fd/NUMBER` and the zero behind it.
    const PATH: usize = 32;
    let at = (remote.regs.rsp - 1024) & !15;
    remote.reach(at)?;
    let [totals, image] = shared.paths();
    let kept = plan.file.as_ref().map(|file| {
        let (process, file) = (std::process::id(), file.as_raw_fd());
        format!("/proc/{process}/fd/{file}\0")
    });
    let mut text = Vec::new();
    for path in [&image, &totals].into_iter().chain(&kept) {
        text.extend(path.as_bytes());
        text.resize(text.len().next_multiple_of(PATH), 0);
    }
    let open = |path: usize, flags: i32| {
        let what = "opening the engine's files through /proc";
        let flags = (flags | libc::O_CLOEXEC).unsigned_abs().into();
        let arguments = [at + (path * PATH) as u64, flags, 0, 0, 0, 0];
        Call::new(what, libc::SYS_open, arguments).flags(Call::GIVES)
    };
    let protect = {
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let arguments = [RUNTIME_BASE, shared.text, executable, 0, 0, 0];
        Call::new("mapping the engine", libc::SYS_mprotect, arguments)
    };
    let close = Call::new("closing a file", libc::SYS_close, [0; 6]).flags(Call::FIRST);
    let begun = [
        open(0, libc::O_RDWR),
        map(RUNTIME_BASE, FLAT, 0),
        protect,
        map(LOW[0], LOW_BYTES, FLAT),
        close,
        open(1, libc::O_RDWR),
        open(2, libc::O_RDONLY),
    ];
    let count = begun.len() - usize::from(kept.is_none());
    let calls = begun.get(..count).unwrap_or(&[]);
    let mut results = remote.calls(at, &text, calls)?.into_iter();
    let mut next = || results.next().unwrap_or(Err(InjectError::Gone));
    let (image, runtime, protected, first) = (next(), next(), next(), next());
    let (closed, totals) = (next(), next());
    // Refused (another user's process): it runs without.
    let cache_fd = next().unwrap_or(u64::MAX);
    if let Ok(place) = &first {
        *low = *place;
    }
    let mapped = image.and(runtime).and(protected).and(closed);
    let mapped = mapped.and_then(|_| match first {
        Ok(place) => Ok(place),
        Err(error) => {
            // Translations are kept for the usual place.
            *plan = Plan::default();
            let others = LOW.iter().skip(1).find_map(|&place| {
                let calls = [open(0, libc::O_RDWR), map(place, LOW_BYTES, FLAT), close];
                let results = remote.calls(at, &text, &calls).ok()?;
                results.into_iter().nth(1)?.ok()
            });
            others.ok_or(error)
        }
    });
    match (mapped, totals) {
        (Ok(place), Ok(totals)) => {
            *low = place;
            Ok((totals, cache_fd))
        }
        (mapped, totals) => {
            for fd in totals
                .iter()
                .copied()
                .chain((cache_fd != u64::MAX).then_some(cache_fd))
            {
                let arguments = [fd, 0, 0, 0, 0, 0];
                let _ = remote.call("closing a file", libc::SYS_close as u64, arguments);
            }
            Err(mapped.err().or(totals.err()).unwrap_or(InjectError::Gone))
        }
    }
}

/// Maps a part of the engine's image, privately, where the program has nothing.
fn map(at: u64, bytes: u64, offset: u64) -> Call {
    let flags = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
    let writable = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let arguments = [at, bytes, writable, flags, 0, offset];
    Call::new("mapping the engine", libc::SYS_mmap, arguments).flags(Call::FIFTH)
}

fn program_name(tid: i32) -> String {
    let path = std::fs::read_link(format!("/proc/{tid}/exe")).unwrap_or_default();
    match path.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => format!("pid {tid}"),
    }
}
