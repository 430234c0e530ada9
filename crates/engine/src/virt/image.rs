//! The runtime's image, as the build leaves it, and as it lies in memory.

use crate::layout::{BOOT_STACK, HUGE, LOW_BYTES, RUNTIME_BASE, TABLE_BYTES, TABLES};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// The compiled runtime (an ELF file); empty where the engine is unavailable.
pub(super) static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.elf"));

/// Bytes of the flat image: the runtime with its zeroed memory and first stack.
pub(super) const FLAT: u64 = BOOT_STACK + 0x1_0000 - RUNTIME_BASE;

/// Bytes of a table written at once.
const PART: usize = 32 << 10;
const _: () = assert!(TABLE_BYTES.is_multiple_of(PART as u64));

fn damaged() -> io::Error {
    io::Error::other("the virtual PMU's image is damaged")
}

/// Lays the ELF's segments out as they will be in memory, behind them what is going to be low;
/// returns the bytes of the executable part.
pub(super) fn write_image(file: &File) -> io::Result<u64> {
    file.set_len(FLAT + LOW_BYTES)?;
    let mut text = 0;
    let image = truecount_elf::Elf::parse(IMAGE).ok_or_else(damaged)?;
    for segment in image.segments {
        let range = usize::try_from(segment.offset)
            .ok()
            .zip(usize::try_from(segment.size).ok());
        let bytes = range.and_then(|(from, size)| IMAGE.get(from..from.checked_add(size)?));
        let at = segment
            .address
            .checked_sub(RUNTIME_BASE)
            .ok_or_else(damaged)?;
        file.write_all_at(bytes.ok_or_else(damaged)?, at)?;
        if segment.executable {
            text = at + segment.memory;
        }
    }
    // Every slot of a table leads to its jump at the start of the image. In parts: memory that the launcher never
    // touches costs it no page.
    let mut part = [0; PART];
    for table in 0..TABLES {
        let entry = (RUNTIME_BASE + 8 * (table + 1)).to_le_bytes();
        for place in part.chunks_exact_mut(entry.len()) {
            place.copy_from_slice(&entry);
        }
        for at in (0..TABLE_BYTES).step_by(PART) {
            file.write_all_at(&part, FLAT + table * TABLE_BYTES + at)?;
        }
    }
    Ok(text.next_multiple_of(4096))
}

/// Brings the tables together in one huge page, where the kernel can (Linux 6.1): each process maps them, and the kernel
/// maps the small pages around the one that is read, at a price for each. (One is made anew, so this is for runs of many
/// programs.) Whether it could.
pub(super) fn gather(file: &File) -> bool {
    const BYTES: usize = HUGE as usize;
    const MADV_COLLAPSE: libc::c_int = 25;
    const _: () = assert!(FLAT.is_multiple_of(HUGE) && TABLES * TABLE_BYTES >= HUGE);
    let Ok(offset) = libc::off_t::try_from(FLAT) else {
        return false;
    };
    // SAFETY: addresses that nobody has, twice as many as are used, so that a multiple of the size is among them; then the
    // file there, which others map at the same time: its content stays.
    unsafe {
        let (none, apart) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let all = libc::mmap(std::ptr::null_mut(), 2 * BYTES, none, apart, -1, 0);
        if all == libc::MAP_FAILED {
            return false;
        }
        let at = all.byte_add(all.align_offset(BYTES));
        let (both, there) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
        );
        let gathered = libc::mmap(at, BYTES, both, there, file.as_raw_fd(), offset) == at
            && libc::madvise(at, BYTES, MADV_COLLAPSE) == 0;
        libc::munmap(all, 2 * BYTES);
        gathered
    }
}

#[cfg(test)]
mod tests {
    use super::{FLAT, IMAGE, gather, write_image};
    use crate::layout::{HUGE, WATCHED};
    use std::fs::File;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::os::unix::fs::FileExt;

    /// The command holds the image: where the sources lay when it was built must not make it another one.
    #[test]
    fn the_image_names_no_directory_of_the_machine_that_built_it() {
        let root = env!("CARGO_MANIFEST_DIR").as_bytes();
        let found = IMAGE.windows(root.len()).any(|bytes| bytes == root);
        assert!(!found, "the image has the path of its sources in it");
    }
    /// The tables are what they were, and where the kernel gives a huge page one read maps all of it.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_tables_can_be_one_huge_page() {
        // SAFETY: a new descriptor of ours.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"image".as_ptr(), 0)) };
        write_image(&file).unwrap();
        let tables = || {
            let mut bytes = vec![0; WATCHED as usize];
            file.read_exact_at(&mut bytes, FLAT).unwrap();
            bytes
        };
        let before = tables();
        let gathered = gather(&file);
        assert!(tables() == before && before.iter().any(|&byte| byte != 0));
        if !gathered {
            truecount_testing::skip!("huge-pages", "the kernel makes none of a file's pages");
            return;
        }
        let at = 0x7a80_0000 as *mut libc::c_void;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
        let (prot, bytes) = (libc::PROT_READ | libc::PROT_WRITE, HUGE as usize);
        // SAFETY: at a place that nobody has, of our file; then a byte of it.
        let read = unsafe {
            let mapped = libc::mmap(at, bytes, prot, flags, file.as_raw_fd(), FLAT as i64);
            assert_eq!(mapped, at);
            at.cast::<u8>().read_volatile()
        };
        assert_eq!(Some(&read), before.first());
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mapping = maps.split("7a800000-").nth(1).unwrap();
        let line = |name: &str| {
            mapping
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap()
                .to_owned()
        };
        assert!(line("Rss:").contains(" 2048 kB"), "{}", line("Rss:"));
        // SAFETY: ours.
        unsafe { libc::munmap(at, bytes) };
    }
}
