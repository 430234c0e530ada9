//! An analysis with names: what the renderings share.

use std::path::Path;

use truecount_sample::Recording;
use truecount_sample::blocks::{Analysis, Block, Loop, PrefetchWindow};
use truecount_sample::code::{BlockCode, Isa};
use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{Location, SearchPath, Symbols, parse_number};

use crate::failure::Failure;
use crate::recording::unreadable;
use truecount_model::number::grouped;
use truecount_record::names::base_name;

/// More instructions a cycle than any CPU retires: the time of such a block belongs to its neighbours.
pub(super) const WIDEST: f64 = 8.0;

pub(super) struct View<'a> {
    pub(super) path: &'a Path,
    pub(super) analysis: Analysis,
    pub(super) cpu: Option<String>,
    pub(super) command: Option<String>,
    pub(super) truncated: bool,
    symbols: Symbols,
}

impl<'a> View<'a> {
    pub(super) fn new(
        path: &'a Path,
        analysis: Analysis,
        recording: Option<&Recording>,
        search: SearchPath,
    ) -> Result<Self, Failure> {
        let mut symbols = Symbols::new(search);
        symbols
            .place_binary(&analysis.files)
            .map_err(|e| unreadable(path, &e))?;
        let features = recording.map(Recording::features);
        let command = features
            .map(|f| f.command_line.join(" "))
            .filter(|c| !c.is_empty());
        Ok(Self {
            path,
            analysis,
            cpu: features.and_then(|f| f.cpu_description.clone()),
            command,
            truncated: recording.is_some_and(Recording::is_truncated),
            symbols,
        })
    }

    pub(super) fn block(&self, at: usize) -> Option<&Block> {
        self.analysis.blocks.get(at)
    }

    fn file(&self, index: Option<u32>) -> Option<&MappedFile> {
        self.analysis.files.get(index? as usize)
    }

    pub(super) fn locate(&mut self, file: Option<u32>, offset: u64) -> Location {
        match file.and_then(|i| self.analysis.files.get(i as usize)) {
            Some(file) => self.symbols.locate(file, offset),
            None => Location::default(),
        }
    }

    /// `main+69`, `program+0x1225`, `0xffff…`.
    pub(super) fn place(&mut self, file: Option<u32>, offset: u64) -> String {
        let found = self.locate(file, offset);
        if let Some(outer) = found.frames.last() {
            return format!("{}+{}", outer.function, found.offset);
        }
        match self.file(file) {
            Some(file) => format!("{}+{offset:#x}", base_name(&file.path)),
            None => format!("{offset:#x}"),
        }
    }

    /// `main+69 → +167`.
    pub(super) fn block_name(&mut self, at: usize) -> String {
        let Some(block) = self.block(at) else {
            return "(unknown)".to_owned();
        };
        let (file, start, end) = (block.file, block.start, block.end);
        let from = self.place(file, start);
        let to = self.place(file, end);
        match (from.rsplit_once('+'), to.rsplit_once('+')) {
            (Some((name, _)), Some((same, offset))) if name == same => {
                format!("{from} → +{offset}")
            }
            _ => format!("{from} → {to}"),
        }
    }

    /// `file.c:12-18`.
    pub(super) fn source(&mut self, at: usize) -> Option<String> {
        let (file, start, end) = self.block(at).map(|b| (b.file, b.start, b.end))?;
        let line = |l: &Location| {
            let inner = l.frames.first()?;
            Some((inner.file.clone()?, inner.line?))
        };
        let (name, first) = line(&self.locate(file, start))?;
        let short = base_name(&name).to_owned();
        match line(&self.locate(file, end)) {
            Some((same, last)) if same == name && last != first => {
                Some(format!("{short}:{}-{}", first.min(last), first.max(last)))
            }
            _ => Some(format!("{short}:{first}")),
        }
    }

    /// The block's instructions, or why there are none.
    pub(super) fn code(&mut self, at: usize) -> Result<BlockCode, String> {
        let block = self.analysis.blocks.get(at).ok_or("no such block")?;
        let Some(file) = self.file(block.file).cloned() else {
            return Err("no file is mapped there".to_owned());
        };
        let (start, end) = (block.start, block.end);
        let found = self.symbols.find(&file)?;
        let isa = Isa::of_machine(found.elf.machine)?;
        let first = usize::try_from(start).unwrap_or(usize::MAX);
        let bytes = found
            .elf
            .bytes()
            .get(first..)
            .ok_or("the file ends before the block")?;
        isa.decode(bytes, start, end).ok_or_else(|| {
            format!(
                "{} does not fit the recording: no instruction begins at {end:#x}",
                file.path
            )
        })
    }

    /// Instructions per cycle over all timed executions.
    pub(super) fn ipc(&self, at: usize, code: &BlockCode) -> Option<f64> {
        let all = self.block(at)?.all_cycles();
        let mean = all.mean()?;
        (mean > 0.0).then(|| code.instructions.len() as f64 / mean)
    }

    /// The block that a person means: an address, an offset, `SYMBOL+OFF`; its start first, then what holds it.
    pub(super) fn choose(&mut self, spec: &str) -> Result<usize, Failure> {
        let n = self.analysis.blocks.len();
        let (mut starts, mut holds) = (None, None);
        if let Some(address) = parse_number(spec) {
            for (i, b) in self.analysis.blocks.iter().enumerate() {
                if b.start == address || b.address.0 == address {
                    starts = starts.or(Some(i));
                } else if (b.start..=b.end).contains(&address)
                    || (b.address.0..=b.address.1).contains(&address)
                {
                    holds = holds.or(Some(i));
                }
            }
        } else {
            let (name, offset) = match spec.rsplit_once('+') {
                Some((name, offset)) => (
                    name,
                    Some(parse_number(offset).ok_or_else(|| bad_spec(spec))?),
                ),
                None => (spec, None),
            };
            for i in 0..n {
                let Some((file, start, end)) = self.block(i).map(|b| (b.file, b.start, b.end))
                else {
                    continue;
                };
                let found = self.locate(file, start);
                let (is_it, at) = match found.frames.last() {
                    Some(f) => (f.function == name, found.offset),
                    None => (
                        self.file(file).is_some_and(|f| base_name(&f.path) == name),
                        start,
                    ),
                };
                if !is_it {
                    continue;
                }
                match offset {
                    None => starts = starts.or(Some(i)),
                    Some(o) if o == at => starts = starts.or(Some(i)),
                    Some(o) if o > at && o - at <= end - start => holds = holds.or(Some(i)),
                    Some(_) => {}
                }
            }
        }
        starts.or(holds).ok_or_else(|| {
            Failure::new(1, format!("no block of {} begins at or holds {spec}", self.path.display()))
                .hint("`truecount blocks FILE` lists the blocks; without symbols they are named FILE+0xOFFSET")
        })
    }

    /// What a prefetch could win in a block, or why nothing. Only executions after a predicted branch tell: after a
    /// mispredicted one a block takes longer for another reason than a miss of the caches.
    pub(super) fn prefetch(&mut self, at: usize) -> Result<PrefetchWindow, &'static str> {
        if self.code(at).is_ok_and(|code| code.data_loads() == 0) {
            return Err("No load in it");
        }
        let cycles = self.block(at).map(|block| &block.predicted.cycles);
        cycles
            .and_then(|cycles| PrefetchWindow::of(cycles, false))
            .ok_or("One mode only after predicted branches")
    }

    /// The loop whose most frequent body is this block alone, or begins with it.
    pub(super) fn loop_of(&self, at: usize) -> Option<&Loop> {
        let at = at as u32;
        self.analysis
            .loops
            .iter()
            .filter(|l| l.bodies.first().is_some_and(|b| b.blocks.contains(&at)))
            .min_by_key(|l| l.bodies.first().map_or(usize::MAX, |b| b.blocks.len()))
    }
}

fn bad_spec(spec: &str) -> Failure {
    Failure::new(
        2,
        format!("--block {spec}: no address and no SYMBOL+OFFSET"),
    )
    .hint("write 0x1225, main or main+69")
}

/// What was cleaned away, in words; only what occurred.
pub(super) fn cleaned(a: &Analysis) -> Vec<String> {
    let c = &a.cleaning;
    let rows: [(u64, &str); 12] = [
        (
            c.duplicated_top,
            "duplicated top entries (stale addresses, dropped)",
        ),
        (
            c.ambiguous_top,
            "repeated backward branches on top of full stacks (stale or a one-block loop, dropped)",
        ),
        (
            c.zero_address,
            "entries with a zero address (they break the row)",
        ),
        (
            c.ring_transitions,
            "transitions between user and kernel mode (interruptions, no block ends)",
        ),
        (
            c.wrong_path,
            "entries of a wrong speculative path (dropped)",
        ),
        (c.aborted, "aborted transactions (they break the row)"),
        (c.impossible, "pairs with a branch missing between them"),
        (
            c.without_start,
            "oldest entries (their block's start is not recorded)",
        ),
        (
            c.overlapping,
            "entries that the stack before had, too (samples closer together than a stack is long: counted twice)",
        ),
        (
            c.saturated,
            "blocks of at least 65535 cycles (counted, not timed)",
        ),
        (
            c.unknown_cycles,
            "blocks without cycles (counted, not timed)",
        ),
        (
            a.losses.lost_records.saturating_add(a.losses.lost_samples),
            "records lost while recording",
        ),
    ];
    rows.iter()
        .filter(|r| r.0 > 0)
        .map(|(n, what)| format!("{} {what}", grouped(*n)))
        .collect()
}
