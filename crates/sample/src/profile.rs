//! Samples summed up by where they fell: per event, process, thread, CPU and call chain.

use rustc_hash::FxHashMap;

use crate::abi::{branch as br, context, misc};
use crate::error::Result;
use crate::file::{Losses, Recording};
use crate::record::Body;
use crate::sample::Sample;
use crate::spaces::{AddressSpaces, KERNEL_SPACE, MappedFile, SpaceId, is_kernel_address};
use crate::symbols::Symbols;
pub use crate::unwind::ChainEnd;
use crate::unwind::StackUnwinder;

/// A place in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodePlace {
    /// Index into [`Profile::files`]; `None`: nothing is known to be mapped there.
    pub file: Option<u32>,
    /// Offset in the file, or the address. Of a caller it is the last byte of its call.
    pub offset: u64,
    /// In the kernel.
    pub kernel: bool,
}

/// What samples have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Context {
    /// Index of the event.
    pub event: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU, when recorded.
    pub cpu: Option<u32>,
    /// Index into [`Profile::comms`].
    pub comm: u32,
    /// The call chain, innermost first; only the sampled place when none was recorded.
    pub frames: Box<[CodePlace]>,
    /// Why a recorded stack was not unwound to its beginning.
    pub early_end: Option<ChainEnd>,
}

/// How much fell there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weight {
    /// Samples.
    pub samples: u64,
    /// Events they stand for: their periods, summed.
    pub events: u64,
}

impl Weight {
    /// Adds another.
    pub fn add(&mut self, more: Self) {
        self.samples = self.samples.saturating_add(more.samples);
        self.events = self.events.saturating_add(more.events);
    }
}

impl Profile {
    /// What a reader of call chains must know: how many recorded stacks were not unwound to their beginning, where
    /// they ended and why, one line each, the most frequent first. Empty where all were, or none was recorded.
    #[must_use]
    pub fn early_ends(&self) -> Vec<String> {
        let all: u64 = self.chain_ends.iter().map(|(_, n)| n).sum();
        let early = self.chain_ends.iter().filter(|(end, _)| !end.is_whole());
        early
            .map(|(end, n)| {
                let share = *n as f64 * 100.0 / all.max(1) as f64;
                let path = self.path_of(*end);
                format!(
                    "{share:.1} % of the recorded stacks end early {}",
                    end.explain(path)
                )
            })
            .collect()
    }

    /// The path of the file in which a chain ended; empty where it is unknown.
    #[must_use]
    pub fn path_of(&self, end: ChainEnd) -> &str {
        let file = end.file().and_then(|file| self.files.get(file as usize));
        file.map_or("", |file| file.path.as_str())
    }
}

/// All samples of a recording.
#[derive(Debug, Default)]
pub struct Profile {
    /// Summed up; the order is that of first occurrence.
    pub entries: Vec<(Context, Weight)>,
    /// Names of processes.
    pub comms: Vec<String>,
    /// Files.
    pub files: Vec<MappedFile>,
    /// Names of the events.
    pub events: Vec<String>,
    /// Samples without an instruction pointer, which are in no entry.
    pub without_ip: u64,
    /// Recorded call chains: samples with more than one frame.
    pub with_chain: u64,
    /// Why and where the chains of recorded stacks ended, the most frequent first.
    pub chain_ends: Vec<(ChainEnd, u64)>,
    /// Each sample with a time, in the file's order: nanoseconds, index into `entries`, events.
    pub timeline: Vec<(u64, u32, u64)>,
    /// Where the kernel's text was, when the recording says so.
    pub kernel_text: Option<u64>,
    /// What the recording lost.
    pub losses: Losses,
}

/// Sums up a recording. `symbols` finds the files whose unwind tables recorded stacks need.
///
/// # Errors
/// As [`Recording::decode`].
pub fn collect(recording: &Recording, symbols: &mut Symbols) -> Result<Profile> {
    let spaces = AddressSpaces::build(recording)?;
    symbols.place_binary(spaces.files())?;
    let aarch64 = recording.features().arch.as_deref() == Some("aarch64");
    let mut unwinder = StackUnwinder::new(aarch64);
    let mut out = Profile {
        events: recording.events().iter().map(|e| e.name.clone()).collect(),
        losses: recording.losses()?,
        ..Profile::default()
    };
    let mut index: FxHashMap<Context, usize> = FxHashMap::default();
    let mut comms: FxHashMap<String, u32> = FxHashMap::default();
    let mut chain = Vec::new();
    let mut ends: FxHashMap<ChainEnd, u64> = FxHashMap::default();
    for record in recording.records() {
        let (Body::Sample(sample), id, event) = recording.decode(&record?)? else {
            continue;
        };
        let Some(ip) = sample.ip else {
            out.without_ip += 1;
            continue;
        };
        let pid = id.pid.unwrap_or(0);
        let space = spaces.space(pid, id.time);
        let call_stack = recording
            .events()
            .get(event)
            .is_some_and(|e| e.attr.branch_sample_type & br::CALL_STACK != 0);
        chain.clear();
        let place = Placer {
            spaces: &spaces,
            space,
        };
        place.chain(&sample, ip, call_stack, &mut chain);
        let mut early_end = None;
        if sample.regs_user.is_some() {
            let user = unwinder.unwind(&spaces, symbols, space, &sample);
            place.append_user(&user.frames, &mut chain);
            *ends.entry(user.end).or_insert(0) += 1;
            early_end = Some(user.end).filter(|end| !end.is_whole());
        }
        out.with_chain += u64::from(chain.len() > 1);
        let name = match spaces.comm(pid, id.time) {
            Some(name) => name.to_owned(),
            // The idle task, which no record names (`perf` calls it so too).
            None if pid == 0 => "swapper".to_owned(),
            None => format!("pid {pid}"),
        };
        let next = out.comms.len() as u32;
        let comm = *comms.entry(name).or_insert_with_key(|name| {
            out.comms.push(name.clone());
            next
        });
        let key = Context {
            event: event as u32,
            pid,
            tid: id.tid.unwrap_or(0),
            cpu: id.cpu,
            comm,
            frames: chain.as_slice().into(),
            early_end,
        };
        let fixed = recording.events().get(event).map_or(1, |e| {
            if e.attr.is_freq() {
                1
            } else {
                e.attr.period_or_freq
            }
        });
        let weight = sample.period.unwrap_or(fixed);
        let at = *index.entry(key).or_insert_with_key(|key| {
            out.entries.push((key.clone(), Weight::default()));
            out.entries.len() - 1
        });
        if let Some(time) = id.time {
            out.timeline.push((time, at as u32, weight));
        }
        if let Some((_, sum)) = out.entries.get_mut(at) {
            sum.samples += 1;
            sum.events = sum.events.saturating_add(weight);
        }
    }
    out.chain_ends = ends.into_iter().collect();
    out.chain_ends
        .sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    out.files = spaces.files().to_vec();
    let is_text = |file: u32| {
        out.files
            .get(file as usize)
            .is_some_and(|f| f.path.starts_with("[kernel"))
    };
    out.kernel_text = spaces
        .mappings(KERNEL_SPACE)
        .find(|(_, _, file)| is_text(*file))
        .map(|(range, ..)| range.start);
    Ok(out)
}

/// Turns addresses into places.
struct Placer<'a> {
    spaces: &'a AddressSpaces,
    space: SpaceId,
}

/// Whether the addresses of a processor mode (`misc`) or behind a context marker are the kernel's.
fn is_kernel_mode(mode: u16, address: u64) -> bool {
    match mode & misc::CPUMODE_MASK {
        misc::USER | misc::GUEST_USER => false,
        misc::KERNEL | misc::HYPERVISOR | misc::GUEST_KERNEL => true,
        // Recorders that do not say it.
        _ => is_kernel_address(address),
    }
}

impl Placer<'_> {
    fn place(&self, address: u64, kernel: bool) -> CodePlace {
        let space = if kernel { KERNEL_SPACE } else { self.space };
        match self.spaces.resolve(space, address) {
            Some((file, offset)) => CodePlace {
                file: Some(file),
                offset,
                kernel,
            },
            None => CodePlace {
                file: None,
                offset: address,
                kernel,
            },
        }
    }

    /// The recorded chain. Its first address, and the first after a change of context, are instructions; the
    /// others are return addresses, whose call lies before them. Whose an address is, the marker before it says
    /// (`PERF_CONTEXT_*`), not its value: without frame pointers a user chain is full of numbers that are no addresses.
    fn chain(&self, sample: &Sample<'_>, ip: u64, call_stack: bool, out: &mut Vec<CodePlace>) {
        let mut exact = true;
        let mut kernel = is_kernel_mode(sample.misc, ip);
        let sampled = self.place(ip, kernel);
        for address in sample.callchain.iter() {
            if address >= context::MAX {
                exact = true;
                kernel = match address {
                    context::USER | context::USER_DEFERRED | context::GUEST_USER => false,
                    context::KERNEL | context::HV | context::GUEST_KERNEL => true,
                    _ => kernel,
                };
                continue;
            }
            let at = if exact {
                address
            } else {
                address.saturating_sub(1)
            };
            exact = false;
            out.push(self.place(at, kernel));
        }
        if call_stack && let Some(stack) = sample.branches {
            // In call-stack mode every entry is a call that has not returned: its `from` is the caller. The
            // chain of frame pointers that the kernel adds tells less. The hardware keeps calls of user mode only
            // (`PERF_SAMPLE_BRANCH_CALL_STACK` with `_USER` in arch/x86/events/intel/lbr.c).
            out.retain(|place| place.kernel);
            if !sampled.kernel {
                out.push(sampled);
            }
            let callers = stack.iter().filter(|e| e.from != 0);
            out.extend(callers.map(|e| self.place(e.from, false)));
        }
        if out.is_empty() {
            out.push(sampled);
        }
    }

    /// An unwound user chain behind the kernel's part.
    fn append_user(&self, user: &[u64], out: &mut Vec<CodePlace>) {
        if user.is_empty() {
            return;
        }
        out.retain(|place| place.kernel);
        for (i, address) in user.iter().enumerate() {
            // framehop gives the addresses of return addresses as they are.
            let at = if i == 0 {
                *address
            } else {
                address.saturating_sub(1)
            };
            out.push(self.place(at, false));
        }
    }
}
