//! The table of reference machines: data, with the source of each row.
//!
//! Levels: System V ABI, AMD64 processor supplement, version 1.0, table 3.1 "Micro-Architecture Levels"; where their bits
//! are: Intel SDM volume 2, `CPUID`, AMD APM volume 3, appendix E. Identities, caches: `CPUID` of the processors that are
//! named, as Intel's specification updates have them; what every level hides beyond its features is what no level names.

use crate::shown::{ANY, Row};

/// Memory of every reference machine, bytes.
pub(super) const MEMORY: u64 = 8 << 30;

/// `struct utsname`: the kernel of Debian 12, as far as programs look at it.
pub(super) const NAMES: [&str; 6] = [
    "Linux",
    "localhost",
    "6.1.0",
    "#1 SMP PREEMPT_DYNAMIC truecount reference machine",
    "x86_64",
    "(none)",
];

/// A register of the answer.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Register {
    Ebx = 1,
    Ecx,
    Edx,
}
use Register::{Ebx, Ecx, Edx};

/// A feature: where `cpuid` tells it, and the level that needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feature {
    pub(super) name: &'static str,
    pub(super) level: u8,
    pub(super) leaf: u32,
    pub(super) subleaf: u32,
    pub(super) register: Register,
    pub(super) bit: u8,
}

const fn feature(name: &'static str, level: u8, leaf: u32, register: Register, bit: u8) -> Feature {
    Feature {
        name,
        level,
        leaf,
        subleaf: 0,
        register,
        bit,
    }
}

/// Not part of a level; only machines that name it have it.
const NO_LEVEL: u8 = u8::MAX;

/// Table 3.1 of the ABI; below each level's own, what any such CPU has and programs ask for (SDM volume 2, table 3-11).
pub(super) static FEATURES: &[Feature] = &[
    feature("fpu", 1, 1, Edx, 0),
    feature("tsc", 1, 1, Edx, 4),
    feature("cx8", 1, 1, Edx, 8),
    feature("cmov", 1, 1, Edx, 15),
    feature("clflush", 1, 1, Edx, 19),
    feature("mmx", 1, 1, Edx, 23),
    feature("fxsr", 1, 1, Edx, 24),
    feature("sse", 1, 1, Edx, 25),
    feature("sse2", 1, 1, Edx, 26),
    feature("syscall", 1, 0x8000_0001, Edx, 11),
    feature("nx", 1, 0x8000_0001, Edx, 20),
    feature("lm", 1, 0x8000_0001, Edx, 29),
    feature("sse3", 2, 1, Ecx, 0),
    feature("ssse3", 2, 1, Ecx, 9),
    feature("cx16", 2, 1, Ecx, 13),
    feature("sse4.1", 2, 1, Ecx, 19),
    feature("sse4.2", 2, 1, Ecx, 20),
    feature("popcnt", 2, 1, Ecx, 23),
    feature("lahf", 2, 0x8000_0001, Ecx, 0),
    feature("fma", 3, 1, Ecx, 12),
    feature("movbe", 3, 1, Ecx, 22),
    feature("xsave", 3, 1, Ecx, 26),
    feature("osxsave", 3, 1, Ecx, 27),
    feature("avx", 3, 1, Ecx, 28),
    feature("f16c", 3, 1, Ecx, 29),
    feature("bmi1", 3, 7, Ebx, 3),
    feature("avx2", 3, 7, Ebx, 5),
    feature("bmi2", 3, 7, Ebx, 8),
    feature("lzcnt", 3, 0x8000_0001, Ecx, 5),
    feature("avx512f", 4, 7, Ebx, 16),
    feature("avx512dq", 4, 7, Ebx, 17),
    feature("avx512cd", 4, 7, Ebx, 28),
    feature("avx512bw", 4, 7, Ebx, 30),
    feature("avx512vl", 4, 7, Ebx, 31),
    feature("pclmulqdq", NO_LEVEL, 1, Ecx, 1),
    feature("aes", NO_LEVEL, 1, Ecx, 25),
    feature("rdtscp", NO_LEVEL, 0x8000_0001, Edx, 27),
];

/// Whether this CPU has a feature, and the kernel has switched it on.
#[cfg(target_arch = "x86_64")]
pub(super) fn host() -> impl Fn(&Feature) -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    let saves = __cpuid(1).ecx >> 27 & 1 != 0;
    #[target_feature(enable = "xsave")]
    unsafe fn components() -> u64 {
        // SAFETY: XCR0 is always there with OSXSAVE.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: OSXSAVE says that the instruction is there.
    let enabled = if saves { unsafe { components() } } else { 3 };
    // Hypervisors answer `cpuid`, in some 20 to 70 µs: each leaf is asked for once.
    let known = std::cell::RefCell::new(std::collections::HashMap::new());
    let ask = move |leaf, subleaf| {
        let mut known = known.borrow_mut();
        *known
            .entry((leaf, subleaf))
            .or_insert_with(|| __cpuid_count(leaf, subleaf))
    };
    move |feature| {
        let most = ask(feature.leaf & 0x8000_0000, 0).eax;
        let found = ask(feature.leaf, feature.subleaf);
        let word = match feature.register {
            Ebx => found.ebx,
            Ecx => found.ecx,
            Edx => found.edx,
        };
        let needed = match feature.level {
            3 if feature.name.starts_with("avx") || feature.name == "fma" => 6,
            4 => 0xe6,
            _ => 0,
        };
        feature.leaf <= most && word >> feature.bit & 1 != 0 && enabled & needed == needed
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn host() -> impl Fn(&Feature) -> bool {
    |_| false
}

/// A machine.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) name: &'static str,
    /// The level whose features it has; 0: the rows have them all.
    pub(super) level: u8,
    /// Features that it has beside a level's.
    pub(super) more: &'static [&'static str],
    /// XCR0.
    pub(super) components: u32,
    /// What `cpuid` says; features of the level are added.
    pub(super) rows: &'static [Row],
}

const INTEL: [u32; 3] = [0x756e_6547, 0x6c65_746e, 0x4965_6e69];

/// Leaf 0: vendor and last leaf.
const VENDOR: Row = [0, ANY, 0xd, INTEL[0], INTEL[1], INTEL[2]];
/// Leaf 2: descriptors; 0xff says that caches are in leaf 4. As a Core i7-4770 has it.
const DESCRIPTORS: Row = [2, ANY, 0x7603_6301, 0x00f0_b6ff, 0, 0x00c1_0000];
/// Leaf 4, the caches of a Core i7-4770, each of one thread: 32 KiB of data and of code, 256 KiB, 8 MiB.
const CACHES: [Row; 4] = [
    [4, 0, 0x0000_0121, 0x01c0_003f, 0x3f, 0],
    [4, 1, 0x0000_0122, 0x01c0_003f, 0x3f, 0],
    [4, 2, 0x0000_0143, 0x01c0_003f, 0x1ff, 0],
    [4, 3, 0x0000_0163, 0x03c0_003f, 0x1fff, 6],
];
/// Leaf 7: features only.
const FEATURES_7: Row = [7, 0, 0, 0, 0, 0];
/// Leaf 11: one thread a core, one core.
const TOPOLOGY: [Row; 2] = [[0xb, 0, 0, 1, 0x100, 0], [0xb, 1, 0, 1, 0x201, 0]];
/// The last extended leaf, features, L2 (256 KiB, 8 ways), a constant TSC, 39 and 48 bits of addresses.
const EXTENDED: [Row; 5] = [
    [0x8000_0000, ANY, 0x8000_0008, 0, 0, 0],
    [0x8000_0001, ANY, 0, 0, 0, 0],
    [0x8000_0006, ANY, 0, 0, 0x0100_6040, 0],
    [0x8000_0007, ANY, 0, 0, 0, 0x100],
    [0x8000_0008, ANY, 0x3027, 0, 0, 0],
];

const fn word(text: &str, at: usize) -> u32 {
    let (mut value, mut n) = (0, 0);
    while n < 4 {
        if at + n < text.len() {
            value |= (text.as_bytes()[at + n] as u32) << (8 * n);
        }
        n += 1;
    }
    value
}

/// Leaves 0x80000002 to 0x80000004: the name.
const fn brand(text: &str, part: u32) -> Row {
    let at = part as usize * 16;
    [
        0x8000_0002 + part,
        ANY,
        word(text, at),
        word(text, at + 4),
        word(text, at + 8),
        word(text, at + 12),
    ]
}

macro_rules! rows {
    ($signature:literal, $brand:literal, [$($state:expr),*]) => {
        &[
            // Leaf 1: one logical CPU, cache lines of 64 bytes.
            VENDOR, [1, ANY, $signature, 0x0001_0800, 0, 0], DESCRIPTORS,
            CACHES[0], CACHES[1], CACHES[2], CACHES[3], FEATURES_7,
            TOPOLOGY[0], TOPOLOGY[1], $($state,)*
            EXTENDED[0], EXTENDED[1], brand($brand, 0), brand($brand, 1), brand($brand, 2),
            EXTENDED[2], EXTENDED[3], EXTENDED[4],
        ]
    };
}

/// Leaf 13: the size of the extended state in its standard form, and where each component lies (SDM volume 1, 13.5).
const AVX_STATE: [Row; 2] = [[0xd, 0, 7, 0x340, 0x340, 0], [0xd, 2, 0x100, 0x240, 0, 0]];
/// With AVX-512. Components lie elsewhere on AMD's CPUs (from 0x340 on, 0x980 in all); the larger size holds both.
const AVX512_STATE: [Row; 5] = [
    [0xd, 0, 0xe7, 0xa80, 0xa80, 0],
    [0xd, 2, 0x100, 0x240, 0, 0],
    [0xd, 5, 0x40, 0x440, 0, 0],
    [0xd, 6, 0x200, 0x480, 0, 0],
    [0xd, 7, 0x400, 0x680, 0, 0],
];

/// All machines.
pub(super) static MODELS: &[Model] = &[
    Model {
        name: "x86-64-v1",
        level: 1,
        more: &[],
        components: 0,
        // Family 6, model 15: Core 2 (Merom).
        rows: rows!(0x0000_06f6, "truecount x86-64-v1", []),
    },
    Model {
        name: "x86-64-v2",
        level: 2,
        more: &[],
        components: 0,
        // Family 6, model 26: Nehalem.
        rows: rows!(0x0001_06a5, "truecount x86-64-v2", []),
    },
    Model {
        name: "x86-64-v3",
        level: 3,
        more: &[],
        components: 7,
        // Family 6, model 60: Haswell.
        rows: rows!(
            0x0003_06c3,
            "truecount x86-64-v3",
            [AVX_STATE[0], AVX_STATE[1]]
        ),
    },
    Model {
        name: "x86-64-v4",
        level: 4,
        more: &[],
        components: 0xe7,
        // Family 6, model 85, stepping 4: Skylake-SP.
        rows: rows!(
            0x0005_0654,
            "truecount x86-64-v4",
            [
                AVX512_STATE[0],
                AVX512_STATE[1],
                AVX512_STATE[2],
                AVX512_STATE[3],
                AVX512_STATE[4]
            ]
        ),
    },
    Model {
        name: "valgrind",
        level: 0,
        more: VALGRIND_FEATURES,
        components: 7,
        rows: VALGRIND,
    },
];

/// What Valgrind 3.19.0 shows on a CPU with AVX2: `cpuid` of every leaf, executed under `valgrind --tool=none`. It
/// has `rdrand` and `rdseed` where the host does; all of ours hide them from other machines, and serve them here.
const VALGRIND: &[Row] = &[
    [0, ANY, 0xd, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
    [1, ANY, 0x0003_06c3, 0x0210_0800, 0x7ffa_fbff, 0xbfeb_fbff],
    [2, ANY, 0x7603_6301, 0x00f0_b6ff, 0, 0x00c1_0000],
    [4, 0, 0x1c00_4121, 0x01c0_003f, 0x3f, 0],
    [4, 1, 0x1c00_4122, 0x01c0_003f, 0x3f, 0],
    [4, 2, 0x1c00_4143, 0x01c0_003f, 0x1ff, 0],
    [4, 3, 0x1c03_c163, 0x03c0_003f, 0x1fff, 6],
    [5, ANY, 0x40, 0x40, 3, 0x0004_2120],
    [6, ANY, 0x77, 2, 9, 0],
    [7, 0, 0, 0x0004_27aa, 0, 0],
    [0xa, ANY, 0x0730_0803, 0, 0, 0x603],
    [0xb, 0, 1, 2, 0x100, 2],
    [0xb, 1, 4, 8, 0x201, 2],
    [0xd, 0, 7, 0x340, 0x340, 0],
    [0xd, 2, 0x100, 0x240, 0, 0],
    [0x8000_0000, ANY, 0x8000_0008, 0, 0, 0],
    [0x8000_0001, ANY, 0, 0, 0x21, 0x2c10_0800],
    [
        0x8000_0002,
        ANY,
        0x6574_6e49,
        0x2952_286c,
        0x726f_4320,
        0x4d54_2865,
    ],
    [
        0x8000_0003,
        ANY,
        0x3769_2029,
        0x3139_342d,
        0x2051_4d30,
        0x2055_5043,
    ],
    [0x8000_0004, ANY, 0x2e32_2040, 0x4847_3039, 0x7a, 0],
    [0x8000_0006, ANY, 0, 0, 0x0100_6040, 0],
    [0x8000_0007, ANY, 0, 0, 0, 0x100],
    [0x8000_0008, ANY, 0x3027, 0, 0, 0],
];

/// What a program may execute that has seen these rows.
const VALGRIND_FEATURES: &[&str] = &[
    "sse3",
    "ssse3",
    "cx16",
    "sse4.1",
    "sse4.2",
    "popcnt",
    "lahf",
    "fma",
    "movbe",
    "xsave",
    "osxsave",
    "avx",
    "f16c",
    "bmi1",
    "avx2",
    "bmi2",
    "lzcnt",
    "pclmulqdq",
    "aes",
    "rdtscp",
];
