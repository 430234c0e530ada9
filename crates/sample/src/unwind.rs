//! Call chains from recorded user stacks (`record -g dwarf`), unwound by framehop with the unwind tables
//! (`.eh_frame`) of the mapped files.
//!
//! Register numbers: `arch/x86/include/uapi/asm/perf_regs.h`, `arch/arm64/include/uapi/asm/perf_regs.h`.

use std::ops::Range;
use std::sync::Arc;

use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
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

type Placed = Option<(Range<u64>, Bytes)>;

/// What of a file unwinding needs.
#[derive(Clone)]
struct Sections {
    text: Placed,
    eh_frame: Placed,
    eh_frame_hdr: Placed,
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
        Self {
            text: get(".text"),
            eh_frame: get(".eh_frame"),
            eh_frame_hdr: get(".eh_frame_hdr"),
            segments: found.elf.segments().to_vec(),
        }
    }

    /// The difference between addresses in the process and in the file.
    fn bias(&self, start: u64, pgoff: u64) -> Option<u64> {
        // A mapping begins at a page; a segment may begin inside it.
        let page_of = |s: &truecount_elf::Segment| s.offset & !0xfff;
        let inside = |s: &&truecount_elf::Segment| {
            pgoff >= page_of(s) && pgoff < s.offset.saturating_add(s.size)
        };
        let s = self.segments.iter().find(inside)?;
        Some(start.wrapping_sub(s.address.wrapping_add(pgoff.wrapping_sub(s.offset))))
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
                ..ExplicitModuleSectionInfo::default()
            },
        )
    }
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

    /// The user part of a sample's call chain, innermost first; the first is an instruction, the others are
    /// return addresses. Empty when the sample has no registers or the recording was of a 32-bit program.
    pub fn unwind(
        &mut self,
        spaces: &AddressSpaces,
        symbols: &mut Symbols,
        space: SpaceId,
        sample: &Sample<'_>,
    ) -> Vec<u64> {
        const ABI_64: u64 = 2;
        let Some(regs) = sample.regs_user.filter(|r| r.abi == ABI_64) else {
            return Vec::new();
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
        let mut out = Vec::new();
        match self.spaces.get(&space) {
            Some(Unwinders::X86(unwinder)) => {
                let ip = register(8);
                let start = UnwindRegsX86_64::new(ip, sp, register(6));
                let mut frames = unwinder.iter_frames(ip, start, &mut self.cache, &mut read);
                while let (Ok(Some(frame)), true) = (frames.next(), out.len() < MAX_FRAMES) {
                    out.push(frame.address());
                }
            }
            Some(Unwinders::Arm(unwinder)) => {
                let start = UnwindRegsAarch64::new(register(30), sp, register(29));
                let mut frames =
                    unwinder.iter_frames(register(32), start, &mut self.cache_arm, &mut read);
                while let (Ok(Some(frame)), true) = (frames.next(), out.len() < MAX_FRAMES) {
                    out.push(frame.address());
                }
            }
            None => {}
        }
        out
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
                .or_insert_with(|| symbols.find(mapped).ok().map(Sections::of));
            let Some(sections) = sections else { continue };
            if let Some(bias) = sections.bias(range.start, pgoff) {
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
