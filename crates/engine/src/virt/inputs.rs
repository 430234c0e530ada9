//! What came into a run from outside, read from the shared file.

use super::shared::Shared;
use crate::inputs::{self, kind};
use std::sync::atomic::{AtomicU8, Ordering};

/// What came in from one kind of source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Input {
    /// Its place in [`inputs::NAMES`].
    pub kind: usize,
    /// How often.
    pub times: u64,
    /// What it was the first time: a call's name in capitals, a path.
    pub detail: String,
    /// Where, the first time.
    pub place: Option<Place>,
    /// Who called the C library, where it was there.
    pub caller: Option<Place>,
}

/// A place in code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The mapped file.
    pub file: String,
    /// Offset in it.
    pub offset: u64,
}

fn text(bytes: &[AtomicU8]) -> String {
    let bytes: Vec<u8> = bytes
        .iter()
        .map(|byte| byte.load(Ordering::Relaxed))
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn place(place: &inputs::Place) -> Option<Place> {
    let file = text(&place.file);
    (!file.is_empty()).then(|| Place {
        file,
        offset: place.offset.load(Ordering::Relaxed),
    })
}

/// Which inputs a run had: hashes of what it read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// By [`inputs::part`].
    pub parts: [u64; inputs::PARTS.len()],
    /// Different contents of files that were read.
    pub files: u32,
    /// Something that was read is not in it.
    pub partial: bool,
}

impl Identity {
    /// With these hashes, of a whole run.
    #[doc(hidden)] // for tests
    pub fn of(parts: [u64; inputs::PARTS.len()]) -> Self {
        Self {
            parts,
            ..Self::default()
        }
    }
}

/// Which inputs there were.
pub(super) fn identity(shared: &Shared) -> Identity {
    let found = &shared.header().inputs.identity;
    Identity {
        parts: found
            .parts
            .each_ref()
            .map(|part| part.load(Ordering::Acquire)),
        files: found.files.load(Ordering::Acquire),
        partial: found.partial.load(Ordering::Acquire) != 0,
    }
}

/// Every kind of which something came.
pub(super) fn read(shared: &Shared) -> Vec<Input> {
    let table = &shared.header().inputs;
    let connected = table.connected.load(Ordering::Acquire) > 0;
    let all = table.all.iter().enumerate();
    all.filter(|(which, input)| {
        // Who connected was of the run, where anybody of it did.
        let inside = *which == kind::ACCEPTED && connected;
        input.times.load(Ordering::Acquire) > 0 && !inside
    })
    .map(|(which, input)| {
        let known = input.known.load(Ordering::Acquire) != 0;
        Input {
            kind: which,
            times: input.times.load(Ordering::Relaxed),
            detail: if known {
                text(&input.detail)
            } else {
                String::new()
            },
            place: place(&input.place).filter(|_| known),
            caller: place(&input.caller).filter(|_| known),
        }
    })
    .collect()
}
