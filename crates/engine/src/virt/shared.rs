//! The files every process of a run maps: the totals, and the runtime's image.

use super::asked::{by_path, events_of_nodes, filtered, recent};
use super::context::{Mapped, MappedBytes, MappedContext, Windows};
use super::followers::Followers;
use super::image::{self, write_image};
use super::programs::Programs;
use super::random::RandomBytes;
use super::references::Levels;
use super::regions::Regions;
use super::store::Store;
use super::watched::Watched;
use super::{CommandLine, LaunchError};
use crate::layout::{
    CONTEXT_BYTES, COUNTERS, Context, Header, MAGIC, MAX_SLOTS, REGION, option, region_offset,
};
use crate::machine::{self, Machine};
use crate::regions::{HOOKS, Hook, MAX_HOOKS};
use crate::snapshot::hash;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The memfds of a run and the launcher's view of the header.
pub(super) struct Shared {
    totals: File,
    image: File,
    header: Mapped<Header>,
    /// Translations of earlier runs.
    pub store: Store,
    /// What is known of programs' files.
    pub programs: Programs,
    pub followers: Followers,
    windows: Windows,
    /// How often.
    replaced: AtomicU32,
    /// What is timed.
    pub watched: Option<Watched>,
    /// Which part of the run is counted.
    pub regions: Option<Regions>,
    /// What every image was executed as that began by `execve`, by its slot.
    pub commands: Mutex<BTreeMap<u32, CommandLine>>,
    /// The names of its chosen functions, by the image's slot.
    pub hooked: Mutex<BTreeMap<u32, Vec<String>>>,
    /// Bytes of code at the start of the image.
    pub text: u64,
    /// Replaces the kernel's random bytes of every image.
    pub random_bytes: RandomBytes,
    /// The vDSO is hidden from every image.
    pub hide_vdso: bool,
    /// What programs are shown.
    pub machine: Option<Machine>,
    /// What is behind the random devices.
    _random: Option<File>,
}

// SAFETY: the header is only used through atomics after construction.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

fn memfd(name: &std::ffi::CStr) -> Result<File, LaunchError> {
    // SAFETY: a valid name; the result is checked.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(LaunchError::Io {
            what: "creating shared memory (memfd_create)",
            error: io::Error::last_os_error(),
        });
    }
    // SAFETY: a descriptor that is ours.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The file behind the random devices: zeros without end, and in front pseudo-random bytes, which the runtime makes when
/// the first of them is opened (`runtime/machine.rs`): few programs do.
fn random_file() -> Result<File, LaunchError> {
    let file = memfd(c"truecount-random")?;
    file.set_len(1 << 40)
        .map_err(failed("making random bytes"))?;
    Ok(file)
}

/// A clock in nanoseconds, as the runtime reads it.
fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the structure.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
    move |error| LaunchError::Io { what, error }
}

/// [`Header::options`] of a run.
fn bits(options: &super::Options, blocks: bool, own_clock: bool) -> u32 {
    let calls = options.calls.filter(|_| options.times.is_none());
    let wanted = [
        (blocks, option::BLOCKS),
        (own_clock, option::CLOCK),
        (options.machine.is_some(), option::MACHINE),
        (options.own_random, option::RANDOM),
        (options.own_getrandom, option::GETRANDOM),
        (calls.is_some(), option::CALLS),
        (calls.is_some_and(|calls| calls.sites), option::SITES),
        (rotates(), option::ROTATES),
        (loops(), option::LOOPS),
        (options.in_turn, option::SCHEDULE),
        (options.regions.is_some(), option::REQUESTS),
    ];
    let bits = wanted.iter().filter(|(wanted, _)| *wanted);
    bits.fold(references(options), |all, (_, bit)| all | bit)
}

impl Shared {
    pub(super) fn new(options: &super::Options) -> Result<Self, LaunchError> {
        let plain = options.times.is_none();
        let cache = options.cache.clone().filter(|_| plain);
        let own_clock = options.own_clock || options.in_turn;
        let totals = memfd(c"truecount-totals")?;
        totals
            .set_len(u64::from(MAX_SLOTS) * REGION)
            .map_err(failed("sizing the totals file"))?;
        let random = options.own_random.then(random_file).transpose()?;
        let image = memfd(c"truecount-engine")?;
        let text = write_image(&image).map_err(failed("writing the engine's image"))?;
        let header = Mapped::<Header>::new(&totals, 0, size_of::<Header>())
            .map_err(failed("mapping the totals file"))?;
        // SAFETY: zeroed memory is a valid header; nobody else has it yet.
        unsafe {
            let h = header.at.as_ptr();
            (*h).magic = MAGIC;
            (*h).next_slot
                .store(1, std::sync::atomic::Ordering::Relaxed);
            (*h).launcher = std::process::id();
            (*h).saving.store(
                u32::from(cache.is_some()),
                std::sync::atomic::Ordering::Relaxed,
            );
            (*h).totals_fd = totals.as_raw_fd() as u32;
            (*h).image_fd = image.as_raw_fd() as u32;
            (*h).code_cache = options.code_cache;
            (*h).huge_pages = u32::from(huge_pages());
            let calls = options.calls.filter(|_| plain);
            let blocks =
                (options.per_block || calls.is_some() || options.references.is_some()) && plain;
            (*h).tree.limit = match calls.map_or(0, |calls| calls.nodes) {
                0 => crate::calls::MAX_NODES,
                some => some,
            };
            (*h).tree.events = calls.map_or([0; _], |calls| events_of_nodes(options, calls.events));
            (*h).apart = match plain && !blocks {
                true => CONTEXT_BYTES,
                false => REGION,
            };
            (*h).slot_limit = match options.slot_limit {
                0 => MAX_SLOTS,
                some => some,
            };
            (*h).reuse = u32::from(plain && !blocks);
            (*h).options = bits(options, blocks, own_clock);
            (*h).sets = recent(options)
                .as_ref()
                .map(Levels::sets)
                .unwrap_or_default();
            (*h).front = options.regions.as_ref().map_or(0, Regions::front);
            if let Some(machine) = &options.machine {
                machine.show(&mut (*h).shown);
            }
            if options.machine.is_some() || !machine::lists_pmu() {
                machine::show_pmu(&mut (*h).shown);
            }
            if let Some(file) = &random {
                machine::show_random(&mut (*h).shown);
                let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
                let place = &mut (*h).random_path;
                for (to, from) in place.iter_mut().zip(path.bytes()) {
                    *to = from;
                }
            }
            (*h).started = clock(libc::CLOCK_MONOTONIC);
            if let Some([first, limit]) = options.pids {
                let inputs = &(*h).inputs;
                inputs
                    .pid_limit
                    .store(limit, std::sync::atomic::Ordering::Relaxed);
                inputs
                    .next_pid
                    .store(first, std::sync::atomic::Ordering::Relaxed);
            }
            let now = clock(libc::CLOCK_REALTIME_COARSE);
            (*h).inputs
                .started
                .store(now, std::sync::atomic::Ordering::Relaxed);
            (*h).clock_behind = match options.clock_behind {
                0 => 30_000_000_000,
                some => some,
            };
        }
        Ok(Self {
            totals,
            image,
            header,
            store: Store::new(cache),
            programs: Programs::default(),
            followers: Followers::default(),
            windows: Windows::default(),
            replaced: AtomicU32::new(0),
            watched: options.times.clone(),
            regions: options.regions.clone(),
            commands: Mutex::default(),
            hooked: Mutex::default(),
            text,
            random_bytes: RandomBytes::new(options.at_random, options.in_turn),
            hide_vdso: options.hide_vdso || own_clock,
            machine: options.machine,
            _random: random,
        })
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: mapped as long as self lives; zeroed memory is valid.
        unsafe { self.header.at.as_ref() }
    }

    /// What decides which code is emitted.
    pub(super) fn emitted(&self) -> u64 {
        let header = self.header();
        let words = [header.options, header.shown.components];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for event in header.tree.events {
            bytes.extend(event.to_le_bytes());
        }
        let sets = &header.sets;
        for size in [sets.data, sets.code, sets.code_bits] {
            bytes.extend(size.to_le_bytes());
        }
        hash(0, &bytes)
    }

    /// A program has replaced another one.
    pub(super) fn replaced(&self) {
        /// From then on what is made once is worth it.
        const MANY: u32 = 16;
        if self.replaced.fetch_add(1, Relaxed) == MANY && self.header().huge_pages != 0 {
            image::gather(&self.image);
        }
    }

    /// Path under which a traced process can open a descriptor of ours.
    pub(super) fn paths(&self) -> [String; 2] {
        let pid = std::process::id();
        [&self.totals, &self.image].map(|f| format!("/proc/{pid}/fd/{}\0", f.as_raw_fd()))
    }

    /// Where a slot's region is in the totals file.
    pub(super) fn offset(&self, slot: u32) -> u64 {
        region_offset(slot, self.header().apart)
    }

    /// A copy of a slot's context as it is now.
    pub(super) fn context(&self, slot: u32) -> io::Result<Box<[u8; size_of::<Context>()]>> {
        let mut bytes = Box::new([0u8; size_of::<Context>()]);
        self.totals
            .read_exact_at(bytes.as_mut_slice(), self.offset(slot))?;
        Ok(bytes)
    }

    /// Words of a slot's region from `offset` on.
    pub(super) fn words(&self, slot: u32, offset: u64, count: usize) -> io::Result<Vec<u64>> {
        let mut words = Vec::new();
        self.append_words(slot, offset, count, &mut words)?;
        Ok(words)
    }

    /// As [`Shared::words`], behind what is there already.
    pub(super) fn append_words(
        &self,
        slot: u32,
        offset: u64,
        count: usize,
        words: &mut Vec<u64>,
    ) -> io::Result<()> {
        let before = words.len();
        words.reserve_exact(count);
        words.resize(before + count, 0);
        let new = words.get_mut(before..).unwrap_or(&mut []);
        // SAFETY: the same memory as bytes, of which every value is one of a word.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(new.as_mut_ptr().cast::<u8>(), count * 8) };
        let read = self.totals.read_exact_at(bytes, self.offset(slot) + offset);
        for word in new {
            *word = u64::from_le(*word);
        }
        if read.is_err() {
            words.truncate(before);
        }
        read
    }

    /// Writes into a slot's context. Through memory: a limit of the size of files (`RLIMIT_FSIZE`)
    /// concerns `write`, whatever the file is.
    pub(super) fn write(&self, slot: u32, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.map(slot)?.write(offset, bytes)
    }

    /// Leaves the hooks of an image where its runtime finds them.
    pub(super) fn write_hooks(&self, slot: u32, hooks: &[Hook]) -> io::Result<()> {
        if self.header().apart != REGION {
            return Ok(());
        }
        let hooks = hooks.get(..hooks.len().min(MAX_HOOKS)).unwrap_or(&[]);
        self.map_bytes(slot, u64::from(HOOKS), (COUNTERS - HOOKS) as usize)?
            .write(hooks);
        Ok(())
    }

    /// Nothing has been counted in this slot, nor will be.
    pub(super) fn forget(&self, slot: u32) {
        if self.write(slot, 0, &[0; size_of::<Context>()]).is_ok() {
            self.header().give_slot(slot);
        }
    }

    /// Reads bytes of a slot's region.
    pub(super) fn read_region(&self, slot: u32, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.totals.read_exact_at(into, self.offset(slot) + offset)
    }

    /// Maps bytes of a slot's region.
    pub(super) fn map_bytes(&self, slot: u32, offset: u64, len: usize) -> io::Result<MappedBytes> {
        MappedBytes::new(&self.totals, self.offset(slot) + offset, len)
    }

    /// Gives the memory of a part of a region back: nobody looks at it any more.
    pub(super) fn release(&self, slot: u32, offset: u64, len: usize) {
        let (Ok(at), Ok(len)) = (
            libc::off_t::try_from(self.offset(slot) + offset),
            libc::off_t::try_from(len),
        ) else {
            return;
        };
        // SAFETY: our own file; where its system cannot do that, the memory stays.
        unsafe {
            libc::fallocate(
                self.totals.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                at,
                len,
            );
        }
    }

    /// Maps a part of the totals file, if it has one there.
    pub(super) fn map_part(&self, offset: u64, len: usize) -> io::Result<MappedBytes> {
        // (Behind its end there is no memory.)
        if offset.saturating_add(len as u64) > self.totals.metadata()?.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        MappedBytes::new(&self.totals, offset, len)
    }

    /// Reads bytes of the totals file.
    pub(super) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.totals.read_exact_at(bytes, offset)
    }

    /// Reads what bytes there are, at most as many as wanted; how many.
    pub(super) fn read_some_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.totals.read_at(bytes, offset)
    }

    /// Maps a slot's context page for futex calls.
    pub(super) fn map(&self, slot: u32) -> io::Result<MappedContext> {
        match self.header().apart {
            CONTEXT_BYTES => self.windows.context(&self.totals, slot),
            _ => MappedContext::new(&self.totals, self.offset(slot)),
        }
    }
}

/// Option bits for a run that notes references.
fn references(options: &super::Options) -> u32 {
    let Some(references) = options.references.as_ref() else {
        return 0;
    };
    if options.times.is_some() {
        return 0;
    }
    /// `HWCAP2_FSGSBASE` (arch/x86/include/uapi/asm/hwcap2.h).
    const FSGSBASE: libc::c_ulong = 2;
    // SAFETY: reads the auxiliary vector.
    let reads_fs = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0;
    let bit = |on, bit| if on { bit } else { 0 };
    let without = |on, bit| if on { 0 } else { bit };
    let facts = filtered(options);
    let recent = recent(options);
    let predicted = recent.is_some_and(|levels| levels.branches && levels.predicted);
    let of_model = |is: fn(&Levels) -> bool| recent.as_ref().is_none_or(is);
    option::REFERENCES
        | bit(reads_fs, option::READS_FS)
        | bit(wide_masks(), option::WIDE_MASKS)
        | bit(references.allocations, option::ALLOCATIONS)
        | bit(facts.is_some(), option::FILTERED)
        | bit(by_path(options), option::BY_PATH)
        | without(facts.is_none_or(|facts| facts.lines), option::NO_LINES)
        | without(
            facts.is_none_or(|facts| facts.lines || facts.bytes),
            option::NO_BYTES,
        )
        | without(facts.is_none_or(|facts| facts.taken), option::NO_TAKEN)
        | bit(recent.is_some(), option::RECENT)
        | without(of_model(|levels| levels.data), option::NO_DATA)
        | without(of_model(|levels| levels.instructions), option::NO_FETCHES)
        | without(of_model(|levels| levels.branches), option::NO_BRANCHES)
        | bit(predicted, option::PREDICTED)
}

/// Whether the kernel gives huge pages to who asks for them (kernel `Documentation/admin-guide/mm/transhuge.rst`).
fn huge_pages() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|modes| !modes.contains("[never]"))
}

/// Whether this CPU has mask registers of 64 bits (AVX512BW).
fn wide_masks() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512bw");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Whether this CPU has `rorx` (BMI2).
fn rotates() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("bmi2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Whether this CPU's `loop` is fast: one of AMD's (or Hygon's) with `rorx` beside it, so no older than Excavator, whose
/// `loop` takes two operations and Zen's one (Intel's takes seven; Agner Fog's instruction tables).
fn loops() -> bool {
    #[cfg(target_arch = "x86_64")]
    let amd = {
        let name = core::arch::x86_64::__cpuid(0);
        let name = [name.ebx, name.edx, name.ecx]
            .map(u32::to_le_bytes)
            .concat();
        matches!(name.as_slice(), b"AuthenticAMD" | b"HygonGenuine")
    };
    #[cfg(not(target_arch = "x86_64"))]
    let amd = false;
    rotates() && amd
}
