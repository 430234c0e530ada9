//! Which programs have restartable sequences of their own (rseq(2)): those find a kernel without them, because no
//! kernel can tell that a thread is inside a critical section of translated code, and under single steps none would
//! ever end. Of all others the C library is the only user, and it has no critical sections.

use std::fs::File;
use std::os::unix::fs::FileExt;
use truecount_elf::Elf;

/// Names of sections and of dynamic symbols and libraries that tell (librseq and the kernel's tests, tcmalloc, LTTng).
const WORDS: [&str; 3] = ["rseq", "tcmalloc", "lttng-ust"];
/// Longer tables of dynamic strings are not looked at as a whole.
const MAX_STRINGS: usize = 1 << 20;

/// Whether the program that a process has just loaded may have critical sections. (Libraries that its libraries need are
/// not looked at.)
pub(crate) fn has_sequences(pid: i32) -> bool {
    // What cannot be read is not asked to do without.
    let program = File::open(format!("/proc/{pid}/exe")).ok();
    program.is_some_and(|file| in_file(&file)) || preloads_them(pid)
}

/// Whether a library is loaded before the program's own that may have some.
fn preloads_them(pid: i32) -> bool {
    crate::proc_file::read(pid, "environ").is_ok_and(|environment| preloaded(&environment))
}

/// Whether an environment, with a zero behind each entry, has such a library loaded.
pub(crate) fn preloaded(environment: &[u8]) -> bool {
    environment
        .split(|&byte| byte == 0)
        .any(|entry| entry.starts_with(b"LD_PRELOAD=") && names_them(entry))
}

/// Whether a program's file names them.
pub(crate) fn in_file(file: &File) -> bool {
    let Some(elf) = Elf::read(file) else {
        return false;
    };
    let strings = elf.section(".dynstr").is_some_and(|section| {
        let mut bytes = vec![0; section.range.len().min(MAX_STRINGS)];
        let read = file.read_exact_at(&mut bytes, section.range.start as u64);
        read.is_ok() && names_them(&bytes)
    });
    strings || elf.sections.iter().any(|s| names_them(s.name.as_bytes()))
}

fn names_them(text: &[u8]) -> bool {
    WORDS.iter().any(|word| {
        text.windows(word.len())
            .any(|window| window == word.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::names_them;

    #[test]
    fn names_are_found_anywhere() {
        assert!(names_them(b"\0__rseq_offset\0"));
        assert!(names_them(b"__rseq_cs_ptr_array"));
        assert!(names_them(b"LD_PRELOAD=/usr/lib/libtcmalloc.so.4"));
        assert!(!names_them(b"libc.so.6\0printf\0"));
        assert!(!names_them(b""));
    }
}
