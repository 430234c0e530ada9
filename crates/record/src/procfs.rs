//! What `/proc` says about processes that ran before they were sampled (proc(5)).

use std::fs;

/// An executable line of `maps`: `start-end perms offset dev inode path`.
pub fn mapping(line: &str) -> Option<(std::ops::Range<u64>, u64, &str)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |t: &str| u64::from_str_radix(t, 16).ok();
    if !words.next()?.contains('x') {
        return None;
    }
    let pgoff = hex(words.next()?)?;
    let path = words.nth(2).map_or("", str::trim_start);
    let path = if path.is_empty() { "//anon" } else { path };
    Some((
        hex(start)?..hex(end)?,
        pgoff,
        path.strip_suffix(" (deleted)").unwrap_or(path),
    ))
}

/// The name of a thread; `None` when it has ended.
pub fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Whether a process runs (or waits); a zombie does not.
pub fn is_alive(pid: i32) -> bool {
    // The name stands in parentheses and may hold any character; the state follows the last one.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit(") ").next().and_then(|s| s.chars().next());
        !matches!(state, Some('Z' | 'X' | 'x') | None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = "55d0a000-55d0b000 r-xp 00001000 08:01 1234                       /usr/bin/a b (deleted)";
        assert_eq!(
            mapping(line),
            Some((0x55d0_a000..0x55d0_b000, 0x1000, "/usr/bin/a b"))
        );
        assert_eq!(mapping("7f00-7f10 rw-p 00000000 00:00 0 [heap]"), None);
        assert_eq!(
            mapping("7f00-7f10 r-xp 00000000 00:00 0 "),
            Some((0x7f00..0x7f10, 0, "//anon"))
        );
        assert_eq!(mapping("garbage"), None);
    }

    #[test]
    fn this_process_is_alive() {
        let pid = std::process::id();
        assert!(is_alive(pid as i32) && !is_alive(-1));
        assert!(thread_name(pid, pid).is_some_and(|n| !n.is_empty()));
    }
}
