//! The thread that reads the rings.

use super::code::{Executed, left};
use super::codes::Codes;
use super::filtered::Resolution;
use super::heap::{Heap, Scout, Words};
use super::ring::{Ring, begin_of};
use super::{Marked, References, Thread};
use crate::layout::{Context, LOG, RING, option, state};
use crate::virt::context::MappedBytes;
use crate::virt::futex;
use crate::virt::shared::Shared;
use crate::xlate::known;
use crate::xlate::references::{APART, CHUNK, CHUNKS, MARK, RING as RING_WORDS, described};
use crate::xlate::{predictor, recent};
use std::collections::{HashMap, HashSet};
use std::io;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;

const _: () = assert!(LOG < known::AT && known::END <= RING);
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

pub(super) struct Rings<'a> {
    pub(super) shared: &'a Shared,
    pub(super) sink: &'a References,
    rings: HashMap<u32, Ring>,
    /// Slots whose threads have ended, and whose rings were read to their ends.
    done: HashSet<u32>,
    pub(super) codes: Codes<'a>,
    buffer: Vec<u64>,
    /// Room for a table.
    pub(super) bytes: Vec<u8>,
    pub(super) lost: u32,
    /// There were several rings at the same time.
    several: bool,
    /// What happened to heaps, and is not told yet.
    ahead: Vec<(Thread, Heap)>,
    /// What is known to add nothing is left out.
    pub(super) filtered: bool,
    /// What the model has to know is told.
    pub(super) recent: bool,
    /// References to data are told to it.
    pub(super) models_data: bool,
    /// What the records of the process with these descriptions mean …
    pub(super) resolution: Resolution,
    /// … where they begin, as [`described`] has it …
    pub(super) base: u64,
    /// … and the same of other processes.
    pub(super) others: HashMap<u64, Resolution>,
    /// Room for a block's words.
    pub(super) words: Vec<u64>,
    /// By memory: slots with pieces of its shadow.
    pub(super) pools: HashMap<u32, Vec<u32>>,
    /// Memories whose shadow was told.
    pub(super) told: HashSet<u32>,
    /// Those whose threads have ended, as far as they were met.
    over: HashSet<u32>,
    /// All that were met.
    memories: HashSet<u32>,
}

fn serve(shared: &Shared, stop: &AtomicBool, sink: &References) {
    let filtered = shared.header().options & option::FILTERED != 0;
    let recent = shared.header().options & option::RECENT != 0;
    let mut rings = Rings {
        shared,
        sink,
        rings: HashMap::new(),
        done: HashSet::new(),
        codes: Codes::new(shared),
        buffer: Vec::new(),
        bytes: Vec::new(),
        lost: 0,
        several: false,
        ahead: Vec::new(),
        filtered,
        recent,
        models_data: recent && shared.header().options & option::NO_DATA == 0,
        resolution: Resolution::new(recent),
        base: 0,
        others: HashMap::new(),
        words: Vec::new(),
        pools: HashMap::new(),
        told: HashSet::new(),
        over: HashSet::new(),
        memories: HashSet::new(),
    };
    let bell = &shared.header().rings.bell;
    loop {
        let ending = stop.load(Ordering::Acquire);
        let rung = bell.load(Ordering::Acquire);
        rings.look(ending);
        if ending {
            if rings.filtered {
                rings.all_shadows();
                rings.count();
            }
            let sink = &sink.sink;
            let finished = || sink.lock().unwrap_or_else(PoisonError::into_inner);
            finished().finished();
            let lost = shared.header().rings.lost.load(Ordering::Acquire) + rings.lost;
            if lost != 0 {
                finished().lost(lost);
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
        let mut slots = Vec::new();
        // There may be threads that have just begun, or are about to.
        let mut unknown = false;
        for slot in 1..next.min(crate::layout::MAX_SLOTS) {
            if self.done.contains(&slot) {
                continue;
            }
            if self.open(slot).is_err() {
                self.lost += u32::from(ending);
                continue;
            }
            if let Some(ring) = self.rings.get_mut(&slot) {
                // A thread that says so notes nothing any more. (What it noted, it noted before.)
                let ended = ring.load(offset_of!(Context, state)) == state::ENDED;
                ring.upto = (
                    ring.load(offset_of!(Context, noted.filled)),
                    ending || ended,
                );
                slots.push((slot, ended));
            } else {
                unknown |= !self.done.contains(&slot);
            }
        }
        if self.sink.allocations {
            self.scout();
        }
        for (slot, ended) in slots {
            let Some(mut ring) = self.rings.remove(&slot) else {
                continue;
            };
            self.read(slot, &mut ring);
            let memory = ring.memory();
            if ring.scout.is_some_and(|scout| scout.is_behind(ring.read)) {
                ring.scout = None;
            }
            self.memories.insert(memory);
            if ended {
                drop(ring);
                self.shared.release(slot, RING, RING_BYTES);
                if self.filtered {
                    let table = known::LIES_BYTES as usize;
                    self.shared.release(slot, known::AT, table);
                    self.over.insert(memory);
                }
                if self.recent {
                    self.shared
                        .release(slot, recent::TABLE, predictor::BYTES as usize);
                }
                self.done.insert(slot);
            } else if !ending {
                self.rings.insert(slot, ring);
            }
        }
        if !unknown && !self.over.is_empty() {
            for ring in self.rings.values() {
                self.over.remove(&ring.memory());
            }
            for memory in std::mem::take(&mut self.over) {
                self.shadow(memory);
            }
        }
    }

    /// What was done in every memory that was not told yet.
    fn all_shadows(&mut self) {
        let mut memories: Vec<u32> = self.memories.iter().copied().collect();
        memories.sort_unstable();
        for memory in memories {
            self.shadow(memory);
        }
    }

    /// Tells what happened to heaps in all rings, where there are several, before any of them is read on.
    fn scout(&mut self) {
        if self.rings.len() < 2 && !self.several {
            return;
        }
        self.several = true;
        // (What the only thread of a memory says that is read on now, nobody else meets before.)
        let mut reading: HashMap<u32, u32> = HashMap::new();
        for ring in self.rings.values().filter(|ring| ring.goes_on()) {
            *reading.entry(ring.memory()).or_default() += 1;
        }
        // What happens while rings are looked through may be in one of them, and what was before in none.
        let now = self.shared.header().rings.time.load(Ordering::Acquire);
        let mut found = std::mem::take(&mut self.ahead);
        for (&slot, ring) in &mut self.rings {
            let memory = ring.memory();
            let thread = Thread { slot, memory };
            if ring.goes_on() && reading.get(&memory) == Some(&1) {
                continue;
            }
            let mut scout = ring.scout.unwrap_or_else(|| {
                let mut words = ring.heap;
                // What was said behind the block that was kept for later.
                let kept = ring.last.first().map(|&head| described(head, ring.base()));
                let kept = kept.and_then(|place| self.codes.find(place));
                let kept = kept.and_then(|code| self.codes.get(code));
                let marks = ring.last.get(kept.map_or(0, |code| code.words)..);
                let marks = marks.unwrap_or(&[]).iter();
                found.extend(marks.filter_map(|&mark| Some((thread, words.take(mark)?))));
                Scout::new(ring.read, words)
            });
            let codes = (!self.filtered).then_some(&mut self.codes);
            scout.look(ring, codes, &mut self.buffer, &mut |heap| {
                found.push((thread, heap));
            });
            ring.scout = Some(scout);
        }
        found.sort_by_key(|(_, heap)| heap.time);
        let known = found.partition_point(|(_, heap)| heap.time <= now);
        self.ahead = found.split_off(known);
        let mut sink = self
            .sink
            .sink
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (thread, heap) in found {
            sink.heap(thread, &heap, true);
        }
    }

    /// Maps a thread's ring, once there is one.
    fn open(&mut self, slot: u32) -> io::Result<()> {
        if self.rings.contains_key(&slot) {
            return Ok(());
        }
        let context = self.shared.map_bytes(slot, 0, size_of::<Context>())?;
        let word = |at| context.atomic(at).map_or(0, |w| w.load(Ordering::Acquire));
        if word(offset_of!(Context, state)) == state::LOG {
            if self.filtered {
                self.pool(slot, &context);
                self.done.insert(slot);
            }
            return Ok(());
        }
        if word(offset_of!(Context, noted.position)) == 0
            || word(offset_of!(Context, state)) == state::FREE
        {
            return Ok(());
        }
        let ring = self.shared.map_bytes(slot, RING, RING_BYTES)?;
        let ring = Ring {
            context,
            ring,
            read: 0,
            last: Vec::new(),
            heap: Words::default(),
            scout: None,
            upto: (0, false),
        };
        self.rings.insert(slot, ring);
        Ok(())
    }

    fn read(&mut self, slot: u32, ring: &mut Ring) {
        let base = ring.base();
        let Ring {
            context,
            ring: words,
            read,
            last,
            heap,
            scout: _,
            upto: (upto, ending),
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
        while *read != *upto {
            let part = *read % CHUNKS;
            let end = load(offset_of!(Context, noted.ends) + 4 * part as usize);
            let all = (begin_of(&load, part), end);
            self.part(thread, (words, base), (part, all), (last, heap), true);
            *read = read.wrapping_add(1);
            if let Some(word) = atomic(offset_of!(Context, noted.read)) {
                word.store(*read, Ordering::Release);
                futex::wake(word);
            }
        }
        if *ending {
            let part = *read % CHUNKS;
            let end = load(offset_of!(Context, noted.position));
            let all = (begin_of(&load, part), end);
            self.part(thread, (words, base), (part, all), (last, heap), whole);
            self.last(thread, last, base);
            let sink = self.sink.clone();
            let mut sink = sink.sink.lock().unwrap_or_else(PoisonError::into_inner);
            if self.filtered {
                sink.turn(thread);
                self.turn(base);
                self.lies(thread, &mut *sink);
            }
            sink.ended(thread);
        }
    }

    /// Blocks of a part from `start` up to `end`. `whole`: the last one is.
    fn part(
        &mut self,
        thread: Thread,
        (ring, base): (&MappedBytes, u64),
        (part, (start, end)): (u32, (u32, u32)),
        (last, heap): (&mut Vec<u64>, &mut Words),
        whole: bool,
    ) {
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
        let mut sink = sink.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.turn(thread);
        if self.filtered {
            self.records((thread, base), &buffer, heap, &mut *sink);
            drop(sink);
            self.buffer = buffer;
            return;
        }
        let mut rest = buffer.as_slice();
        // What the next block is, once it was looked up.
        let mut known = None;
        while let Some(&head) = rest.first() {
            if head & MARK != 0 {
                if let Some(heap) = heap.take(head) {
                    sink.heap(thread, &heap, false);
                } else if let Some(marked) = Marked::of(head) {
                    sink.marked(thread, marked);
                }
                rest = rest.get(1..).unwrap_or(&[]);
                continue;
            }
            let own = known
                .take()
                .or_else(|| self.codes.block(described(head, base)));
            let Some(own) = own else {
                self.lost += 1;
                break;
            };
            let (words, behind) = rest.split_at((own.words as usize).min(rest.len()));
            let marks = behind.iter().take_while(|&&head| head & MARK != 0).count();
            let Some(&following) = behind.get(marks) else {
                if whole {
                    last.extend_from_slice(rest);
                }
                break;
            };
            known = self.codes.block(described(following, base));
            let mut marks = behind.iter().take(marks);
            let resumes = marks.find_map(|&mark| super::resumes(mark));
            let next = resumes.or_else(|| known.map(|next| next.pc));
            if let Some(code) = self.codes.get(own.number) {
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
    fn last(&mut self, thread: Thread, words: &[u64], base: u64) {
        let Some(&head) = words.first() else { return };
        let sink = self.sink.clone();
        let mut sink = sink.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.turn(thread);
        let code = self.codes.find(described(head, base));
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
