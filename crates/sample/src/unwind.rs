//! Call chains from recorded user stacks (`record -g dwarf`), unwound by framehop with the unwind tables
//! (`.eh_frame`, else `.debug_frame`) of the mapped files.
//!
//! Register numbers: `arch/x86/include/uapi/asm/perf_regs.h`, `arch/arm64/include/uapi/asm/perf_regs.h`.

use std::ops::Range;
use std::sync::Arc;

use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use rustc_hash::FxHashMap;

use crate::sample::{Registers, Sample};
use crate::spaces::{AddressSpaces, SpaceId};
use crate::symbols::{FoundFile, Symbols};

type Bytes = Arc<[u8]>;

/// Deepest chain.
const MAX_FRAMES: usize = 512;

/// Unwinds samples; keeps each space's modules.
pub struct StackUnwinder {
    aarch64: bool,
    spaces: FxHashMap<SpaceId, Unwinders>,
    cache: CacheX86_64,
    cache_arm: CacheAarch64,
    sections: FxHashMap<u32, Option<Sections>>,
}

impl std::fmt::Debug for StackUnwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackUnwinder")
            .field("aarch64", &self.aarch64)
            .finish_non_exhaustive()
    }
}

enum Unwinders {
    X86(UnwinderX86_64<Bytes>),
    Arm(UnwinderAarch64<Bytes>),
}

/// An unwound user stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwound {
    /// Innermost first; the first is an instruction, the others are return addresses.
    pub frames: Vec<u64>,
    /// Why there are no more.
    pub end: ChainEnd,
}

/// Why an unwound chain ended. `file` is the file (an index into [`AddressSpaces::files`]) of the frame whose caller was
/// not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ChainEnd {
    /// The outermost function was reached.
    Whole,
    /// The sample has no registers of a 64-bit program.
    NoRegisters,
    /// The file is not here, or is another one: its unwind table could not be read.
    NoFile {
        /// The file.
        file: u32,
    },
    /// The file has no unwind table (`.eh_frame`, `.debug_frame`).
    NoUnwindTable {
        /// The file.
        file: u32,
    },
    /// The recorded part of the stack ended.
    StackCut {
        /// The file.
        file: Option<u32>,
    },
    /// What should be a return address lies in no mapped code.
    Lost {
        /// The file.
        file: Option<u32>,
    },
    /// More frames than are looked at.
    Deep,
}

impl ChainEnd {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self == Self::Whole
    }

    /// The file of the last frame, where it is known.
    #[must_use]
    pub fn file(self) -> Option<u32> {
        match self {
            Self::NoFile { file } | Self::NoUnwindTable { file } => Some(file),
            Self::StackCut { file } | Self::Lost { file } => file,
            Self::Whole | Self::NoRegisters | Self::Deep => None,
        }
    }

    /// Where it ended, why, and what to do about it; `path` is the file's.
    #[must_use]
    pub fn explain(self, path: &str) -> String {
        let path = if path.is_empty() {
            "unknown code"
        } else {
            path
        };
        match self {
            Self::Whole => "at their beginning".to_owned(),
            Self::NoRegisters => {
                "at once: the sample has no registers of a 64-bit program".to_owned()
            }
            Self::NoFile { .. } => format!(
                "in {path}: the file is not here or has changed (--symfs DIRECTORY, --binary FILE)"
            ),
            Self::NoUnwindTable { .. } => format!(
                "in {path}: it has no unwind table (compile with -fasynchronous-unwind-tables)"
            ),
            Self::StackCut { .. } => {
                format!("in {path}: more stack than was recorded for each sample")
            }
            Self::Lost { .. } => {
                format!("in {path}: the unwind table leads to no mapped code")
            }
            Self::Deep => format!("after {MAX_FRAMES} frames"),
        }
    }

    /// Why it ended, in some words, for the place in a tree of calls.
    #[must_use]
    pub fn brief(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::NoRegisters => "no registers",
            Self::NoFile { .. } => "the file is not here or has changed",
            Self::NoUnwindTable { .. } => "no unwind table",
            Self::StackCut { .. } => "more stack than was recorded",
            Self::Lost { .. } => "no return address",
            Self::Deep => "too many frames",
        }
    }
}

/// Collects the frames that an unwinder gives.
#[derive(Default)]
struct Walk {
    frames: Vec<u64>,
    end: Option<ChainEnd>,
    /// The file of the last frame.
    file: Option<u32>,
}

impl Walk {
    /// Takes the next frame; false at the end. A return address that lies in no mapped code is none.
    fn step(
        &mut self,
        next: Result<Option<FrameAddress>, framehop::Error>,
        mapped: impl Fn(u64) -> Option<u32>,
    ) -> bool {
        let end = match next {
            Ok(Some(frame)) => {
                let file = mapped(frame.address_for_lookup());
                if file.is_some() || self.frames.is_empty() {
                    self.frames.push(frame.address());
                    self.file = file;
                    if self.frames.len() < MAX_FRAMES {
                        return true;
                    }
                    ChainEnd::Deep
                } else {
                    ChainEnd::Lost { file: self.file }
                }
            }
            // A null return address marks the outermost frame, too (x86-64 psABI, "The Stack Frame").
            Ok(None) | Err(framehop::Error::ReturnAddressIsNull) => ChainEnd::Whole,
            Err(framehop::Error::CouldNotReadStack(_)) => ChainEnd::StackCut { file: self.file },
            Err(_) => ChainEnd::Lost { file: self.file },
        };
        self.end = Some(end);
        false
    }
}

type Placed = Option<(Range<u64>, Bytes)>;

/// What of a file unwinding needs.
#[derive(Clone)]
struct Sections {
    text: Placed,
    eh_frame: Placed,
    eh_frame_hdr: Placed,
    /// For what has no `.eh_frame`: Go's functions, and C compiled without asynchronous unwind tables but with `-g`.
    debug_frame: Option<Bytes>,
    segments: Vec<truecount_elf::Segment>,
}

impl Sections {
    fn of(found: &FoundFile) -> Self {
        let get = |name: &str| {
            let (address, bytes) = found.elf.section(name)?;
            Some((
                address..address.checked_add(bytes.len() as u64)?,
                Bytes::from(bytes),
            ))
        };
        // Of a Go program only the C functions in it are in `.eh_frame`, of a C program without asynchronous unwind
        // tables only what starts it: the larger one has the program's own functions.
        let eh_frame = get(".eh_frame");
        let debug_frame = found.elf.contents(".debug_frame");
        let debug_frame = debug_frame
            .filter(|bytes| bytes.len() > eh_frame.as_ref().map_or(0, |(_, eh)| eh.len()))
            .map(Bytes::from);
        let eh_frame = eh_frame.filter(|_| debug_frame.is_none());
        Self {
            text: get(".text"),
            eh_frame_hdr: get(".eh_frame_hdr").filter(|_| eh_frame.is_some()),
            eh_frame,
            debug_frame,
            segments: found.elf.segments().to_vec(),
        }
    }

    fn bias(&self, range: &Range<u64>, pgoff: u64) -> Option<u64> {
        bias(&self.segments, range, pgoff)
    }

    fn module(&self, name: String, range: Range<u64>, bias: u64) -> Module<Bytes> {
        let split = |p: &Placed| match p {
            Some((range, bytes)) => (Some(range.clone()), Some(Arc::clone(bytes))),
            None => (None, None),
        };
        let (text_svma, text) = split(&self.text);
        let (eh_frame_svma, eh_frame) = split(&self.eh_frame);
        let (eh_frame_hdr_svma, eh_frame_hdr) = split(&self.eh_frame_hdr);
        Module::new(
            name,
            range,
            bias,
            ExplicitModuleSectionInfo {
                base_svma: 0,
                text_svma,
                text,
                eh_frame_svma,
                eh_frame,
                eh_frame_hdr_svma,
                eh_frame_hdr,
                debug_frame: self.debug_frame.clone(),
                ..ExplicitModuleSectionInfo::default()
            },
        )
    }
}

/// The difference between addresses in the process and in the file, of a mapping of code.
///
/// The mapping shows the bytes of the file from `pgoff` on; the segment whose bytes those are is the *executable* one
/// that shares most of them. Its neighbours share the pages at its ends: LLD (and `ld -z separate-code` in part) puts the
/// end of the read-only segment and the beginning of the text into one page of the file, at addresses a page apart.
fn bias(segments: &[truecount_elf::Segment], range: &Range<u64>, pgoff: u64) -> Option<u64> {
    let mapped_end = pgoff.saturating_add(range.end.saturating_sub(range.start));
    let shared = |s: &truecount_elf::Segment| {
        let end = s.offset.saturating_add(s.size).min(mapped_end);
        end.saturating_sub(s.offset.max(pgoff))
    };
    let best = segments
        .iter()
        .filter(|s| s.executable && shared(s) > 0)
        .max_by_key(|s| shared(s))?;
    let address = best.address.wrapping_add(pgoff.wrapping_sub(best.offset));
    Some(range.start.wrapping_sub(address))
}

impl StackUnwinder {
    /// For recordings of x86-64, or of aarch64.
    #[must_use]
    pub fn new(aarch64: bool) -> Self {
        Self {
            aarch64,
            spaces: FxHashMap::default(),
            cache: CacheX86_64::new(),
            cache_arm: CacheAarch64::new(),
            sections: FxHashMap::default(),
        }
    }

    /// The user part of a sample's call chain; without frames when the sample has no registers or the recording was of
    /// a 32-bit program.
    pub fn unwind(
        &mut self,
        spaces: &AddressSpaces,
        symbols: &mut Symbols,
        space: SpaceId,
        sample: &Sample<'_>,
    ) -> Unwound {
        const ABI_NONE: u64 = 0;
        const ABI_64: u64 = 2;
        let Some(regs) = sample.regs_user.filter(|r| r.abi == ABI_64) else {
            // A thread of the kernel has no user stack: nothing is missing.
            let kernel = sample.regs_user.is_some_and(|r| r.abi == ABI_NONE);
            return Unwound {
                frames: Vec::new(),
                end: if kernel {
                    ChainEnd::Whole
                } else {
                    ChainEnd::NoRegisters
                },
            };
        };
        if !self.spaces.contains_key(&space) {
            let made = self.modules(spaces, symbols, space);
            self.spaces.insert(space, made);
        }
        let register = |n: u32| regs.get(n).unwrap_or(0);
        let stack = sample.stack_user;
        let sp = stack_pointer(self.aarch64, &regs);
        let mut read = |address: u64| -> Result<u64, ()> {
            let at = usize::try_from(address.wrapping_sub(sp)).map_err(|_| ())?;
            crate::bytes::u64_at(stack, at).ok_or(())
        };
        let mapped = |address| spaces.resolve(space, address).map(|(file, _)| file);
        let mut walk = Walk::default();
        match self.spaces.get(&space) {
            Some(Unwinders::X86(unwinder)) => {
                let ip = register(8);
                let start = UnwindRegsX86_64::new(ip, sp, register(6));
                let mut frames = unwinder.iter_frames(ip, start, &mut self.cache, &mut read);
                while walk.step(frames.next(), mapped) {}
            }
            Some(Unwinders::Arm(unwinder)) => {
                let start = UnwindRegsAarch64::new(register(30), sp, register(29));
                let mut frames =
                    unwinder.iter_frames(register(32), start, &mut self.cache_arm, &mut read);
                while walk.step(frames.next(), mapped) {}
            }
            None => {}
        }
        let end = walk.end.unwrap_or(ChainEnd::Deep);
        Unwound {
            end: self.explain(end, spaces, symbols),
            frames: walk.frames,
        }
    }

    /// An end in a file that has no unwind table, or is not here, is that file's fault.
    fn explain(&self, end: ChainEnd, spaces: &AddressSpaces, symbols: &mut Symbols) -> ChainEnd {
        let (ChainEnd::Lost { file: Some(file) } | ChainEnd::StackCut { file: Some(file) }) = end
        else {
            return end;
        };
        match self.sections.get(&file) {
            Some(Some(s)) if s.eh_frame.is_none() && s.debug_frame.is_none() => {
                ChainEnd::NoUnwindTable { file }
            }
            Some(Some(_)) => end,
            _ => match spaces.files().get(file as usize) {
                Some(mapped) if symbols.find(mapped).is_err() => ChainEnd::NoFile { file },
                _ => end,
            },
        }
    }

    fn modules(
        &mut self,
        spaces: &AddressSpaces,
        symbols: &mut Symbols,
        space: SpaceId,
    ) -> Unwinders {
        let mut modules = Vec::new();
        for (range, pgoff, file) in spaces.mappings(space) {
            let Some(mapped) = spaces.files().get(file as usize) else {
                continue;
            };
            let sections = self
                .sections
                .entry(file)
                .or_insert_with(|| symbols.find(mapped).ok().map(|file| Sections::of(file)));
            let Some(sections) = sections else { continue };
            if let Some(bias) = sections.bias(&range, pgoff) {
                modules.push(sections.module(mapped.path.clone(), range, bias));
            }
        }
        if self.aarch64 {
            let mut unwinder = UnwinderAarch64::new();
            modules.into_iter().for_each(|m| unwinder.add_module(m));
            Unwinders::Arm(unwinder)
        } else {
            let mut unwinder = UnwinderX86_64::new();
            modules.into_iter().for_each(|m| unwinder.add_module(m));
            Unwinders::X86(unwinder)
        }
    }
}

fn stack_pointer(aarch64: bool, regs: &Registers<'_>) -> u64 {
    regs.get(if aarch64 { 31 } else { 7 }).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_elf::Segment;

    fn segment(offset: u64, address: u64, size: u64, executable: bool) -> Segment {
        Segment {
            offset,
            address,
            size,
            memory: size,
            executable,
        }
    }

    /// `readelf -l` of programs that bfd and LLD linked: the mapping of the text must be biased by the text segment.
    #[test]
    fn the_executable_segment_gives_the_bias() {
        let base = 0x5555_5555_4000;
        // bfd: segments begin at pages of their own.
        let bfd = [
            segment(0, 0, 0x7f8, false),
            segment(0x1000, 0x1000, 0x1b9, true),
        ];
        let map = |at: u64, len: u64| base + at..base + at + len;
        assert_eq!(bias(&bfd, &map(0x1000, 0x1000), 0x1000), Some(base));
        // LLD: the text begins in the page where the read-only segment ends, one page higher in memory.
        let lld = [
            segment(0, 0, 0x6f4, false),
            segment(0x700, 0x1700, 0x180, true),
            segment(0x880, 0x2880, 0x1c0, false),
        ];
        assert_eq!(bias(&lld, &map(0x1000, 0x1000), 0), Some(base));
        let large = [
            segment(0, 0, 0x1_2344, false),
            segment(0x1_2350, 0x1_3350, 0x5_0000, true),
        ];
        assert_eq!(bias(&large, &map(0x1_3000, 0x5_1000), 0x1_2000), Some(base));
        // A kernel with pages of 64 KiB maps from further down.
        let arm = [
            segment(0, 0, 0x1_2344, false),
            segment(0x1_2350, 0x2_2350, 0x5_0000, true),
        ];
        assert_eq!(bias(&arm, &map(0x2_0000, 0x6_0000), 0x1_0000), Some(base));
        // Data mapped as code by accident has none.
        assert_eq!(bias(&lld, &map(0x9000, 0x1000), 0x9000), None);
    }
}
