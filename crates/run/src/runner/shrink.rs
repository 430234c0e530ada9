//! Makes the launcher's resident memory small: the peak that `execve` hands on to a program.
//!
//! Clean pages of mapped files (code, constants) were touched while truecount started and are not
//! needed any more; dropping them (madvise(2), MADV_DONTNEED) costs a minor fault where they are
//! used again. Then the kernel is told to forget the peak (proc(5), `/proc/PID/clear_refs`, 5).

use std::fs;

/// Drops clean file pages and resets the peak. A kernel that refuses leaves the peak as it is.
pub(super) fn shrink() {
    // Only mappings without pages of their own: a relocated page must not be lost.
    let Ok(smaps) = fs::read_to_string("/proc/self/smaps") else {
        return;
    };
    let mut found = Vec::new();
    let mut range: Option<(usize, usize)> = None;
    for line in smaps.lines() {
        if let Some(next) = mapping(line) {
            range = next;
        } else if line.starts_with("Anonymous:")
            && let Some(range) = range.take()
            && line.split_whitespace().nth(1) == Some("0")
        {
            found.push(range);
        }
    }
    drop(smaps);
    // The text took a good part of the heap; what is free at its end is given back.
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0)
    };
    // SAFETY: read-only private mappings of files in which no page was written: what is dropped
    // comes back from the file with the same bytes. The rest are plain calls on a new descriptor.
    unsafe {
        let peak = libc::open(
            c"/proc/self/clear_refs".as_ptr(),
            libc::O_WRONLY | libc::O_CLOEXEC,
        );
        // From here on as little code as possible: every page that runs comes back.
        for (start, end) in found {
            libc::madvise(start as *mut _, end - start, libc::MADV_DONTNEED);
        }
        if peak >= 0 {
            libc::write(peak, c"5".as_ptr().cast(), 1);
            libc::close(peak);
        }
    }
}

/// For the first line of a mapping: its range when it is a file's and read-only, else `Some(None)`.
fn mapping(line: &str) -> Option<Option<(usize, usize)>> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    let permissions = words.next()?;
    let path = words.nth(3).unwrap_or("");
    let wanted = path.starts_with('/')
        && permissions.ends_with('p')
        && !permissions.contains('w')
        && start < end;
    Some(wanted.then_some((start, end)))
}

#[cfg(test)]
mod tests {
    use super::mapping;

    #[test]
    fn only_clean_mappings_of_files() {
        let file = "55d0-55e0 r-xp 000e7000 fe:00 10127905                   /usr/bin/x";
        assert_eq!(mapping(file), Some(Some((0x55d0, 0x55e0))));
        for other in [
            "55d0-55e0 rw-p 000e7000 fe:00 10127905                   /usr/bin/x",
            "55d0-55e0 r--s 000e7000 fe:00 10127905                   /usr/bin/x",
            "55d0-55e0 r-xp 00000000 00:00 0                          [vdso]",
            "55d0-55e0 r--p 00000000 00:00 0",
        ] {
            assert_eq!(mapping(other), Some(None), "{other}");
        }
        assert_eq!(mapping("Rss:                   4 kB"), None);
    }
}
