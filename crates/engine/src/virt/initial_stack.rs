//! The stack of a program that has not begun, as a reference machine has it: the strings stay where the kernel put them, at
//! the top, and below them comes what differs from kernel to kernel, written anew: platform, random bytes, auxiliary
//! vector in one order and one size, environment, arguments (System V ABI, "Process Initialization"; `getauxval(3)`;
//! `create_elf_tables` in fs/binfmt_elf.c).

use std::io;

/// Keys of the vector, in order. What a kernel does not give is 0, and what it gives beside is not there.
const KEYS: [u64; 19] = [
    libc::AT_HWCAP,
    libc::AT_PAGESZ,
    libc::AT_CLKTCK,
    libc::AT_PHDR,
    libc::AT_PHENT,
    libc::AT_PHNUM,
    libc::AT_BASE,
    libc::AT_FLAGS,
    libc::AT_ENTRY,
    libc::AT_UID,
    libc::AT_EUID,
    libc::AT_GID,
    libc::AT_EGID,
    libc::AT_SECURE,
    libc::AT_RANDOM,
    libc::AT_HWCAP2,
    libc::AT_EXECFN,
    libc::AT_PLATFORM,
    AT_MINSIGSTKSZ,
];
const AT_MINSIGSTKSZ: u64 = 51;
/// What every signal frame needs at most: room for the state, and what lies around it.
const MINSIGSTKSZ: u64 = crate::shown::STATE_ROOM + 1024;

/// More words than the kernel lets arguments and environment be.
const MAX_WORDS: usize = 1 << 22;

/// The new words, and what the launcher has to know of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stack {
    /// Where they begin: the stack pointer.
    pub(super) pointer: u64,
    /// The bytes from there up to the strings.
    pub(super) bytes: Vec<u8>,
    /// Where the old ones began and end: what is left of them below `pointer` has to be cleared.
    pub(super) old: u64,
}

/// Arranges the stack that begins at `old` anew. `word` reads a word of it; `random` are its random bytes.
///
/// # Errors
/// Those of `word`; `InvalidData` for what is not the stack of a program that begins.
pub(super) fn arranged(
    mut word: impl FnMut(u64) -> io::Result<u64>,
    old: u64,
    hwcap: u64,
    random: Option<[u8; 16]>,
) -> io::Result<Stack> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut at = old;
    let mut next = || {
        let value = word(at)?;
        at = at.wrapping_add(8);
        Ok::<u64, io::Error>(value)
    };
    let mut words = vec![next()?];
    let mut lowest = u64::MAX;
    for _ in 0..2 {
        loop {
            let value = next()?;
            words.push(value);
            if value == 0 {
                break;
            }
            lowest = lowest.min(value);
            if words.len() > MAX_WORDS {
                return Err(invalid());
            }
        }
    }
    let mut values = [None; KEYS.len()];
    for _ in 0..64 {
        let (key, value) = (next()?, next()?);
        if key == libc::AT_NULL {
            break;
        }
        if let Some(at) = KEYS.iter().position(|each| *each == key)
            && let Some(place) = values.get_mut(at)
        {
            *place = Some(value);
        }
    }
    let value = |key: u64| {
        let at = KEYS.iter().position(|each| *each == key)?;
        values.get(at).copied().flatten()
    };
    lowest = lowest.min(value(libc::AT_EXECFN).unwrap_or(u64::MAX));
    if lowest == u64::MAX || lowest <= at {
        return Err(invalid());
    }
    let platform = (lowest & !15).wrapping_sub(16);
    let random_at = platform.wrapping_sub(16);
    for key in KEYS {
        let shown = match key {
            libc::AT_HWCAP => hwcap,
            libc::AT_HWCAP2 => 0,
            libc::AT_RANDOM => random_at,
            libc::AT_PLATFORM => platform,
            AT_MINSIGSTKSZ => MINSIGSTKSZ,
            key => value(key).unwrap_or(0),
        };
        words.extend([key, shown]);
    }
    words.extend([libc::AT_NULL, 0]);
    let pointer = random_at.wrapping_sub(8 * words.len() as u64) & !15;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let gap = random_at.wrapping_sub(pointer) as usize;
    bytes.resize(gap, 0);
    let kernels = value(libc::AT_RANDOM).ok_or_else(invalid)?;
    let mut random_bytes = [0u8; 16];
    for (to, from) in random_bytes.chunks_exact_mut(8).zip([0, 8]) {
        to.copy_from_slice(&word(kernels.wrapping_add(from))?.to_le_bytes());
    }
    bytes.extend(random.unwrap_or(random_bytes));
    bytes.extend(b"x86_64\0\0\0\0\0\0\0\0\0\0");
    bytes.resize(lowest.wrapping_sub(pointer) as usize, 0);
    Ok(Stack {
        pointer,
        bytes,
        old,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack at 0x1000 with `more` entries that others do not have; strings are at 0x3000.
    fn stack(more: u64) -> Vec<u64> {
        let mut words = vec![2, 0x3000, 0x3005, 0, 0x300a, 0];
        for key in 0..more {
            words.extend([100 + key, 7]);
        }
        words.extend([
            33,
            0x7000,
            51,
            2000 + more,
            16,
            0xff,
            25,
            0x2fe0,
            31,
            0x3020,
            6,
            4096,
            0,
            0,
        ]);
        words
    }

    fn arrange(words: &[u64]) -> io::Result<Stack> {
        let word = |at: u64| {
            if at >= 0x2fe0 {
                return Ok(at);
            }
            let word = words.get(usize::try_from((at - 0x1000) / 8).unwrap());
            word.copied()
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        };
        arranged(word, 0x1000, 0xbf, None)
    }

    #[test]
    fn kernels_with_more_entries_give_the_same_stack() {
        let [few, many] = [0, 9].map(|more| arrange(&stack(more)).unwrap());
        assert_eq!(few, many);
        assert_eq!(few.pointer % 16, 0);
        assert_eq!(few.pointer + few.bytes.len() as u64, 0x3000);
        let word =
            |at: usize| u64::from_le_bytes(few.bytes[8 * at..8 * at + 8].try_into().unwrap());
        assert_eq!(
            [word(0), word(1), word(3), word(4), word(5)],
            [2, 0x3000, 0, 0x300a, 0]
        );
        let vector: Vec<(u64, u64)> = (0..20)
            .map(|n| (word(6 + 2 * n), word(7 + 2 * n)))
            .collect();
        assert_eq!(vector[0], (16, 0xbf));
        assert!(vector.contains(&(6, 4096)) && vector.contains(&(51, MINSIGSTKSZ)));
        assert!(!vector.iter().any(|(key, _)| *key == 33 || *key >= 100));
        assert_eq!(vector[19], (0, 0));
        let (_, random) = vector.into_iter().find(|(key, _)| *key == 25).unwrap();
        let at = (random - few.pointer) as usize;
        assert_eq!(
            few.bytes[at..at + 8],
            0x2fe0u64.to_le_bytes(),
            "the kernel's own"
        );
        assert_eq!(few.bytes[at + 16..at + 22], *b"x86_64");
    }

    #[test]
    fn what_is_no_stack_is_an_error() {
        assert!(arrange(&[1]).is_err());
        assert!(arrange(&[0, 0, 0, 0, 0]).is_err());
        assert!(arrange(&[1, 0x1008, 0, 0, 25, 0x2fe0, 0, 0]).is_err());
    }
}
