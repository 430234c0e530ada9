//! The auxiliary vector on the stack of a program that has not begun: behind the number of arguments,
//! their pointers and those of the environment, each list ended by a zero (System V ABI, "Process
//! Initialization"; the keys: `getauxval(3)`).

use std::io;

/// More words than the kernel lets arguments and environment be (`MAX_ARG_STRINGS` aside).
const MAX_WORDS: u64 = 1 << 22;
/// The last key.
const AT_NULL: u64 = 0;

/// Address and value of the first entry of each of the `keys`; `None` where there is none. `word` reads a word of the
/// program, whose stack begins at `stack`; it is asked for words in the order of their addresses.
///
/// ```
/// // No arguments, no environment, one entry.
/// let stack = [0u64, 0, 0, 25, 0x7fff_1000, 0, 0];
/// let word = |at: u64| Ok(stack[usize::try_from(at / 8).unwrap()]);
/// let found = truecount_engine::auxv::entries(word, 0, [25, 33])?;
/// assert_eq!(found, [Some((24, 0x7fff_1000)), None]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of `word`.
pub fn entries<const N: usize>(
    mut word: impl FnMut(u64) -> io::Result<u64>,
    stack: u64,
    keys: [u64; N],
) -> io::Result<[Option<(u64, u64)>; N]> {
    let mut found = [None; N];
    let at = |n: u64| stack.wrapping_add(8u64.wrapping_mul(n));
    let mut n = word(at(0))?.saturating_add(2);
    while n < MAX_WORDS && word(at(n))? != 0 {
        n += 1;
    }
    n = n.saturating_add(1);
    while n < MAX_WORDS {
        let (key, value) = (word(at(n))?, word(at(n + 1))?);
        if key == AT_NULL {
            break;
        }
        for (place, _) in found.iter_mut().zip(keys).filter(|(_, each)| *each == key) {
            place.get_or_insert((at(n), value));
        }
        n += 2;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(stack: &[u64], key: u64) -> io::Result<Option<(u64, u64)>> {
        let word = |at: u64| {
            let word = stack.get(usize::try_from(at / 8).unwrap());
            word.copied()
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        };
        entries(word, 0, [key]).map(|[found]| found)
    }

    #[test]
    fn it_lies_behind_arguments_and_environment() {
        // Two arguments, three variables, two entries and the end; what lies behind is something else.
        let stack = [2, 11, 12, 0, 21, 22, 23, 0, 33, 7, 25, 8, 0, 0, 16, 9];
        assert_eq!(find(&stack, 25).unwrap(), Some((80, 8)));
        assert_eq!(find(&stack, 33).unwrap(), Some((64, 7)));
        assert_eq!(find(&stack, 16).unwrap(), None);
    }

    #[test]
    fn a_stack_that_is_none_ends() {
        assert!(find(&[1], 25).is_err());
        assert!(find(&[0, 0, 5, 5, 5], 25).is_err());
        assert_eq!(find(&[u64::MAX, 0], 25).unwrap(), None);
        let never = |_: u64| Ok(1);
        assert_eq!(entries(never, u64::MAX - 3, [25]).unwrap(), [None]);
    }
}
