//! What comes into the run from outside: everything but the content of regular files, arguments and environment, and what
//! is held constant. A run into which nothing came is the same again; of another one the table says what came, how often,
//! and where first.
//!
//! Facts: `inode(7)` (types of files), Documentation/admin-guide/devices.txt (numbers of devices), `statfs(2)` (types of
//! file systems), `stat(2)`, `statx(2)` (places of `st_ctim` and `stx_ctime`), `clone(2)`.

use crate::inputs::{DETAIL, Input, Inputs, NAME, Place, kind};
use crate::layout::Context;
use crate::syscall_table as nr;
use crate::{clock, machine, pids, program_memory, report, slots, sys, turns};
use core::fmt::Write;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

const FIFO: u32 = 0o010_000;
const CHARACTERS: u32 = 0o020_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SOCKET: u32 = 0o140_000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_NEWPID: u64 = 0x2000_0000;
/// Bit of [`crate::layout::Header::descriptors`].
const INHERITED: u32 = 2;

/// More bytes than the code of the dynamic loader has.
const LOADER_BYTES: u64 = 0x4_0000;

/// Where it begins, and its bytes.
static VDSO: AtomicU64 = AtomicU64::new(0);
static VDSO_BYTES: AtomicU64 = AtomicU64::new(0);
static LOADER: AtomicU64 = AtomicU64::new(0);

fn inputs() -> &'static Inputs {
    &slots::header().inputs
}

/// A new image begins. `stack`: its initial stack pointer.
pub fn start(stack: u64) {
    const AT_BASE: u64 = 7;
    const AT_SYSINFO_EHDR: u64 = 33;
    let word = |at: u64| program_memory::read::<u64>(at).ok_or(());
    for (key, place) in [(AT_SYSINFO_EHDR, &VDSO), (AT_BASE, &LOADER)] {
        if let Ok(Some(address)) = vector_entry(word, stack, key) {
            place.store(address, Relaxed);
        }
    }
    // The section headers are the end of the file: their offset, size and number (elf(5)).
    let vdso = VDSO.load(Relaxed);
    if vdso != 0
        && let Some(offset) = program_memory::read::<u64>(vdso + 0x28)
        && let Some([size, number]) = program_memory::read::<[u16; 2]>(vdso + 0x3a)
    {
        let bytes = offset + u64::from(size) * u64::from(number);
        VDSO_BYTES.store(bytes.next_multiple_of(0x1000), Relaxed);
    }
    let inputs = inputs();
    let own = sys::getpid();
    if inputs
        .last_pid
        .compare_exchange(0, own, AcqRel, Relaxed)
        .is_ok()
    {
        note_inherited(inputs);
    }
}

/// The value of an entry of the auxiliary vector.
fn vector_entry(
    word: impl Fn(u64) -> Result<u64, ()>,
    stack: u64,
    key: u64,
) -> Result<Option<u64>, ()> {
    let mut at = stack.wrapping_add(8 * (word(stack)? + 2));
    while word(at)? != 0 {
        at = at.wrapping_add(8);
    }
    at = at.wrapping_add(8);
    loop {
        match word(at)? {
            0 => return Ok(None),
            found if found == key => return word(at.wrapping_add(8)).map(Some),
            _ => at = at.wrapping_add(16),
        }
    }
}

/// Descriptors that are open already and can be read, but regular files and devices that say nothing.
fn note_inherited(inputs: &Inputs) {
    const F_GETFL: u64 = 3;
    const WRITES_ONLY: i64 = 1;
    for fd in 0..16 {
        // SAFETY: no memory.
        let flags = unsafe { sys::call(nr::FCNTL, [fd, F_GETFL, 0, 0, 0, 0]) };
        if flags < 0 || flags & 3 == WRITES_ONLY {
            continue;
        }
        let Some(stat) = stat_of(fd) else { continue };
        let from_outside = match type_of(&stat) {
            FIFO | SOCKET => true,
            CHARACTERS => device(&stat).is_some(),
            _ => false,
        };
        let known = inputs
            .inherited
            .iter()
            .any(|place| is_at(place, &stat) && place[1].load(Relaxed) != 0);
        let count = inputs.inherited_count.load(Relaxed);
        let Some(place) = inputs
            .inherited
            .get(count as usize)
            .filter(|_| from_outside && !known)
        else {
            continue;
        };
        for (word, value) in place.iter().zip([stat[0], stat[1], stat[5]]) {
            word.store(value, Relaxed);
        }
        inputs.inherited_count.store(count + 1, Release);
        slots::header().descriptors.fetch_or(INHERITED, Release);
    }
}

fn is_at(place: &[AtomicU64; 3], stat: &[u64; 18]) -> bool {
    place
        .iter()
        .zip([stat[0], stat[1], stat[5]])
        .all(|(word, value)| word.load(Relaxed) == value)
}

/// `struct stat`, as words.
fn stat_of(fd: u64) -> Option<[u64; 18]> {
    let mut stat = [0u64; 18];
    // SAFETY: fstat into struct stat's 144 bytes.
    let result = unsafe { sys::call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    (result == 0).then_some(stat)
}

fn type_of(stat: &[u64; 18]) -> u32 {
    stat[3] as u32 & 0o170_000
}

/// What a device gives; `None`: always the same.
fn device(stat: &[u64; 18]) -> Option<usize> {
    // Minor numbers above 255 are elsewhere: none of these.
    match (stat[5] >> 8 & 0xfff, stat[5] & 0xff) {
        (1, 3 | 5 | 7) => None,
        (1, 8 | 9) => Some(kind::RANDOM_DEVICE),
        _ => Some(kind::DEVICE),
    }
}

/// A call that the program is about to make.
pub fn before(context: &Context, number: u64, a: [u64; 6]) {
    let own_clock = || clock::answers(number, &a);
    let which = match number {
        nr::GETRANDOM => kind::GETRANDOM,
        nr::CLOCK_GETTIME | nr::GETTIMEOFDAY | nr::TIME | nr::TIMES | nr::GETRUSAGE
            if !own_clock() =>
        {
            kind::CLOCK
        }
        // With the times of children.
        nr::WAIT4 if a[3] != 0 => kind::CLOCK,
        nr::WAITID if a[4] != 0 => kind::CLOCK,
        nr::GETPID | nr::GETTID | nr::GETPPID | nr::GETPGRP | nr::GETPGID | nr::GETSID => kind::PID,
        nr::SYSINFO if !machine::on() => kind::MEMORY,
        nr::GETCPU if !machine::on() => kind::CPU,
        nr::SETITIMER | nr::ALARM | nr::TIMER_SETTIME | nr::TIMERFD_SETTIME if !turns::on() => {
            kind::TIMER
        }
        nr::SOCKET if !is_followed_socket(a) => kind::SOCKET,
        nr::ACCEPT | nr::ACCEPT4 => kind::ACCEPTED,
        nr::CONNECT => return connects(context, a),
        nr::POLL | nr::PPOLL => return polls(context, number, a),
        nr::SELECT | nr::PSELECT6 => return selects(context, number, a),
        nr::EPOLL_CTL => return reads(context, number, a[2]),
        nr::SENDFILE => return reads(context, number, a[1]),
        nr::IOCTL if !matches!(a[1], 0x5413 | 0x541b) => return,
        nr::READ
        | nr::PREAD64
        | nr::READV
        | nr::PREADV
        | nr::PREADV2
        | nr::RECVFROM
        | nr::RECVMSG
        | nr::RECVMMSG
        | nr::SPLICE
        | nr::TEE
        | nr::IOCTL => {
            return reads(context, number, a[0]);
        }
        nr::SYSLOG
        | nr::MINCORE
        | nr::CACHESTAT
        | nr::IO_SETUP
        | nr::IO_URING_SETUP
        | nr::INOTIFY_INIT
        | nr::INOTIFY_INIT1
        | nr::FANOTIFY_INIT
        | nr::USERFAULTFD
        | nr::SHMGET
        | nr::MSGGET
        | nr::SEMGET
        | nr::MQ_OPEN
        | nr::KEYCTL
        | nr::NAME_TO_HANDLE_AT => kind::CALL,
        _ => return,
    };
    note(context, which, name_of(number));
}

/// What a call gave that [`nr::is_followed`], or that opens or makes something.
pub fn after(context: &Context, number: u64, a: [u64; 6], result: i64) {
    match number {
        nr::OPEN | nr::OPENAT | nr::OPENAT2 if result >= 0 => {
            // What is answered here says nothing of this machine.
            if number == nr::OPENAT2 || !machine::answers(number, &a) {
                opened(context, result as u64);
            }
        }
        nr::STAT | nr::LSTAT if result == 0 => written_meanwhile(context, number, a[1], 24, 104),
        nr::NEWFSTATAT if result == 0 && a[3] & 0x1000 == 0 => {
            written_meanwhile(context, number, a[2], 24, 104);
        }
        nr::STATX if result == 0 && a[2] & 0x1000 == 0 => {
            written_meanwhile(context, number, a[4], 28, 96);
        }
        nr::STATFS if result == 0 && !machine::answers(number, &a) => {
            note(context, kind::FREE_SPACE, name_of(number));
        }
        nr::BIND if result == 0 => {
            if let Some(hash) = address_at(a[1], a[2]) {
                add_address(hash);
            }
        }
        nr::LISTEN if result == 0 => {
            let (mut bytes, mut length) = ([0u64; 16], 128u32);
            let to = [bytes.as_mut_ptr() as u64, &raw mut length as u64];
            // SAFETY: getsockname into locals.
            let named = unsafe { sys::call(nr::GETSOCKNAME, [a[0], to[0], to[1], 0, 0, 0]) };
            if named == 0 {
                add_address(hash_of(&bytes.map(u64::to_ne_bytes).concat_bytes(), length));
            }
        }
        // What follows may be forbidden from here on.
        nr::SECCOMP if result == 0 => pids::give_up(),
        nr::PRCTL if result == 0 && a[0] == 22 => pids::give_up(),
        nr::CLONE | nr::CLONE3 | nr::FORK | nr::VFORK if result > 0 => {
            made(context, number, a, result as u32);
        }
        _ => {}
    }
}

/// Words to bytes.
trait Concat {
    fn concat_bytes(self) -> [u8; 128];
}

impl Concat for [[u8; 8]; 16] {
    fn concat_bytes(self) -> [u8; 128] {
        let mut all = [0; 128];
        for (to, from) in all.chunks_exact_mut(8).zip(self) {
            to.copy_from_slice(&from);
        }
        all
    }
}

/// An instruction of the program at `pc`: the time stamp counter.
pub fn stamp(context: &Context, pc: u64) {
    // The loader takes the time for LD_DEBUG=statistics, in every program; nothing else comes of it.
    let loader = LOADER.load(Relaxed);
    let by_the_loader = loader != 0 && pc.wrapping_sub(loader) < LOADER_BYTES;
    if clock::on() || by_the_loader {
        return;
    }
    let which = if in_vdso(pc) { kind::VDSO } else { kind::TSC };
    note(context, which, b"rdtsc");
}

/// `rdrand`, `rdseed`.
pub fn random(context: &Context) {
    if !machine::own_random() {
        note(context, kind::RDRAND, b"rdrand");
    }
}

/// An instruction that needs a feature which is hidden is about to be executed.
pub fn hidden(name: &str) {
    // SAFETY: this thread's context, where the program's state is.
    let context = unsafe { &*slots::current() };
    note(context, kind::HIDDEN, name.as_bytes());
}

/// Whether an address is in the vDSO, which reads the clock.
pub fn in_vdso(pc: u64) -> bool {
    let base = VDSO.load(Relaxed);
    base != 0 && pc.wrapping_sub(base) < VDSO_BYTES.load(Relaxed)
}

/// Code of the vDSO is about to be executed: some of it reads the time without the time stamp counter.
pub fn enters_vdso(context: &Context) {
    if inputs().all[kind::VDSO].times.load(Relaxed) == 0 {
        note(context, kind::VDSO, b"vDSO");
    }
}

/// A signal that is no fault is about to be handled. `code`: who sent it, `sender`: the sender's PID.
pub fn signalled(signal: u32, code: i32, sender: u32) {
    const SIGALRM: u32 = 14;
    const SIGCHLD: u32 = 17;
    const TIMERS: [u32; 3] = [SIGALRM, 26, 27];
    const SI_TIMER: i32 = -2;
    let own = matches!(code, 0 | -1 | -6) && sender == sys::getpid();
    // The others are told of where they come from.
    if turns::on() || own || signal == SIGCHLD || code == SI_TIMER || TIMERS.contains(&signal) {
        return;
    }
    let mut text = report::Text::new();
    let _ = write!(text, "signal {signal}");
    count(kind::SIGNAL, text.bytes(), None);
}

/// An open whose result says whether something comes in: of a device, or a file of the kernel's. (Others may wait.)
pub fn follows(context: &Context, number: u64, a: [u64; 6]) -> bool {
    const AT_FDCWD: u64 = -100i64 as u64;
    /// Where nothing of the kind is, and most of what programs open.
    const PLAIN: [&[u8]; 4] = [b"/usr/", b"/lib", b"/etc/", b"/bin/"];
    let (directory, path) = match number {
        nr::OPEN => (AT_FDCWD, a[0]),
        nr::OPENAT => (a[0], a[1]),
        _ => return false,
    };
    let start = program_memory::read::<[u8; 5]>(path);
    if start.is_some_and(|start| PLAIN.iter().any(|plain| start.starts_with(plain)))
        || machine::answers(number, &a)
    {
        return false;
    }
    let mut stat = [0u64; 18];
    let at = stat.as_mut_ptr() as u64;
    // SAFETY: newfstatat of the program's path, which the kernel checks, into struct stat's 144 bytes.
    if unsafe { sys::call(nr::NEWFSTATAT, [directory, path, at, 0, 0, 0]) } != 0 {
        return false;
    }
    match type_of(&stat) {
        CHARACTERS => true,
        FIFO => {
            if !turns::on() {
                note(context, kind::NAMED_PIPE, b"");
            }
            false
        }
        REGULAR | DIRECTORY => is_of_no_device(&stat),
        _ => false,
    }
}

/// Sockets of whose connections the other end is looked at.
fn is_followed_socket(a: [u64; 6]) -> bool {
    const UNIX: u64 = 1;
    const STREAM: u64 = 1;
    match a[0] {
        UNIX => true,
        2 | 10 => a[1] & 0xf == STREAM,
        _ => false,
    }
}

/// A connection, to a socket of the run or to another.
fn connects(context: &Context, a: [u64; 6]) {
    const ACCESS: u64 = nr::ACCESS;
    let Some(hash) = address_at(a[1], a[2]) else {
        return;
    };
    if inputs()
        .addresses
        .iter()
        .any(|known| known.load(Acquire) == hash)
    {
        inputs().connected.fetch_add(1, Relaxed);
        return;
    }
    // Where there is nobody to answer, nothing comes.
    let family = program_memory::read::<u16>(a[1]);
    let first = program_memory::read::<u8>(a[1] + 2);
    if family == Some(1) && first != Some(0) {
        // SAFETY: access(2) of the path in the address, which the kernel checks.
        let there = unsafe { sys::call(ACCESS, [a[1] + 2, 0, 0, 0, 0, 0]) };
        if there != 0 {
            return;
        }
    }
    note(context, kind::SOCKET, b"connect");
}

/// A hash of an address: of internet addresses the port.
fn hash_of(bytes: &[u8; 128], length: u32) -> u64 {
    let length = match u16::from_ne_bytes([bytes[0], bytes[1]]) {
        2 | 10 => {
            return u64::from(u16::from_be_bytes([bytes[2], bytes[3]])) | 1 << 32;
        }
        _ => length.min(128) as usize,
    };
    let bytes = bytes.get(..length).unwrap_or(&[]);
    // FNV-1a; a path's terminator does not belong to it.
    let end = bytes.len() - usize::from(bytes.len() > 3 && bytes.last() == Some(&0));
    bytes
        .iter()
        .take(end)
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        })
}

fn address_at(at: u64, length: u64) -> Option<u64> {
    let mut bytes = [0u8; 128];
    let length = length.min(128) as usize;
    let place = bytes.get_mut(..length)?;
    (length >= 4 && program_memory::read_bytes(place, at)).then(|| hash_of(&bytes, length as u32))
}

fn add_address(hash: u64) {
    for place in &inputs().addresses {
        if place.load(Relaxed) == hash || place.compare_exchange(0, hash, AcqRel, Relaxed).is_ok() {
            return;
        }
    }
}

/// Whether there is any descriptor that brings in something.
fn inherits() -> bool {
    slots::header().descriptors.load(Relaxed) & INHERITED != 0
}

/// A call that reads from a descriptor, or asks whether there is something to read.
fn reads(context: &Context, number: u64, fd: u64) {
    if !inherits() {
        return;
    }
    let Some(stat) = stat_of(fd) else { return };
    let count = inputs().inherited_count.load(Acquire) as usize;
    if !inputs()
        .inherited
        .iter()
        .take(count)
        .any(|place| is_at(place, &stat))
    {
        return;
    }
    let mut text = report::Text::new();
    let name = core::str::from_utf8(name_of(number)).unwrap_or("");
    let what = match type_of(&stat) {
        FIFO => "a pipe",
        SOCKET => "a socket",
        _ => "a device",
    };
    let _ = write!(text, "descriptor {fd}, {what}, {name}");
    note(context, kind::INHERITED, text.bytes());
}

/// poll and its kin.
fn polls(context: &Context, number: u64, a: [u64; 6]) {
    const IN: u64 = 1;
    if !inherits() {
        return;
    }
    for at in 0..a[1].min(64) {
        let Some(entry) = program_memory::read::<u64>(a[0] + 8 * at) else {
            return;
        };
        if entry >> 32 & IN != 0 {
            reads(context, number, entry & 0xffff_ffff);
        }
    }
}

/// select and its kin.
fn selects(context: &Context, number: u64, a: [u64; 6]) {
    if !inherits() || a[1] == 0 {
        return;
    }
    if let Some(set) = program_memory::read::<u64>(a[1]) {
        for fd in (0..a[0].min(64)).filter(|fd| set >> fd & 1 != 0) {
            reads(context, number, fd);
        }
    }
}

/// What was opened.
fn opened(context: &Context, fd: u64) {
    let Some(stat) = stat_of(fd) else { return };
    let named = |which| {
        let mut path = [0u8; DETAIL];
        let length = path_of(fd, &mut path);
        note(context, which, path.get(..length).unwrap_or(&[]));
    };
    match type_of(&stat) {
        CHARACTERS => {
            if let Some(which) = device(&stat) {
                named(which);
            }
        }
        REGULAR | DIRECTORY if tells_of_the_kernel(fd, &stat) => named(kind::KERNEL_FILE),
        _ => {}
    }
}

/// The path of a descriptor; its length.
fn path_of(fd: u64, path: &mut [u8]) -> usize {
    let mut link = report::Text::new();
    let _ = write!(link, "/proc/self/fd/{fd}\0");
    let to = [path.as_mut_ptr() as u64, path.len() as u64];
    // SAFETY: readlink of our path into the slice.
    let length = unsafe {
        sys::call(
            nr::READLINK,
            [link.bytes().as_ptr() as u64, to[0], to[1], 0, 0, 0],
        )
    };
    usize::try_from(length).unwrap_or(0)
}

/// File systems of no device have major number 0; files of the kernel's have no blocks.
fn is_of_no_device(stat: &[u64; 18]) -> bool {
    stat[0] >> 8 & 0xfff == 0 && stat[8] == 0
}

/// Whether a file is the kernel's own word on what goes on, and not a setting that stays.
fn tells_of_the_kernel(fd: u64, stat: &[u64; 18]) -> bool {
    // proc, sysfs, cgroup2, cgroup, debugfs, tracefs.
    const TYPES: [u64; 6] = [
        0x9fa0,
        0x6265_6572,
        0x6367_7270,
        0x0027_e0eb,
        0x6462_6720,
        0x7472_6163,
    ];
    if !is_of_no_device(stat) {
        return false;
    }
    let mut system = [0u64; 15];
    // SAFETY: fstatfs into struct statfs's 120 bytes.
    let result = unsafe { sys::call(nr::FSTATFS, [fd, system.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    if result != 0 || !TYPES.contains(&system[0]) {
        return false;
    }
    let mut path = [0u8; DETAIL];
    let length = path_of(fd, &mut path);
    let path = path.get(..length).unwrap_or(&[]);
    !stays(path)
}

/// Files of the kernel that say the same as long as nobody changes the machine, or that the runtime answers.
fn stays(path: &[u8]) -> bool {
    const SETTINGS: [&[u8]; 12] = [
        b"/proc/sys/",
        b"/proc/filesystems",
        b"/proc/version",
        b"/proc/cmdline",
        b"/proc/mounts",
        b"/proc/devices",
        b"/sys/devices/system/cpu/online",
        b"/sys/devices/system/cpu/possible",
        b"/sys/devices/system/cpu/present",
        b"/sys/devices/system/cpu/kernel_max",
        b"/sys/devices/system/node/",
        b"/sys/kernel/mm/",
    ];
    const OF_A_PROCESS: [&[u8]; 12] = [
        b"maps",
        b"mounts",
        b"mountinfo",
        b"cmdline",
        b"environ",
        b"comm",
        b"fd",
        b"auxv",
        b"cgroup",
        b"limits",
        b"oom_score_adj",
        b"exe",
    ];
    if SETTINGS.iter().any(|setting| path.starts_with(setting)) {
        return true;
    }
    if path.starts_with(b"/sys/fs/cgroup") {
        return path.ends_with(b".max")
            || path.ends_with(b"_quota_us")
            || path.ends_with(b"_period_us");
    }
    if path.starts_with(b"/sys/devices/system/cpu/") {
        return [&b"/topology/"[..], b"/cache/"]
            .iter()
            .any(|part| path.windows(part.len()).any(|window| window == *part));
    }
    // Of the process itself.
    let Some(rest) = path.strip_prefix(b"/proc/") else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = rest.split_at(digits);
    let number = number.iter().fold(0u32, |value, digit| {
        value.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
    });
    let is_own = digits > 0 && number == sys::getpid();
    is_own
        && rest
            .strip_prefix(b"/")
            .is_some_and(|name| OF_A_PROCESS.contains(&name))
}

/// A file's times were asked for: whether it was changed since the run began, by the clock of the machine.
fn written_meanwhile(context: &Context, number: u64, at: u64, mode_at: u64, time_at: u64) {
    let Some(mode) = program_memory::read::<u16>(at.wrapping_add(mode_at)) else {
        return;
    };
    let Some(seconds) = program_memory::read::<u64>(at.wrapping_add(time_at)) else {
        return;
    };
    let Some(rest) = program_memory::read::<u32>(at.wrapping_add(time_at + 8)) else {
        return;
    };
    let changed = seconds
        .wrapping_mul(clock::SECOND)
        .wrapping_add(u64::from(rest));
    if u32::from(mode) & 0o170_000 == REGULAR && changed >= inputs().started.load(Relaxed) {
        note(context, kind::FILE_TIMES, name_of(number));
    }
}

/// A number that was to be given has somebody else.
pub fn number_taken() {
    count(kind::PID_GAP, b"clone3", None);
}

/// A thread or a process was made.
fn made(context: &Context, number: u64, a: [u64; 6], pid: u32) {
    let flags = match number {
        nr::CLONE => a[0],
        nr::CLONE3 => program_memory::read::<u64>(a[0]).unwrap_or(0),
        _ => 0,
    };
    if flags & CLONE_NEWPID == 0 && !pids::given() {
        let last = inputs().last_pid.fetch_max(pid, AcqRel);
        if pid != last.wrapping_add(1) {
            note(context, kind::PID_GAP, name_of(number));
            inputs().last_pid.store(pid, Release);
        }
    }
    if flags & CLONE_THREAD == 0 {
        note(context, kind::PID, name_of(number));
    }
    if !turns::on() {
        let which = match flags & CLONE_THREAD {
            0 => kind::PROCESSES,
            _ => kind::THREADS,
        };
        note(context, which, name_of(number));
    }
}

/// A call's name in capitals.
fn name_of(number: u64) -> &'static [u8] {
    nr::TABLE
        .iter()
        .find(|call| call.number == number)
        .map_or(b"", |call| call.name.as_bytes())
}

/// Once more, with the place where the program is.
fn note(context: &Context, which: usize, detail: &[u8]) {
    count(which, detail, Some(context));
}

fn count(which: usize, detail: &[u8], context: Option<&Context>) {
    let Some(input) = inputs().all.get(which) else {
        return;
    };
    input.times.fetch_add(1, Relaxed);
    if input.claimed.load(Relaxed) != 0
        || input
            .claimed
            .compare_exchange(0, 1, AcqRel, Relaxed)
            .is_err()
    {
        return;
    }
    store(&input.detail, detail);
    if let Some(context) = context {
        place(context, input);
    }
    input.known.store(1, Release);
}

fn store(to: &[AtomicU8], bytes: &[u8]) {
    let room = to.split_last().map_or(&[][..], |(_zero, room)| room);
    for (to, &byte) in room.iter().zip(bytes) {
        to.store(byte, Relaxed);
    }
}

/// Words of the stack that are looked at for return addresses.
const WORDS: usize = 192;

/// Finds the instruction, and who called the C library where it is in that: the first word of the stack that is behind a
/// call in another file.
fn place(context: &Context, input: &Input) {
    let mut stack = [0u64; WORDS];
    let mut words = 0;
    for (at, word) in stack.iter_mut().enumerate() {
        match program_memory::read(context.regs[4].wrapping_add(8 * at as u64)) {
            Some(value) => *word = value,
            None => break,
        }
        words = at + 1;
    }
    let stack = stack.get(..words).unwrap_or(&[]);
    let mut nearest = WORDS;
    mappings(|start, end, offset, file| {
        if (start..end).contains(&context.pc) {
            fill(&input.place, context.pc - start + offset, file);
            return;
        }
        if is_of_the_c_library(file) {
            return;
        }
        let found = stack
            .iter()
            .take(nearest)
            .position(|word| (start..end).contains(word) && follows_a_call(*word));
        if let Some(found) = found {
            nearest = found;
            let word = stack.get(found).copied().unwrap_or(start);
            fill(&input.caller, word - start + offset - 1, file);
        }
    });
}

fn fill(place: &Place, offset: u64, file: &[u8]) {
    place.offset.store(offset, Relaxed);
    for byte in &place.file {
        byte.store(0, Relaxed);
    }
    store(&place.file, file.get(..file.len().min(NAME)).unwrap_or(&[]));
}

fn is_of_the_c_library(file: &[u8]) -> bool {
    let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or(file);
    [
        &b"libc.so"[..],
        b"libc-",
        b"ld-",
        b"ld.so",
        b"libpthread",
        b"[",
    ]
    .iter()
    .any(|start| name.starts_with(start))
}

/// Whether the instruction in front of an address is a call: `e8`, or `ff /2` of two, three, six or seven bytes.
fn follows_a_call(address: u64) -> bool {
    let Some(bytes) = program_memory::read::<[u8; 7]>(address.wrapping_sub(7)) else {
        return false;
    };
    let indirect = |at: usize| bytes[at] == 0xff && bytes[at + 1] >> 3 & 7 == 2;
    bytes[2] == 0xe8 || indirect(5) || indirect(4) || indirect(1) || indirect(0)
}

/// Calls `each` with start, end, offset and name of every executable mapping of a file.
fn mappings(mut each: impl FnMut(u64, u64, u64, &[u8])) {
    crate::lines::of(c"/proc/self/maps", |line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let mut ends = fields.next()?.split(|&byte| byte == b'-').map(hex);
        let (start, end) = (ends.next()?, ends.next()?);
        if fields.next()?.get(2) != Some(&b'x') {
            return None;
        }
        let offset = hex(fields.next()?);
        let name = line
            .iter()
            .position(|&byte| byte == b'/' || byte == b'[')
            .and_then(|at| line.get(at..))?;
        each(start, end, offset, name);
        Some(())
    });
}

fn hex(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, &digit| {
        value << 4
            | u64::from(match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => 0,
            })
    })
}
