//! What a program begins with: its arguments and its environment, as they lie on its stack, read at once. The files of
//! `/proc` that tell them cost several calls each, and every `execve` of a run waits for that.

use super::ptrace;
use crate::{auxv, proc_file};
use std::io;

/// As many bytes are read from the stack pointer on. What is longer is asked of `/proc`.
const LENGTH: usize = 16 << 10;
/// Where the stack ends if addresses are not random (`STACK_TOP`, arch/x86/include/asm/processor.h).
const STACK_TOP: u64 = 0x7fff_ffff_f000;

/// Arguments and environment, each entry with a zero behind it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Beginning {
    pub(super) arguments: Vec<u8>,
    pub(super) environment: Vec<u8>,
    /// The file that `execve` was given, as it was given (a script's own name, not its interpreter's).
    pub(super) file: Vec<u8>,
    /// Its stack lies where it does without random addresses. (One of four million random ones does.)
    pub(super) fixed: bool,
}

impl Beginning {
    /// Of a process that is stopped before its first instruction, its stack pointer as it was then.
    pub(super) fn of(tid: i32, sp: u64) -> Self {
        let stack = ptrace::read(tid, sp, LENGTH).unwrap_or_default();
        let fixed = sp.checked_add(stack.len() as u64) == Some(STACK_TOP);
        let file = file(tid, &stack, sp);
        match strings(&stack, sp) {
            Some([arguments, environment]) => Self {
                arguments: arguments.to_vec(),
                environment: environment.to_vec(),
                file,
                fixed,
            },
            None => Self {
                arguments: proc_file::read(tid, "cmdline").unwrap_or_default(),
                environment: proc_file::read(tid, "environ").unwrap_or_default(),
                file,
                fixed,
            },
        }
    }
}

/// What `AT_EXECFN` leads to; empty where that cannot be read. `stack` are the first bytes of the stack at `sp`.
fn file(tid: i32, stack: &[u8], sp: u64) -> Vec<u8> {
    let bytes_at = |all: &[u8], from: u64, at: u64| {
        let place = usize::try_from(at.checked_sub(from)?).ok()?;
        all.get(place..)?.first_chunk::<8>().copied()
    };
    // Words are asked for in order: where those at hand end, as many again are read.
    let mut more = (0, Vec::new());
    let word = |at: u64| {
        let known = bytes_at(stack, sp, at).or_else(|| bytes_at(&more.1, more.0, at));
        if let Some(bytes) = known {
            return Ok(u64::from_le_bytes(bytes));
        }
        more = (at, ptrace::read(tid, at, LENGTH)?);
        let bytes = bytes_at(&more.1, more.0, at).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(u64::from_le_bytes(bytes))
    };
    let at = match auxv::entries(word, sp, [libc::AT_EXECFN]) {
        Ok([Some((_, at))]) => at,
        _ => return Vec::new(),
    };
    let mut text = ptrace::read(tid, at, libc::PATH_MAX as usize).unwrap_or_default();
    let long = text.iter().position(|&byte| byte == 0).unwrap_or(0);
    text.truncate(long);
    text
}

/// Arguments and environment in the bytes of a stack that begins at `sp`; `None`: not all is in them, or not as the kernel
/// lays it out (one string behind the other, fs/exec.c).
fn strings(stack: &[u8], sp: u64) -> Option<[&[u8]; 2]> {
    let mut words = stack.as_chunks::<8>().0.iter();
    let mut word = || words.next().map(|bytes| u64::from_le_bytes(*bytes));
    let count = word()?;
    let mut parts = [&[][..]; 2];
    for part in &mut parts {
        let (mut first, mut last) = (0, 0);
        loop {
            match word()? {
                0 => break,
                at if first == 0 => (first, last) = (at, at),
                at if at > last => last = at,
                _ => return None,
            }
        }
        if first == 0 {
            continue;
        }
        let place = |at: u64| usize::try_from(at.checked_sub(sp)?).ok();
        let end = place(last)?;
        let length = stack.get(end..)?.iter().position(|&byte| byte == 0)? + 1;
        *part = stack.get(place(first)?..end + length)?;
    }
    let found = parts[0].iter().filter(|&&byte| byte == 0).count();
    // Without a single argument `/proc` has its own idea of what they are.
    (count > 0 && u64::try_from(found) == Ok(count)).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::strings;

    fn stack(sp: u64, arguments: &[&str], environment: &[&str], padding: usize) -> Vec<u8> {
        let words = 3 + arguments.len() + environment.len() + padding;
        let mut at = sp + 8 * words as u64;
        let (mut bytes, mut text) = ((arguments.len() as u64).to_le_bytes().to_vec(), Vec::new());
        for part in [arguments, environment] {
            for entry in part {
                bytes.extend(at.to_le_bytes());
                text.extend(entry.bytes().chain([0]));
                at += entry.len() as u64 + 1;
            }
            bytes.extend([0; 8]);
        }
        bytes.resize(8 * words, 7);
        bytes.extend(text);
        bytes
    }

    #[test]
    fn strings_are_found_where_they_lie() {
        let sp = 0x7fff_ffff_e000;
        let both = |bytes: &[u8]| {
            strings(bytes, sp)
                .map(|both| both.map(|part| String::from_utf8_lossy(part).into_owned()))
        };
        let own = |a: &str, b: &str| Some([a.to_owned(), b.to_owned()]);
        let found = stack(sp, &["ls", "", "-l"], &["A=1", "B="], 9);
        assert_eq!(both(&found), own("ls\0\0-l\0", "A=1\0B=\0"));
        assert_eq!(both(&stack(sp, &["ls"], &[], 0)), own("ls\0", ""));
        assert_eq!(both(&stack(sp, &[], &["A=1"], 0)), None);
        // Cut anywhere, or of another layout: not at all.
        for end in 0..found.len() {
            assert_eq!(both(found.get(..end).unwrap()), None, "{end}");
        }
        let mut exchanged = found.clone();
        exchanged.copy_within(16..24, 8);
        assert_eq!(both(&exchanged), None);
    }

    #[test]
    fn damaged_stacks_are_no_trouble() {
        let sp = 0x7fff_ffff_e000;
        let good = stack(sp, &["ls", "-l"], &["A=1"], 2);
        for place in 0..good.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = good.clone();
                bytes[place] = value;
                let _ = strings(&bytes, sp);
            }
        }
    }
}
