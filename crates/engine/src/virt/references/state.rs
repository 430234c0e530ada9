//! Which bytes `xsave`, `xsavec` and `xrstor` write and read.
//!
//! Facts: Intel SDM volume 1, chapter 13 (13.4 the area, 13.7 to 13.10 the instructions), volume 2 (`CPUID` leaf 0DH).
//! What is told here depends on the mask in EDX:EAX, on the components that are enabled, and on the header, which says
//! behind the instruction what it saved.

use crate::xlate::references::HEADER_AT;
use std::sync::OnceLock;

/// Bytes of a reference to the state, but for MXCSR that is restored.
pub(super) const UNIT: u32 = 8;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    /// `xsave`.
    Save,
    /// `xsavec`.
    SaveCompacted,
    /// `xrstor`.
    Restore,
}

/// What of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The components.
    Components,
    /// The header.
    Header,
    /// MXCSR alone: what `xrstor` reads of the eight bytes that are saved.
    Mxcsr,
}

#[derive(Clone, Copy, Debug, Default)]
struct Component {
    at: u32,
    bytes: u32,
    /// Of them those that are saved: of PKRU's eight some CPUs write four.
    moved: u32,
    aligned: bool,
}

/// Where this CPU's components lie.
struct Components {
    enabled: u64,
    all: [Component; 32],
}

/// In a header's second word: components follow each other without gaps.
const COMPACTED: u64 = 1 << 63;
/// Where the components behind the first two begin.
const BEHIND_HEADER: u32 = HEADER_AT + 64;
/// The component that holds the register of protection keys.
const PKRU: u32 = 9;
const X87: u64 = 1;
const SSE: u64 = 2;
const AVX: u64 = 4;

/// Components that the CPU and the kernel have switched on.
pub(super) fn enabled() -> u64 {
    components().enabled
}

fn components() -> &'static Components {
    static FOUND: OnceLock<Components> = OnceLock::new();
    FOUND.get_or_init(find)
}

#[cfg(target_arch = "x86_64")]
fn find() -> Components {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    #[target_feature(enable = "xsave")]
    unsafe fn xcr0() -> u64 {
        // SAFETY: XCR0 is always there with OSXSAVE.
        unsafe { _xgetbv(0) }
    }
    let mut all = [Component::default(); 32];
    let saves = __cpuid(1).ecx >> 27 & 1 != 0;
    if !saves {
        return Components { enabled: 3, all };
    }
    for (number, component) in (0u32..).zip(&mut all).skip(2) {
        let found = __cpuid_count(0xd, number);
        *component = Component {
            at: found.ebx,
            bytes: found.eax,
            moved: found.eax,
            aligned: found.ecx & 2 != 0,
        };
    }
    // SAFETY: OSXSAVE says that the instruction is there.
    let enabled = unsafe { xcr0() };
    if enabled >> PKRU & 1 != 0
        && let Some(component) = all.get_mut(PKRU as usize)
    {
        component.moved = moved(PKRU, component);
    }
    Components { enabled, all }
}

/// How many bytes of a component this CPU saves.
#[cfg(target_arch = "x86_64")]
fn moved(number: u32, component: &Component) -> u32 {
    #[repr(align(64))]
    struct Area([u8; 4096]);
    #[target_feature(enable = "xsave")]
    unsafe fn save(area: &mut Area, number: u32) {
        // SAFETY: an area of this size has room for a component that ends within it, as the caller looked.
        unsafe { std::arch::x86_64::_xsave64(area.0.as_mut_ptr(), 1 << number) }
    }
    let end = component.at + component.bytes;
    if end as usize > size_of::<Area>() {
        return component.bytes;
    }
    let saved = |fill: u8| {
        let mut area = Area([fill; 4096]);
        // SAFETY: the component is enabled, so the instruction is there; it ends within the area.
        unsafe { save(&mut area, number) };
        area.0
    };
    let (one, other) = (saved(0x55), saved(0xaa));
    // A byte that was written is the same over both fills.
    let written = |at: &u32| {
        let at = *at as usize;
        one.get(at) == other.get(at)
    };
    let last = (component.at..end).rev().find(written);
    last.map_or(component.bytes, |last| last + 1 - component.at)
}

/// No engine runs elsewhere.
#[cfg(not(target_arch = "x86_64"))]
fn find() -> Components {
    Components {
        enabled: 3,
        all: [Component::default(); 32],
    }
}

/// Calls `f` for what a part references: offset in the area, bytes. `wanted` is the mask, `header` the header's first
/// two words.
pub(super) fn each(
    moves: Moves,
    part: Part,
    wanted: u64,
    header: [u64; 2],
    mut f: impl FnMut(u32, u32),
) {
    let [held, form] = header;
    let compacted =
        moves == Moves::SaveCompacted || moves == Moves::Restore && form & COMPACTED != 0;
    let moved = match moves {
        Moves::Save => wanted,
        Moves::SaveCompacted | Moves::Restore => wanted & held,
    };
    match part {
        Part::Header => f(
            HEADER_AT,
            match (moves, compacted) {
                (Moves::Save, _) => 8,
                (Moves::SaveCompacted, _) => 16,
                (Moves::Restore, false) => 24,
                (Moves::Restore, true) => 64,
            },
        ),
        Part::Mxcsr => {
            let read = match compacted {
                true => moved & SSE,
                false => wanted & (SSE | AVX),
            };
            if read != 0 {
                f(24, 4);
            }
        }
        Part::Components => {
            if moved & X87 != 0 {
                f(0, 24);
                f(32, 128);
            }
            let mxcsr = match moves {
                Moves::Save => moved & (SSE | AVX),
                Moves::SaveCompacted => moved & SSE,
                Moves::Restore => 0,
            };
            if mxcsr != 0 {
                f(24, 8);
            }
            if moved & SSE != 0 {
                f(160, 256);
            }
            extended(compacted.then_some(form), moved, f);
        }
    }
}

/// The components behind the first two.
fn extended(form: Option<u64>, moved: u64, mut f: impl FnMut(u32, u32)) {
    let mut next = BEHIND_HEADER;
    for (number, component) in components().all.iter().enumerate().skip(2) {
        let is_in = |set: u64| set >> number & 1 != 0;
        let mut at = component.at;
        if let Some(form) = form {
            if !is_in(form) {
                continue;
            }
            at = match component.aligned {
                true => next.next_multiple_of(64),
                false => next,
            };
            next = at + component.bytes;
        }
        if is_in(moved) {
            f(at, component.moved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(moves: Moves, part: Part, wanted: u64, header: [u64; 2]) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        each(moves, part, wanted, header, |at, bytes| {
            found.push((at, bytes));
        });
        found
    }

    /// The two first components and AVX, which lie where they lie on every CPU.
    #[test]
    fn first_components() {
        if !is_x86_feature_detected!("avx") {
            truecount_testing::skip("x86-64", "this CPU has no AVX");
            return;
        }
        use Moves::{Restore, Save, SaveCompacted};
        use Part::{Components, Header, Mxcsr};
        let x87 = [(0, 24), (32, 128)];
        assert_eq!(all(Save, Components, 1, [0, 0]), x87);
        assert_eq!(all(Save, Components, 2, [0, 0]), [(24, 8), (160, 256)]);
        assert_eq!(all(Save, Components, 4, [0, 0]), [(24, 8), (576, 256)]);
        assert_eq!(all(Save, Header, 7, [0, 0]), [(512, 8)]);
        let compact = COMPACTED | 7;
        assert_eq!(all(SaveCompacted, Components, 7, [1, compact]), x87);
        let avx = [(576, 256)];
        assert_eq!(all(SaveCompacted, Components, 7, [4, compact]), avx);
        assert_eq!(all(SaveCompacted, Header, 7, [4, compact]), [(512, 16)]);
        assert_eq!(all(Restore, Components, 5, [6, 0]), avx);
        assert_eq!(all(Restore, Mxcsr, 5, [6, 0]), [(24, 4)]);
        assert_eq!(all(Restore, Mxcsr, 5, [6, compact]), []);
        assert_eq!(all(Restore, Header, 5, [6, 0]), [(512, 24)]);
        assert_eq!(all(Restore, Header, 5, [6, compact]), [(512, 64)]);
    }
}
