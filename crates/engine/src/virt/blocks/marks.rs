//! Where parts of profiles end, and what each part counted: the counters of a thread at its marks, one after the other.

use super::{Counted, Reader, word32};
use crate::layout::{COUNTERS, Context, LOG, state};
use crate::regions::mark;
use std::mem::offset_of;

/// Where a part of a process' profile ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mark {
    /// Slot of the first thread of the process image.
    pub image: u32,
    /// Its number in the process, from 1 on.
    pub number: u32,
    /// What was counted before is dropped; else it is a part of the profile.
    pub drops: bool,
    /// What ended the part.
    pub name: String,
    /// Slot of the thread that came to its end.
    pub by: u32,
}

/// The counters of a thread at a mark.
pub(super) struct Marked {
    thread: u32,
    number: u32,
    slot: u32,
}

impl Reader<'_> {
    /// Notes where parts of profiles end, before threads are read; slots go up to `end`.
    pub(in crate::virt) fn marks(&mut self, end: u32) {
        if self.shared.regions.is_none() {
            return;
        }
        for slot in 1..end {
            let Ok(page) = self.shared.context(slot) else {
                continue;
            };
            let page = page.as_slice();
            if word32(page, offset_of!(Context, state)) != state::MARK {
                continue;
            }
            let number = word32(page, offset_of!(Context, region.mark));
            let image = word32(page, offset_of!(Context, leader));
            let thread = word32(page, offset_of!(Context, region.mark_of));
            self.marked.push(Marked {
                thread,
                number,
                slot,
            });
            let marks = &mut self.blocks.marks;
            if marks
                .iter()
                .any(|mark| (mark.image, mark.number) == (image, number))
            {
                continue;
            }
            let len = word32(page, offset_of!(Context, log_len)) as usize;
            let words = self
                .shared
                .words(slot, LOG, mark::MAX_NAME / 8)
                .unwrap_or_default();
            let bytes: Vec<u8> = words
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .take(len)
                .collect();
            let mut name = String::from_utf8_lossy(&bytes).into_owned();
            let function = word32(page, offset_of!(Context, region.mark_at));
            if let (Some(at), Ok(hooked)) = (
                (function as usize).checked_sub(1),
                self.shared.hooked.lock(),
            ) && let Some(function) = hooked.get(&image).and_then(|names| names.get(at))
            {
                name.push_str(function);
            }
            self.blocks.marks.push(Mark {
                image,
                number,
                drops: word32(page, offset_of!(Context, region.mark_kind)) == mark::ZERO,
                name,
                by: word32(page, offset_of!(Context, region.mark_by)),
            });
        }
        self.marked
            .sort_by_key(|marked| (marked.thread, marked.number));
        self.blocks
            .marks
            .sort_by_key(|mark| (mark.image, mark.number));
    }

    /// Keeps what a thread counted apart, part by part.
    pub(super) fn apart(&mut self, slot: u32, image: u32, space: u32, values: &[u64]) {
        for (part, values) in self.parts(slot, values) {
            self.blocks.counted.push(Counted {
                image,
                thread: slot,
                part,
                space,
                values,
            });
        }
    }

    /// What a thread counted, part by part.
    pub(super) fn parts(&self, slot: u32, values: &[u64]) -> Vec<(u32, Vec<u64>)> {
        let regions = self.shared.regions.as_ref();
        let apart = regions.is_some_and(|regions| regions.threads_apart);
        let mut before: Vec<u64> = Vec::new();
        let mut part = 0;
        let mut parts = Vec::new();
        let mut keep = |part, now: &[u64], before: &[u64]| {
            let before = before.iter().copied().chain(std::iter::repeat(0));
            let now = now.iter().zip(before);
            let counted = now.map(|(now, before)| now.wrapping_sub(before));
            parts.push((part, counted.collect()));
        };
        for marked in self.marked.iter().filter(|marked| marked.thread == slot) {
            let Ok(now) = self
                .shared
                .words(marked.slot, u64::from(COUNTERS), values.len())
            else {
                continue;
            };
            // (A thread that began later has nothing in front of the mark before.)
            let ended = match apart {
                true => part,
                false => marked.number.wrapping_sub(1),
            };
            keep(ended, &now, &before);
            (before, part) = (now, marked.number);
        }
        keep(part, values, &before);
        parts
    }
}
