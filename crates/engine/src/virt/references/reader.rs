//! The thread that reads the rings.

use super::code::{Executed, left};
use super::codes::Codes;
use super::{Marked, References, Thread};
use crate::layout::{Context, RING, state};
use crate::virt::context::MappedBytes;
use crate::virt::futex;
use crate::virt::shared::Shared;
use crate::xlate::references::{APART, CHUNK, CHUNKS, MARK, RING as RING_WORDS};
use std::collections::{HashMap, HashSet};
use std::io;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;

/// Bytes of a ring.
const RING_BYTES: usize = RING_WORDS as usize * 8;

/// Reads rings until the run's end.
pub(in crate::virt) struct Reader {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Reader {
    pub(in crate::virt) fn start(shared: &Arc<Shared>, sink: &References) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, ends, sink) = (Arc::clone(shared), Arc::clone(&stop), sink.clone());
        let thread = thread::Builder::new().spawn(move || serve(&theirs, &ends, &sink))?;
        Ok(Self {
            shared: Arc::clone(shared),
            stop,
            thread: Some(thread),
        })
    }

    /// Reads what is left; the program has ended.
    pub(in crate::virt) fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        let bell = &self.shared.header().rings.bell;
        bell.fetch_add(1, Ordering::AcqRel);
        futex::wake(bell);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.end();
    }
}

/// A thread's ring, and how far it was read.
struct Ring {
    context: MappedBytes,
    ring: MappedBytes,
    /// Parts read.
    read: u32,
    /// The last block of the part before: where it was described, its words.
    last: Vec<u64>,
}

struct Rings<'a> {
    shared: &'a Shared,
    sink: &'a References,
    rings: HashMap<u32, Ring>,
    /// Slots whose threads have ended, and whose rings were read to their ends.
    done: HashSet<u32>,
    codes: Codes<'a>,
    buffer: Vec<u64>,
    lost: u32,
}

fn serve(shared: &Shared, stop: &AtomicBool, sink: &References) {
    let mut rings = Rings {
        shared,
        sink,
        rings: HashMap::new(),
        done: HashSet::new(),
        codes: Codes::new(shared),
        buffer: Vec::new(),
        lost: 0,
    };
    let bell = &shared.header().rings.bell;
    loop {
        let ending = stop.load(Ordering::Acquire);
        let rung = bell.load(Ordering::Acquire);
        rings.look(ending);
        if ending {
            let lost = shared.header().rings.lost.load(Ordering::Acquire) + rings.lost;
            if lost != 0 {
                let mut sink = sink.0.lock().unwrap_or_else(PoisonError::into_inner);
                sink.lost(lost);
            }
            return;
        }
        // At the latest after a second it is looked again: a process may be killed before it rings.
        futex::wait(bell, rung);
    }
}

impl Rings<'_> {
    /// Reads every full part, and at the end what else there is.
    fn look(&mut self, ending: bool) {
        let next = self.shared.header().next_slot.load(Ordering::Acquire);
        for slot in 1..next.min(crate::layout::MAX_SLOTS) {
            if self.done.contains(&slot) {
                continue;
            }
            if self.open(slot).is_err() {
                self.lost += u32::from(ending);
                continue;
            }
            let Some(mut ring) = self.rings.remove(&slot) else {
                continue;
            };
            let state = ring.context.atomic(offset_of!(Context, state));
            // A thread that says so notes nothing any more. (What it noted, it noted before.)
            let ended = state.is_some_and(|word| word.load(Ordering::Acquire) == state::ENDED);
            self.read(slot, &mut ring, ending || ended);
            if ended {
                drop(ring);
                self.shared.release(slot, RING, RING_BYTES);
                self.done.insert(slot);
            } else if !ending {
                self.rings.insert(slot, ring);
            }
        }
    }

    /// Maps a thread's ring, once there is one.
    fn open(&mut self, slot: u32) -> io::Result<()> {
        if self.rings.contains_key(&slot) {
            return Ok(());
        }
        let context = self.shared.map_bytes(slot, 0, size_of::<Context>())?;
        let word = |at| context.atomic(at).map_or(0, |w| w.load(Ordering::Acquire));
        if word(offset_of!(Context, noted.position)) == 0
            || matches!(word(offset_of!(Context, state)), state::FREE | state::LOG)
        {
            return Ok(());
        }
        let ring = self.shared.map_bytes(slot, RING, RING_BYTES)?;
        let ring = Ring {
            context,
            ring,
            read: 0,
            last: Vec::new(),
        };
        self.rings.insert(slot, ring);
        Ok(())
    }

    fn read(&mut self, slot: u32, ring: &mut Ring, ending: bool) {
        let Ring {
            context,
            ring: words,
            read,
            last,
        } = ring;
        let atomic = |at| context.atomic(at);
        let load = |at| atomic(at).map_or(0, |word| word.load(Ordering::Acquire));
        let thread = Thread {
            slot,
            memory: load(offset_of!(Context, space)),
        };
        // Not 0 if it was stopped where its count is whole.
        let whole = load(offset_of!(Context, whole)) != 0
            || load(offset_of!(Context, state)) != state::LIVE;
        while *read != load(offset_of!(Context, noted.filled)) {
            let part = *read % CHUNKS;
            let end = load(offset_of!(Context, noted.ends) + 4 * part as usize);
            self.part(thread, words, part, end, last, true);
            *read = read.wrapping_add(1);
            if let Some(word) = atomic(offset_of!(Context, noted.read)) {
                word.store(*read, Ordering::Release);
                futex::wake(word);
            }
        }
        if ending {
            let part = *read % CHUNKS;
            let end = load(offset_of!(Context, noted.position));
            self.part(thread, words, part, end, last, whole);
            self.last(thread, last);
        }
    }

    /// Blocks from the start of a part up to `end`. `whole`: the last one is.
    fn part(
        &mut self,
        thread: Thread,
        ring: &MappedBytes,
        part: u32,
        end: u32,
        last: &mut Vec<u64>,
        whole: bool,
    ) {
        let start = part * CHUNK + APART;
        if end < start || end > (part + 1) * CHUNK + APART {
            self.lost += 1;
            return;
        }
        // The last block of the part before comes first, now that it is known what follows.
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.append(last);
        let kept = buffer.len();
        buffer.resize(kept + (end - start) as usize, 0);
        ring.copy(start as usize, buffer.get_mut(kept..).unwrap_or(&mut []));
        let sink = self.sink.clone();
        let mut sink = sink.0.lock().unwrap_or_else(PoisonError::into_inner);
        sink.turn(thread);
        let mut rest = buffer.as_slice();
        // What the next block is, once it was looked up.
        let mut known = None;
        while let Some(&head) = rest.first() {
            if let Some(marked) = Marked::of(head) {
                sink.marked(thread, marked);
                rest = rest.get(1..).unwrap_or(&[]);
                continue;
            }
            let Some(code) = known.take().or_else(|| self.codes.find(head)) else {
                self.lost += 1;
                break;
            };
            let length = self.codes.get(code).map_or(1, |code| code.words);
            let (words, behind) = rest.split_at(length.min(rest.len()));
            let marks = behind.iter().take_while(|&&head| head & MARK != 0).count();
            let Some(&following) = behind.get(marks) else {
                if whole {
                    last.extend_from_slice(rest);
                }
                break;
            };
            known = self.codes.find(following);
            let next = known.and_then(|next| self.codes.get(next));
            let next = next.map(|code| code.pc);
            if let Some(code) = self.codes.get(code) {
                let (done, interrupted) = left(head, code);
                sink.executed(
                    thread,
                    &Executed {
                        code,
                        done,
                        interrupted,
                        words,
                        next,
                    },
                );
            }
            rest = behind;
        }
        drop(sink);
        self.buffer = buffer;
    }

    /// The block that nothing follows.
    fn last(&mut self, thread: Thread, words: &[u64]) {
        let Some(&head) = words.first() else { return };
        let sink = self.sink.clone();
        let mut sink = sink.0.lock().unwrap_or_else(PoisonError::into_inner);
        sink.turn(thread);
        let code = self.codes.find(head);
        if let Some(code) = code.and_then(|code| self.codes.get(code)) {
            let (done, interrupted) = left(head, code);
            let words = words.get(..code.words).unwrap_or(words);
            let next = None;
            sink.executed(
                thread,
                &Executed {
                    code,
                    done,
                    interrupted,
                    words,
                    next,
                },
            );
        }
    }
}
