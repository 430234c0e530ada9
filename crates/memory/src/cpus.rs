//! CPUs whose caches and translations are known: this one, by what its kernel tells, and some by name.
//!
//! Sizes of first levels, second levels and first-level TLBs (4 KiB pages; of loads where loads and stores have their
//! own) are the vendors':
//!
//! - Intel: "Intel 64 and IA-32 Architectures Optimization Reference Manual" (248966), the tables "Cache Parameters" and
//!   "TLB Parameters" of each microarchitecture;
//! - AMD: "Software Optimization Guide" for family 17h models 30h and greater (56305), family 19h (56665), Zen 4
//!   (57647) and Zen 5 (58455), "Memory caches" and "TLB structures";
//! - Arm: Technical Reference Manuals of Neoverse N1 (100616) and V1 (101427), "L1 memory system", "L2 memory system",
//!   "Memory management unit".
//!
//! Last levels belong to products: those of a Core i7-6700K, Xeon Platinum 8380, Core i9-12900K, Xeon Platinum 8480+, of
//! one core complex of AMD's, and of AWS' Graviton2 and Graviton3.

use crate::geometry::{Beside, Geometry, GeometryError, Machine};
use std::path::Path;

/// What a CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// First levels and last level.
    pub machine: Machine,
    /// What is beside them.
    pub beside: Beside,
}

/// KiB and ways.
type Sized = (u64, u32);
/// Pages and ways.
type Pages = (u64, u32);

struct Row {
    name: &'static str,
    i1: Sized,
    d1: Sized,
    l2: Sized,
    ll: Sized,
    itlb: Pages,
    dtlb: Pages,
    /// Vendor, family and models as `/proc/cpuinfo` has them.
    known_by: &'static [(&'static str, u32, &'static [std::ops::RangeInclusive<u32>])],
}

const ROWS: &[Row] = &[
    Row {
        name: "skylake",
        i1: (32, 8),
        d1: (32, 8),
        l2: (256, 4),
        ll: (8 << 10, 16),
        itlb: (128, 8),
        dtlb: (64, 4),
        known_by: &[("GenuineIntel", 6, &[78..=78, 94..=94])],
    },
    Row {
        name: "icelake-server",
        i1: (32, 8),
        d1: (48, 12),
        l2: (1280, 20),
        ll: (60 << 10, 12),
        itlb: (128, 8),
        dtlb: (64, 4),
        known_by: &[("GenuineIntel", 6, &[106..=106, 108..=108])],
    },
    Row {
        name: "alderlake-p",
        i1: (32, 8),
        d1: (48, 12),
        l2: (1280, 10),
        ll: (30 << 10, 12),
        itlb: (256, 8),
        dtlb: (96, 6),
        // Its other cores have the same numbers: which core it is, is not known by them.
        known_by: &[],
    },
    Row {
        name: "sapphire-rapids",
        i1: (32, 8),
        d1: (48, 12),
        l2: (2048, 16),
        ll: (105 << 10, 15),
        itlb: (256, 8),
        dtlb: (96, 6),
        known_by: &[("GenuineIntel", 6, &[143..=143])],
    },
    Row {
        name: "zen2",
        i1: (32, 8),
        d1: (32, 8),
        l2: (512, 8),
        ll: (16 << 10, 16),
        itlb: (64, 64),
        dtlb: (64, 64),
        known_by: &[("AuthenticAMD", 23, &[0x30..=0xff])],
    },
    Row {
        name: "zen3",
        i1: (32, 8),
        d1: (32, 8),
        l2: (512, 8),
        ll: (32 << 10, 16),
        itlb: (64, 64),
        dtlb: (64, 64),
        known_by: &[("AuthenticAMD", 25, &[0..=0x0f, 0x20..=0x5f])],
    },
    Row {
        name: "zen4",
        i1: (32, 8),
        d1: (32, 8),
        l2: (1024, 8),
        ll: (32 << 10, 16),
        itlb: (64, 64),
        dtlb: (72, 72),
        known_by: &[("AuthenticAMD", 25, &[0x10..=0x1f, 0x60..=0x7f, 0xa0..=0xaf])],
    },
    Row {
        name: "zen5",
        i1: (32, 8),
        d1: (48, 12),
        l2: (1024, 16),
        ll: (32 << 10, 16),
        itlb: (64, 64),
        dtlb: (96, 96),
        known_by: &[("AuthenticAMD", 26, &[0..=0x4f, 0x60..=0x7f])],
    },
    Row {
        name: "neoverse-n1",
        i1: (64, 4),
        d1: (64, 4),
        l2: (1024, 8),
        ll: (32 << 10, 16),
        itlb: (48, 48),
        dtlb: (48, 48),
        known_by: &[],
    },
    Row {
        name: "neoverse-v1",
        i1: (64, 4),
        d1: (64, 4),
        l2: (1024, 8),
        ll: (32 << 10, 16),
        itlb: (48, 48),
        dtlb: (40, 40),
        known_by: &[],
    },
];

impl Row {
    /// # Errors
    /// None that the tests let pass.
    fn cpu(&self) -> Result<Cpu, GeometryError> {
        let cache = |(kilobytes, ways): Sized| Geometry::nearest(kilobytes << 10, ways, 64);
        let pages = |(pages, ways): Pages| Geometry::new(pages << 12, ways, 4096);
        Ok(Cpu {
            machine: Machine {
                i1: cache(self.i1)?,
                d1: cache(self.d1)?,
                ll: cache(self.ll)?,
            },
            beside: Beside {
                l2: Some(cache(self.l2)?),
                tlb: Some(pages(self.dtlb)?),
                itlb: Some(pages(self.itlb)?),
                ..Beside::default()
            },
        })
    }

    fn is(&self, vendor: &str, family: u32, model: u32) -> bool {
        self.known_by.iter().any(|(name, of, models)| {
            (*name, *of) == (vendor, family) && models.iter().any(|range| range.contains(&model))
        })
    }
}

impl Cpu {
    /// The same everywhere: [`Machine::FIXED`], and nothing beside it.
    pub const FIXED: Self = Self {
        machine: Machine::FIXED,
        beside: Beside {
            l2: None,
            tlb: None,
            itlb: None,
            prefetch: crate::Prefetch::None,
            predictor: crate::Predictor::Cachegrind,
        },
    };

    /// Names that [`Cpu::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ROWS.iter().map(|row| row.name)
    }

    /// One of those that are known by name.
    pub fn named(name: &str) -> Option<Self> {
        let row = ROWS.iter().find(|row| row.name == name)?;
        row.cpu().ok()
    }

    /// This machine's first CPU, as the kernel tells of it in `/sys/devices/system/cpu/cpu0/cache`: its second level, too,
    /// where that is not the last. No translations: the kernel does not tell them.
    ///
    /// # Errors
    /// The caches are not described there, or are none that can be simulated.
    pub fn this() -> Result<Self, GeometryError> {
        Self::read(Path::new("/sys/devices/system/cpu/cpu0/cache"))
    }

    /// From a directory laid out as sysfs' (`Documentation/ABI/testing/sysfs-devices-system-cpu`).
    ///
    /// # Errors
    /// As [`Cpu::this`].
    pub fn read(directory: &Path) -> Result<Self, GeometryError> {
        let mut first = [None, None];
        let mut second = None;
        let mut last: Option<(u64, Geometry)> = None;
        for index in 0..16 {
            let field = |name: &str| {
                let path = directory.join(format!("index{index}")).join(name);
                std::fs::read_to_string(path).map(|text| text.trim().to_owned())
            };
            let (Ok(level), Ok(sort), Ok(size)) = (field("level"), field("type"), field("size"))
            else {
                continue;
            };
            let number = |name| field(name).ok().and_then(|text| text.parse::<u32>().ok());
            let (Some(ways), Some(line)) = (
                number("ways_of_associativity"),
                number("coherency_line_size"),
            ) else {
                continue;
            };
            let kilobytes = size.trim_end_matches('K').parse::<u64>().unwrap_or(0);
            let bytes = match size.strip_suffix('M') {
                Some(megabytes) => megabytes.parse::<u64>().unwrap_or(0) << 20,
                None => kilobytes << 10,
            };
            let level = level.parse::<u64>().unwrap_or(0);
            let Ok(geometry) = Geometry::nearest(bytes, ways, line) else {
                continue;
            };
            match (level, sort.as_str()) {
                (1, "Instruction") => first[0] = Some(geometry),
                (1, "Data") => first[1] = Some(geometry),
                (2.., "Unified") => {
                    if level == 2 {
                        second = Some(geometry);
                    }
                    if last.is_none_or(|(before, _)| before < level) {
                        last = Some((level, geometry));
                    }
                }
                _ => {}
            }
        }
        let ([Some(i1), Some(d1)], Some((level, ll))) = (first, last) else {
            return Err(GeometryError::new(format!(
                "{} does not describe a first and a last level of caches",
                directory.display()
            )));
        };
        Ok(Self {
            machine: Machine { i1, d1, ll },
            beside: Beside {
                l2: second.filter(|_| level > 2),
                ..Beside::default()
            },
        })
    }

    /// The name of this machine's CPU, where it is one that is known by name.
    pub fn name_of_this() -> Option<&'static str> {
        name_in(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
    }
}

/// The name of the first CPU of a `/proc/cpuinfo`.
fn name_in(cpuinfo: &str) -> Option<&'static str> {
    let field = |name: &str| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| key.trim() == name)?;
        Some(found.1.trim())
    };
    let number = |name| field(name)?.parse().ok();
    let (vendor, family, model) = (field("vendor_id")?, number("cpu family")?, number("model")?);
    let row = ROWS.iter().find(|row| row.is(vendor, family, model))?;
    Some(row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_have_a_name_can_be_simulated() {
        assert!(Cpu::names().count() >= 8);
        for row in ROWS {
            let cpu = row.cpu().unwrap();
            assert_eq!(Cpu::named(row.name), Some(cpu));
            let Beside { l2, tlb, itlb, .. } = cpu.beside;
            let (l2, tlb, itlb) = (l2.unwrap(), tlb.unwrap(), itlb.unwrap());
            // First levels and second ones are as they are, the last one within 1 % (sets are a power of two).
            assert_eq!(cpu.machine.d1.size, row.d1.0 << 10, "{}", row.name);
            assert_eq!(cpu.machine.i1.size, row.i1.0 << 10, "{}", row.name);
            assert_eq!(
                (l2.size, l2.ways),
                (row.l2.0 << 10, row.l2.1),
                "{}",
                row.name
            );
            assert_eq!(tlb.size / 4096, row.dtlb.0);
            assert_eq!(itlb.size / 4096, row.itlb.0);
            let off = (row.ll.0 << 10).abs_diff(cpu.machine.ll.size);
            assert!(off * 100 <= row.ll.0 << 10, "{}", row.name);
            assert!(l2.size < cpu.machine.ll.size && cpu.machine.d1.size < l2.size);
        }
        assert_eq!(Cpu::named("z80"), None);
    }

    #[test]
    fn a_cpu_is_known_by_its_numbers() {
        let text = |vendor: &str, family: u32, model: u32| {
            format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: x\n\n\
                 processor\t: 1\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 94\n"
            )
        };
        for (vendor, family, model, name) in [
            ("AuthenticAMD", 25, 17, Some("zen4")),
            ("AuthenticAMD", 25, 1, Some("zen3")),
            ("AuthenticAMD", 23, 49, Some("zen2")),
            ("AuthenticAMD", 26, 2, Some("zen5")),
            ("GenuineIntel", 6, 143, Some("sapphire-rapids")),
            ("GenuineIntel", 6, 1, None),
            ("GenuineIntel", 25, 17, None),
        ] {
            assert_eq!(name_in(&text(vendor, family, model)), name);
        }
        assert_eq!(name_in(""), None);
    }

    fn sysfs(rows: &[(&str, &str, &str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (index, (level, sort, size, ways)) in rows.iter().enumerate() {
            let place = directory.path().join(format!("index{index}"));
            std::fs::create_dir(&place).unwrap();
            for (name, text) in [
                ("level", level),
                ("type", sort),
                ("size", size),
                ("ways_of_associativity", ways),
                ("coherency_line_size", &"64"),
            ] {
                std::fs::write(place.join(name), format!("{text}\n")).unwrap();
            }
        }
        directory
    }

    #[test]
    fn sysfs_is_read() {
        let rows = [
            ("1", "Data", "48K", "12"),
            ("1", "Instruction", "32K", "8"),
            ("2", "Unified", "2048K", "16"),
            ("3", "Unified", "32M", "16"),
        ];
        let directory = sysfs(&rows);
        let cpu = Cpu::read(directory.path()).unwrap();
        assert_eq!(cpu.machine.d1.to_string(), "49152,12,64");
        assert_eq!(cpu.machine.ll.to_string(), "33554432,16,64");
        let l2 = cpu.beside.l2.map(|l2| l2.to_string());
        assert_eq!(l2.as_deref(), Some("2097152,16,64"));
        assert_eq!(cpu.beside.tlb, None);
        assert!(Cpu::read(&directory.path().join("nothing")).is_err());
        // Where the second level is the last, there is none between.
        let directory = sysfs(&rows[..3]);
        let cpu = Cpu::read(directory.path()).unwrap();
        assert_eq!(cpu.machine.ll.to_string(), "2097152,16,64");
        assert_eq!(cpu.beside.l2, None);
    }
}
