//! The files every process of a run maps: the totals, and the runtime's image.

use super::LaunchError;
use super::store::Store;
use crate::layout::{
    BOOT_STACK, Context, Header, MAGIC, MAX_SLOTS, REGION, RUNTIME_BASE, TABLE_BYTES, TABLES,
    TABLES_END, option,
};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

/// The compiled runtime (an ELF file); empty where the engine is unavailable.
pub(super) static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.elf"));

/// Bytes of the flat image: the runtime with its zeroed memory and first stack.
pub(super) const FLAT: u64 = BOOT_STACK + 0x1_0000 - RUNTIME_BASE;

/// The memfds of a run and the launcher's view of the header.
pub(super) struct Shared {
    totals: File,
    image: File,
    header: NonNull<Header>,
    /// Translations of earlier runs.
    pub store: Store,
    /// What is timed.
    pub watched: Option<super::Watched>,
    /// Bytes of code at the start of the image.
    pub text: u64,
    /// Replaces the kernel's random bytes of every image.
    pub at_random: Option<[u8; 16]>,
    /// The vDSO is hidden from every image.
    pub hide_vdso: bool,
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

/// `CLOCK_MONOTONIC` in nanoseconds, as the runtime reads it.
fn monotonic() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
    move |error| LaunchError::Io { what, error }
}

impl Shared {
    pub(super) fn new(options: &super::Options) -> Result<Self, LaunchError> {
        let plain = options.times.is_none();
        let cache = options.cache.clone().filter(|_| plain);
        let totals = memfd(c"truecount-totals")?;
        totals
            .set_len(u64::from(MAX_SLOTS) * REGION)
            .map_err(failed("sizing the totals file"))?;
        let image = memfd(c"truecount-engine")?;
        let text = write_image(&image).map_err(failed("writing the engine's image"))?;
        // SAFETY: maps a file of ours; the result is checked.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Header>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                totals.as_raw_fd(),
                0,
            )
        };
        let (Some(header), true) = (NonNull::new(at.cast::<Header>()), at != libc::MAP_FAILED)
        else {
            return Err(failed("mapping the totals file")(io::Error::last_os_error()));
        };
        // SAFETY: zeroed memory is a valid header; nobody else has it yet.
        unsafe {
            let h = header.as_ptr();
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
            (*h).area_limit = options.area_limit;
            let blocks = options.per_block && plain;
            (*h).slot_limit = match options.slot_limit {
                0 => MAX_SLOTS,
                some => some,
            };
            (*h).reuse = u32::from(plain && !blocks);
            (*h).options = if blocks { option::BLOCKS } else { 0 }
                | if options.own_clock { option::CLOCK } else { 0 };
            (*h).started = monotonic();
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
            watched: options.times.clone(),
            text,
            at_random: options.at_random,
            hide_vdso: options.hide_vdso || options.own_clock,
        })
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: mapped as long as self lives; zeroed memory is valid.
        unsafe { self.header.as_ref() }
    }

    /// Path under which a traced process can open a descriptor of ours.
    pub(super) fn paths(&self) -> [String; 2] {
        let pid = std::process::id();
        [&self.totals, &self.image].map(|f| format!("/proc/{pid}/fd/{}\0", f.as_raw_fd()))
    }

    /// A copy of a slot's context as it is now.
    pub(super) fn context(&self, slot: u32) -> io::Result<Box<[u8; size_of::<Context>()]>> {
        let mut bytes = Box::new([0u8; size_of::<Context>()]);
        self.totals
            .read_exact_at(bytes.as_mut_slice(), u64::from(slot) * REGION)?;
        Ok(bytes)
    }

    /// Words of a slot's region from `offset` on.
    pub(super) fn words(&self, slot: u32, offset: u64, count: usize) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0u8; count * 8];
        self.totals
            .read_exact_at(&mut bytes, u64::from(slot) * REGION + offset)?;
        Ok(bytes
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b)))
            .collect())
    }

    /// Writes into a slot's context. Through memory: a limit of the size of files (`RLIMIT_FSIZE`)
    /// concerns `write`, whatever the file is.
    pub(super) fn write(&self, slot: u32, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let context = self.map(slot)?;
        if offset + bytes.len() > size_of::<Context>() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: inside the mapped context, which no thread has yet.
        unsafe {
            let to = context.at.as_ptr().cast::<u8>().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ok(())
    }

    /// Nothing has been counted in this slot, nor will be.
    pub(super) fn forget(&self, slot: u32) {
        if self.write(slot, 0, &[0; size_of::<Context>()]).is_ok() {
            self.header().give_slot(slot);
        }
    }

    /// Maps a slot's context page for futex calls.
    pub(super) fn map(&self, slot: u32) -> io::Result<MappedContext> {
        let len = size_of::<Context>().next_multiple_of(4096);
        // SAFETY: maps a file of ours; the result is checked.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.totals.as_raw_fd(),
                libc::off_t::try_from(u64::from(slot) * REGION).map_err(io::Error::other)?,
            )
        };
        match NonNull::new(at.cast::<Context>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(MappedContext { at, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our mapping, no longer used.
        unsafe { libc::munmap(self.header.as_ptr().cast(), size_of::<Header>()) };
    }
}

/// A context page mapped into the launcher.
pub(super) struct MappedContext {
    at: NonNull<Context>,
    len: usize,
}

impl MappedContext {
    /// The request word.
    pub(super) fn exec(&self) -> &std::sync::atomic::AtomicU32 {
        // SAFETY: mapped as long as self lives; an atomic in shared memory.
        unsafe { &(*self.at.as_ptr()).exec }
    }
    /// The word of a process that offers its translations.
    pub(super) fn save(&self) -> &std::sync::atomic::AtomicU32 {
        // SAFETY: as above.
        unsafe { &(*self.at.as_ptr()).save }
    }
    /// Where it describes them.
    pub(super) fn save_request(&self) -> u64 {
        // SAFETY: mapped; written before the request.
        unsafe { (&raw const (*self.at.as_ptr()).save_request).read_volatile() }
    }
    /// The first slot of its image.
    pub(super) fn leader(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.at.as_ptr()).leader).read_volatile() }
    }
    /// The thread id that made the request.
    pub(super) fn tid(&self) -> u32 {
        // SAFETY: mapped; written before the request.
        unsafe { (&raw const (*self.at.as_ptr()).tid).read_volatile() }
    }
    /// The process id.
    pub(super) fn pid(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.at.as_ptr()).pid).read_volatile() }
    }
}

impl Drop for MappedContext {
    fn drop(&mut self) {
        // SAFETY: our mapping.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0u8; 8];
    if let Some(found) = bytes.get(at..at + 8) {
        value.copy_from_slice(found);
    }
    u64::from_le_bytes(value)
}

/// Lays the ELF's segments out as they will be in memory, the tables behind;
/// returns the bytes of the executable part.
fn write_image(file: &File) -> io::Result<u64> {
    file.set_len(FLAT + (TABLES_END - TABLES))?;
    let headers = word(IMAGE, 32) as usize;
    let count = (word(IMAGE, 56) & 0xffff) as usize;
    let mut text = 0;
    for n in 0..count {
        let at = headers + n * 56;
        let kind = word(IMAGE, at);
        if kind & 0xffff_ffff != 1 {
            continue;
        }
        let (offset, address, size) = (
            word(IMAGE, at + 8),
            word(IMAGE, at + 16),
            word(IMAGE, at + 32),
        );
        let bytes = IMAGE
            .get(offset as usize..(offset + size) as usize)
            .ok_or_else(|| io::Error::other("the engine's image is damaged"))?;
        file.write_all_at(bytes, address - RUNTIME_BASE)?;
        if kind >> 32 & 1 != 0 {
            text = address - RUNTIME_BASE + word(IMAGE, at + 40);
        }
    }
    // Every slot of a table leads to its jump at the start of the image.
    let mut tables = Vec::with_capacity((TABLES_END - TABLES) as usize);
    for table in 1..=(TABLES_END - TABLES) / TABLE_BYTES {
        let entry = (RUNTIME_BASE + 8 * table).to_le_bytes();
        for _ in 0..TABLE_BYTES / 8 {
            tables.extend_from_slice(&entry);
        }
    }
    file.write_all_at(&tables, FLAT)?;
    Ok(text.next_multiple_of(4096))
}
