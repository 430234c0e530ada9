//! The lines that a model has in front of its sets (`xlate::recent`), and the routines that translated code goes through
//! with another one. Every register stays as it is. A signal that finds a thread here is stepped on to the end of the
//! instruction.

mod ranges;
mod routines;

use crate::block::Block;
use crate::entry::address;
use crate::known::{self, pc_of, word};
use crate::layout::{Context, option};
use crate::masked;
use crate::predictor;
use crate::ring;
use crate::slots;
use crate::xlate::known::{Is, Literal, Record};
use crate::xlate::levels::{Known, LINE_BITS, Model, Recent, WAYS};
use crate::xlate::recent::{CODE_TABLE, Cache, SLOTS, TABLE, code_number};
use core::cmp::Reverse;
use core::mem::offset_of;
use core::ops::{Range, RangeInclusive};
use routines::{rt_forget, rt_recent, rt_recent_code, rt_recent_end};

/// Where the routines are.
pub fn range() -> Range<u64> {
    address(rt_recent)..address(rt_recent_end)
}

/// Whether the model's lines are looked at.
pub fn on() -> bool {
    slots::header().options & option::RECENT != 0
}

/// How blocks leave out what changes nothing in the model; `None`: they do not.
pub fn recent() -> Option<Recent> {
    let header = slots::header();
    on().then(|| Recent {
        mask: header.sets.data.saturating_sub(1),
        code_mask: header.sets.code.saturating_sub(1),
        code_bits: header.sets.code_bits,
        branches: header.options & option::NO_BRANCHES == 0,
        predicted: predictor::on(),
        data: header.options & option::NO_DATA == 0,
        fetches: header.options & option::NO_FETCHES == 0,
        clock: offset_of!(Context, noted.known.clock) as u32,
        vector_code: offset_of!(Context, noted.known.vector_code) as u32,
        vector_ring: offset_of!(Context, noted.known.vector_ring) as u32,
    })
}

/// A thread's context.
pub fn prepare(context: &mut Context) {
    let Some(recent) = recent() else { return };
    predictor::prepare(context);
    let known = &mut context.noted.known;
    known.recent = u32::from(recent.data);
    (known.mask, known.code_mask) = (recent.mask, recent.code_mask);
    let sets = &slots::header().sets;
    known.ways = sets.data_ways.clamp(1, WAYS);
    known.code_ways = sets.code_ways.clamp(1, WAYS);
    known.whole = u32::from(sets.data_ways <= WAYS);
    known.code_whole = u32::from(sets.code_ways <= WAYS);
    known.longest = sets.longest;
    known.clock = known.clock.max(1);
    known.vector_code = address(rt_recent_code);
    known.vector_ring = known::room();
    if recent.data {
        known.vector_room = address(rt_forget);
        known.vector_masked = masked::routine();
        known.vector_note = match slots::header().options & option::NO_LINES {
            0 => known::note(),
            _ => address(rt_recent),
        };
        known.vector_alone = known.vector_note;
    }
}

/// Instruction `done` of a block was noted and not executed, or is going to be once more: what was noted of it last was
/// not. `branch`: that is a branch, too. `counted`: so often was the block counted since the instruction's lines were looked
/// at. (What the ring ends with may be of an earlier execution. A line that was known was used.)
pub fn take_back(context: &mut Context, block: &Block, done: u16, mut branch: bool, counted: u64) {
    // (Behind marks nothing can be taken away.)
    if !on() || context.noted.marked == context.noted.position {
        return;
    }
    let start = ring::begin(context);
    let counter = block.executions(context);
    let mut before = None;
    loop {
        let position = context.noted.position;
        let ours = |words: u32| {
            let at = position.checked_sub(words).filter(|&at| at >= start)?;
            // SAFETY: a word of the thread's ring.
            let record = Record(unsafe { word(context, at).read() });
            let number = record.model().map_or(record.number(), |(_, number)| number);
            let is = record.is().filter(|_| record.as_known().is_none())?;
            let ours = number == usize::from(done) && pc_of(context, record) == Some(block.pc);
            (ours && before != Some(record.meaning())).then_some((record, is))
        };
        let known = &context.noted.known;
        let fetched = known.fetched.wrapping_add(counted) == counter;
        let (record, words) = match (ours(1), ours(2)) {
            (Some((record, Is::Model(Model::Conditional(_)))), _) if branch => (record, 1),
            (Some((record, Is::Model(Model::Fetch))), _)
                if fetched && go_out(context, true, counter.wrapping_sub(counted)) =>
            {
                (record, 1)
            }
            (_, Some((record, Is::Model(Model::Indirect)))) if branch => (record, 2),
            (_, Some((record, Is::Reference(_))))
                // (By one for the facts alone no line came in: what did was another one's.)
                if known.told == counter
                    && (record.0 & Record::FACTS != 0
                        || go_out(context, false, counter)
                        || record.0 & Record::ALL != 0) =>
            {
                (record, 2)
            }
            _ => return,
        };
        // (With what was told of known lines before.)
        let first = position - words;
        let from = match record.is() {
            Some(Is::Reference(_)) => context.noted.known.from[0],
            Some(Is::Model(Model::Fetch)) => context.noted.known.from[1],
            _ => first,
        };
        context.noted.position = if (start..first).contains(&from) {
            from
        } else {
            first
        };
        before = Some(record.meaning());
        // (It has one; the same one of an earlier execution may have gone the other way.)
        branch &= matches!(record.is(), Some(Is::Reference(_)));
    }
}

/// What is known of data, or of instructions.
fn cache(context: &Context, code: bool) -> *mut Cache {
    (context.this + if code { CODE_TABLE } else { TABLE }) as *mut Cache
}

/// One less than there are sets there.
fn mask(context: &Context, code: bool) -> u32 {
    let known = &context.noted.known;
    if code { known.code_mask } else { known.mask }
}

/// The line that came in last, when the block's counter was this, was not used: it goes out. `false`: none did then.
fn go_out(context: &Context, code: bool, counter: u64) -> bool {
    let came = context.noted.known.came[usize::from(code)];
    if came.line == 0 || came.seen != counter {
        return false;
    }
    let set = came.line as u32 & mask(context, code);
    // SAFETY: the thread's own; it is in the runtime.
    let cache = unsafe { &mut *cache(context, code) };
    let slot = came.line as usize % SLOTS as usize;
    let place = came.place as usize;
    let (Some(row), Some(known), Some(aside)) = (
        cache.rows.get_mut(set as usize),
        cache.known.get_mut(set as usize),
        cache.aside.get_mut(set as usize),
    ) else {
        return false;
    };
    let (Some(line), Some(time)) = (row.lines.get_mut(place), row.times.get_mut(place)) else {
        return false;
    };
    if *line != came.line || came.went == 0 && place + 1 != *known as usize {
        return false;
    }
    (*line, *time) = (came.went, came.time);
    *known -= u32::from(came.went == 0);
    *aside += u32::from(came.went != 0);
    match cache.places.get_mut(slot) {
        Some(in_place) if in_place.line == came.line => in_place.line = 0,
        _ => *aside = aside.saturating_sub(1),
    }
    true
}

/// What the thread does from here on is told again, or is not: no line is known.
pub fn forget_all(context: &mut Context) {
    if on() {
        forget(context, true, 0..=mask(context, true));
        forget(context, false, 0..=mask(context, false));
        context.noted.known.any = 0;
    }
}

/// No line of data that the instruction of a literal is about to reference is known from here on; what was is told.
pub fn forget_for(context: &mut Context, literal: &Literal) {
    let mask = mask(context, false);
    let referenced = match Record(literal.record).is() {
        Some(Is::Masked(_)) => {
            let first = context.noted.known.address;
            let last = first.saturating_add(u64::from(literal.size.max(1)) - 1);
            Some([Some((first, last)), None])
        }
        _ => ranges::of(context, literal),
    };
    let Some(referenced) = referenced else {
        forget(context, false, 0..=mask);
        context.noted.known.any = 0;
        return;
    };
    for (first, last) in referenced.into_iter().flatten() {
        let (first, last) = (first >> LINE_BITS, last >> LINE_BITS);
        if last - first >= u64::from(mask) {
            forget(context, false, 0..=mask);
        } else {
            for line in first..=last {
                let set = line as u32 & mask;
                forget(context, false, set..=set);
            }
        }
    }
}

/// Nothing of these sets is known from here on; what was is told.
fn forget(context: &mut Context, code: bool, sets: RangeInclusive<u32>) {
    for set in sets {
        // SAFETY: the thread's own; it is in the runtime, and nothing else there looks at it.
        let cache = unsafe { &mut *cache(context, code) };
        let (Some(known), Some(row)) = (
            cache.known.get_mut(set as usize),
            cache.rows.get_mut(set as usize),
        ) else {
            return;
        };
        let many = core::mem::take(known) as usize;
        if let Some(aside) = cache.aside.get_mut(set as usize) {
            *aside = 0;
        }
        let mut lines = [(0u64, 0u64); WAYS as usize];
        for ((to, line), time) in lines
            .iter_mut()
            .zip(&mut row.lines)
            .zip(row.times)
            .take(many)
        {
            let slot = *line as usize % SLOTS as usize;
            *to = (time, core::mem::take(line));
            let Some(in_place) = cache.places.get_mut(slot) else {
                return;
            };
            if in_place.line == to.1 {
                to.0 = in_place.time;
                in_place.line = 0;
            }
        }
        // (What is of no use to anybody is not told.)
        if context.noted.idle != 0 || many == 0 {
            continue;
        }
        let lines = lines.get_mut(..many).unwrap_or(&mut []);
        lines.sort_unstable_by_key(|line| Reverse(line.0));
        let record = Record::known(Known {
            code,
            set,
            lines: many,
        });
        let mut words = [record.0; WAYS as usize + 1];
        let places = words.iter_mut().skip(1);
        for (to, line) in places.zip(&*lines) {
            *to = if code { code_number(line.1) } else { line.1 };
        }
        ring::put(context, words.get(..=many).unwrap_or(&[]));
    }
}
