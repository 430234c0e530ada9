//! What was there before the recording: names and mappings of running processes, the kernel's text and modules.
//!
//! Files: proc(5) — `task/*/comm`, `maps`, `/proc/kallsyms`, `/proc/modules`.

use std::fs;
use std::io;

use truecount_sample::writer::{PerfDataWriter, SideRecords};

use crate::procfs::mapping;

/// Writes the records of one process (all its threads).
pub(crate) fn process<W: io::Write + io::Seek>(
    out: &mut PerfDataWriter<W>,
    side: SideRecords,
    pid: u32,
) -> io::Result<()> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Ok(()); // it has ended meanwhile
    };
    for task in tasks.flatten() {
        let Some(tid) = task
            .file_name()
            .to_str()
            .and_then(|t| t.parse::<u32>().ok())
        else {
            continue;
        };
        let name = fs::read(task.path().join("comm")).unwrap_or_default();
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        if tid != pid {
            out.records(&side.fork(pid, tid))?;
        }
        out.records(&side.comm(pid, tid, name))?;
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    for line in maps.lines() {
        if let Some((range, pgoff, path)) = mapping(line) {
            out.records(&side.mmap(pid, range, pgoff, path.as_bytes()))?;
        }
    }
    Ok(())
}

/// All processes.
pub(crate) fn machine<W: io::Write + io::Seek>(
    out: &mut PerfDataWriter<W>,
    side: SideRecords,
) -> io::Result<()> {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|t| t.parse::<u32>().ok())
        {
            process(out, side, pid)?;
        }
    }
    Ok(())
}

/// The kernel's text and its modules, as far as their addresses may be seen.
pub(crate) fn kernel<W: io::Write + io::Seek>(
    out: &mut PerfDataWriter<W>,
    side: SideRecords,
) -> io::Result<()> {
    use io::BufRead as _;
    let (mut text, mut end) = (0, 0);
    if let Ok(file) = fs::File::open("/proc/kallsyms") {
        for line in io::BufReader::new(file).lines().map_while(Result::ok) {
            let mut words = line.split(' ');
            let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next())
            else {
                break;
            };
            match name {
                "_text" | "_stext" if text == 0 => {
                    text = u64::from_str_radix(address, 16).unwrap_or(0);
                }
                "_etext" => {
                    end = u64::from_str_radix(address, 16).unwrap_or(0);
                    break;
                }
                _ => {}
            }
        }
    }
    if text != 0 && end > text {
        out.records(&side.mmap(u32::MAX, text..end, text, b"[kernel.kallsyms]_text"))?;
    }
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    for line in modules.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (Some(name), Some(size)) = (
            words.first(),
            words.get(1).and_then(|s| s.parse::<u64>().ok()),
        ) else {
            continue;
        };
        let address = words.iter().find_map(|w| w.strip_prefix("0x"));
        let Some(start) = address
            .and_then(|a| u64::from_str_radix(a, 16).ok())
            .filter(|a| *a != 0)
        else {
            continue;
        };
        let path = format!("[{name}]");
        out.records(&side.mmap(
            u32::MAX,
            start..start.saturating_add(size),
            0,
            path.as_bytes(),
        ))?;
    }
    Ok(())
}
