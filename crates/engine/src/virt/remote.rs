//! System calls that a stopped process makes for us: its own instruction, its registers set to what we want.

use super::ptrace::{self, Event, Regs};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::iter::zip;
use std::os::unix::fs::FileExt;

/// What went wrong, and where.
#[derive(Debug)]
pub(super) enum InjectError {
    /// The image is not 64-bit.
    NotX86_64,
    /// The process is gone.
    Gone,
    /// The runtime cannot set itself up in it.
    Start(String),
    /// A step failed.
    Step(&'static str, io::Error),
}

pub(super) fn step<T>(what: &'static str, result: io::Result<T>) -> Result<T, InjectError> {
    result.map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => InjectError::Gone,
        _ => InjectError::Step(what, error),
    })
}

/// One call, and `syscall; int3; …`, then the loop over a list of [`Call`]s at RBX, R13 of them:
/// ```text
/// mov rax,[rbx]      mov rdi,[rbx+8]   mov rsi,[rbx+16]  mov rdx,[rbx+24]
/// mov r10,[rbx+32]   mov r8,[rbx+40]   mov r9,[rbx+48]   mov ebp,[rbx+56]
/// test bpl,1         cmovnz r8,r12     test bpl,2        cmovnz rdi,r12
/// syscall            mov [rbx],rax     test bpl,4        cmovnz r12,rax
/// add rbx,64         dec r13d          jnz …             int3
/// ```
const CODE: [u8; 80] = [
    0x0f, 0x05, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, //
    0x48, 0x8b, 0x03, 0x48, 0x8b, 0x7b, 0x08, 0x48, 0x8b, 0x73, 0x10, 0x48, 0x8b, 0x53,
    0x18, //
    0x4c, 0x8b, 0x53, 0x20, 0x4c, 0x8b, 0x43, 0x28, 0x4c, 0x8b, 0x4b, 0x30, 0x8b, 0x6b,
    0x38, //
    0x40, 0xf6, 0xc5, 0x01, 0x4d, 0x0f, 0x45, 0xc4, 0x40, 0xf6, 0xc5, 0x02, 0x49, 0x0f, 0x45,
    0xfc, //
    0x0f, 0x05, 0x48, 0x89, 0x03, 0x40, 0xf6, 0xc5, 0x04, 0x4c, 0x0f, 0x45, 0xe0, //
    0x48, 0x83, 0xc3, 0x40, 0x41, 0xff, 0xcd, 0x75, 0xbc, 0xcc, 0xcc, 0xcc, 0xcc,
];
/// Where the loop begins.
const LOOP: u64 = 8;

/// One call of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    what: &'static str,
    number: u64,
    arguments: [u64; 6],
    flags: u64,
}

/// Bytes of a call as the process finds it: number (then its result), arguments, flags.
const CALL_BYTES: usize = 64;

impl Call {
    /// The fifth argument is what the last call with [`Call::GIVES`] gave.
    pub(super) const FIFTH: u64 = 1;
    /// The first one is.
    pub(super) const FIRST: u64 = 2;
    pub(super) const GIVES: u64 = 4;

    pub(super) fn new(what: &'static str, number: libc::c_long, arguments: [u64; 6]) -> Self {
        Self {
            what,
            number: number.cast_unsigned(),
            arguments,
            flags: 0,
        }
    }

    pub(super) fn flags(self, flags: u64) -> Self {
        Self { flags, ..self }
    }
}

/// The errors of the kernel are the last 4,095 values.
fn result(what: &'static str, value: u64) -> Result<u64, InjectError> {
    match i32::try_from(value.wrapping_neg()) {
        Ok(errno) if errno > 0 && errno < 4096 => {
            Err(InjectError::Step(what, io::Error::from_raw_os_error(errno)))
        }
        _ => Ok(value),
    }
}

/// A process at its first instruction.
pub(super) struct Remote {
    pub(super) tid: i32,
    pub(super) regs: Regs,
    /// A SIGTRAP that was pending before.
    pub(super) sent: Cell<Option<libc::siginfo_t>>,
    /// Where the code is that makes the calls: in the page of the first instruction, which can be executed.
    code: u64,
    original: [u8; CODE.len()],
    /// Its memory, whatever its protection; `None` where the kernel refuses that (Yama does not, some containers do).
    memory: Option<File>,
}

impl Remote {
    pub(super) fn new(tid: i32, regs: Regs) -> Result<Self, InjectError> {
        let page_end = (regs.rip | 0xfff) + 1;
        let code = regs.rip.min(page_end - CODE.len() as u64);
        let path = format!("/proc/{tid}/mem");
        let memory = File::options().read(true).write(true).open(path).ok();
        let mut original = [0; CODE.len()];
        let read = memory
            .as_ref()
            .map(|m| m.read_exact_at(&mut original, code));
        if !matches!(read, Some(Ok(()))) {
            for (at, word) in original.chunks_exact_mut(8).enumerate() {
                let value = step("reading code", ptrace::peek(tid, code + 8 * at as u64))?;
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        Ok(Self {
            tid,
            regs,
            sent: Cell::new(None),
            code,
            original,
            memory,
        })
    }

    fn poke(&self, bytes: &[u8; CODE.len()]) -> io::Result<()> {
        let written = self
            .memory
            .as_ref()
            .map(|m| m.write_all_at(bytes, self.code));
        if matches!(written, Some(Ok(()))) {
            return Ok(());
        }
        let (words, _) = bytes.as_chunks::<8>();
        for (at, word) in words.iter().enumerate() {
            ptrace::poke(
                self.tid,
                self.code + 8 * at as u64,
                i64::from_le_bytes(*word),
            )?;
        }
        Ok(())
    }

    /// Puts the code there that makes the calls.
    pub(super) fn enter(&self) -> Result<(), InjectError> {
        step("writing code", self.poke(&CODE))
    }

    /// The program's code and registers are as they were.
    pub(super) fn leave(&self) -> Result<(), InjectError> {
        let code = step("restoring code", self.poke(&self.original));
        let regs = ptrace::set_regs(self.tid, &self.regs);
        code.and(step("restoring registers", regs))
    }

    /// Makes the process execute one system call.
    pub(super) fn call(
        &self,
        what: &'static str,
        number: u64,
        a: [u64; 6],
    ) -> Result<u64, InjectError> {
        let mut regs = self.regs;
        regs.rip = self.code;
        regs.rax = number;
        regs.orig_rax = u64::MAX;
        (regs.rdi, regs.rsi, regs.rdx) = (a[0], a[1], a[2]);
        (regs.r10, regs.r8, regs.r9) = (a[3], a[4], a[5]);
        self.run(what, &regs)?;
        result(what, step(what, ptrace::regs(self.tid))?.rax)
    }

    /// Has the stack reach down to `at`. With more than 128 kB of pointers to arguments and environment it ends in the page
    /// of the stack pointer; the kernel lets it grow for the process's own accesses only, since Linux 6.5.
    pub(super) fn reach(&self, at: u64) -> Result<(), InjectError> {
        if ptrace::read(self.tid, at, 1).is_ok() {
            return Ok(());
        }
        let what = "extending the stack";
        let at = at & !7;
        // It writes a word there. (The list of this one call is where arguments begin, for that long.)
        let touches = Call::new(what, libc::SYS_rt_sigpending, [at, 8, 0, 0, 0, 0]);
        let begin = self.regs.rsp;
        let before = step(what, ptrace::read(self.tid, begin, CALL_BYTES))?;
        let results = self.calls(begin, &[], &[touches])?;
        step(what, ptrace::write(self.tid, begin, &before))?;
        results.into_iter().collect::<Result<Vec<_>, _>>()?;
        step(what, ptrace::write(self.tid, at, &[0; 8]))
    }

    /// Makes it execute several, one after the other whatever they give, with one stop behind the last. What
    /// they read, and their list behind that, lie at `at` meanwhile. Their results.
    pub(super) fn calls(
        &self,
        at: u64,
        text: &[u8],
        calls: &[Call],
    ) -> Result<Vec<Result<u64, InjectError>>, InjectError> {
        let what = "making system calls in the program";
        let mut bytes = text.to_vec();
        for call in calls {
            bytes.extend(call.number.to_le_bytes());
            bytes.extend(call.arguments.iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend(call.flags.to_le_bytes());
        }
        let list = at + text.len() as u64;
        step(what, ptrace::write(self.tid, at, &bytes))?;
        let mut regs = self.regs;
        regs.rip = self.code + LOOP;
        // (Its `execve` may still be under way: that puts its result into RAX, which the loop does not mind.)
        regs.orig_rax = u64::MAX;
        (regs.rbx, regs.r13) = (list, calls.len() as u64);
        self.run(what, &regs)?;
        let after = step(what, ptrace::read(self.tid, list, CALL_BYTES * calls.len()))?;
        bytes.fill(0);
        step(what, ptrace::write(self.tid, at, &bytes))?;
        let (words, _) = after.as_chunks::<8>();
        let numbers = words.iter().step_by(CALL_BYTES / 8);
        let results: Vec<_> = zip(calls, numbers)
            .map(|(call, number)| result(call.what, u64::from_le_bytes(*number)))
            .collect();
        match results.len() == calls.len() {
            true => Ok(results),
            false => Err(InjectError::Gone),
        }
    }

    /// Runs from `regs` to the breakpoint.
    fn run(&self, what: &'static str, regs: &Regs) -> Result<(), InjectError> {
        step(what, ptrace::set_regs(self.tid, regs))?;
        step(what, ptrace::resume(self.tid, 0))?;
        loop {
            match step(what, ptrace::wait())? {
                Event::Signal(tid, libc::SIGTRAP) => match ptrace::sent(tid) {
                    None => break,
                    sent => {
                        self.sent.set(sent);
                        step(what, ptrace::resume(tid, 0))?;
                    }
                },
                Event::Gone(_) => return Err(InjectError::Gone),
                Event::Group(tid) => step(what, ptrace::listen(tid))?,
                Event::Exec(tid) => step(what, ptrace::resume(tid, 0))?,
                Event::Signal(tid, signal) => step(what, ptrace::resume(tid, signal))?,
            }
        }
        Ok(())
    }
}
