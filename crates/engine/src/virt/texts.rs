//! What programs printed by client requests (`VALGRIND_PRINTF`), read from the shared file.

use super::shared::Shared;
use crate::regions::texts::{AT, BYTES, DONE, HEAD, kind};
use std::sync::atomic::Ordering;

/// What a process printed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Printed {
    /// Slot of the first thread of the process image.
    pub image: u32,
    /// What it is.
    pub what: PrintedWhat,
}

/// See [`Printed`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrintedWhat {
    /// Text; lines may go on in the next one.
    Text(Vec<u8>),
    /// Where the thread was: the address behind the request, and where its callers go on, as far as the tree of calls is
    /// kept.
    Trace(Vec<u64>),
}

/// All that was printed, in order, and the bytes that found no room.
pub(super) fn read(shared: &Shared) -> (Vec<Printed>, u64) {
    let texts = &shared.header().texts;
    let used = texts.used.load(Ordering::Acquire).min(BYTES);
    let words = usize::try_from(used / 8).unwrap_or(0);
    let words = shared.words(0, AT, words).unwrap_or_default();
    let mut all = Vec::new();
    let mut rest = words.as_slice();
    // (A process that was killed in between leaves zeros: what is behind them is not found.)
    while let [first, second, behind @ ..] = rest {
        let (image, kind) = (*first as u32, (*first >> 32) as u32);
        let (len, done) = (*second as u32 as usize, (*second >> 32) as u32);
        let bytes = behind.get(..len.div_ceil(8));
        let Some(bytes) = bytes.filter(|_| done == DONE) else {
            break;
        };
        let what = match kind {
            kind::TRACE => PrintedWhat::Trace(bytes.to_vec()),
            _ => {
                let bytes = bytes.iter().flat_map(|word| word.to_le_bytes());
                PrintedWhat::Text(bytes.take(len).collect())
            }
        };
        all.push(Printed { image, what });
        rest = behind.get(len.div_ceil(8)..).unwrap_or(&[]);
    }
    const _: () = assert!(HEAD == 16);
    (all, texts.lost.load(Ordering::Acquire))
}
