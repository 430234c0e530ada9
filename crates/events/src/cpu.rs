//! Which CPU this is, as far as event tables need it. Facts: the fields of `/proc/cpuinfo`
//! (`arch/x86/kernel/cpu/proc.c`, `arch/arm64/kernel/cpuinfo.c`).

/// Who made the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vendor {
    /// `GenuineIntel`.
    Intel,
    /// `AuthenticAMD`.
    Amd,
    /// `HygonGenuine`, a Zen licensee.
    Hygon,
    /// An Arm implementer (`CPU implementer` in cpuinfo: 0x41 is Arm itself).
    Arm(u32),
}

/// Vendor, family, model, stepping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// Who made it.
    pub vendor: Vendor,
    /// Display family (x86); architecture (Arm).
    pub family: u32,
    /// Display model (x86); part number (Arm).
    pub model: u32,
    /// Stepping (x86); revision (Arm).
    pub stepping: u32,
}

impl Cpu {
    /// Reads the first processor of a `/proc/cpuinfo`.
    ///
    /// ```
    /// use truecount_events::{Cpu, Vendor};
    /// let text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 94\nstepping\t: 3\n";
    /// let cpu = Cpu::from_cpuinfo(text).unwrap();
    /// assert_eq!((cpu.vendor, cpu.family, cpu.model), (Vendor::Intel, 6, 0x5e));
    /// ```
    #[must_use]
    pub fn from_cpuinfo(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim())
            })
        };
        let number = |name: &str| field(name).and_then(any_number);
        if let Some(implementer) = number("CPU implementer") {
            return Some(Self {
                vendor: Vendor::Arm(implementer),
                family: number("CPU architecture").unwrap_or(8),
                model: number("CPU part")?,
                stepping: number("CPU revision").unwrap_or(0),
            });
        }
        let vendor = match field("vendor_id")? {
            "GenuineIntel" => Vendor::Intel,
            "AuthenticAMD" => Vendor::Amd,
            "HygonGenuine" => Vendor::Hygon,
            _ => return None,
        };
        Some(Self {
            vendor,
            family: number("cpu family")?,
            model: number("model")?,
            stepping: number("stepping").unwrap_or(0),
        })
    }

    /// Reads `AuthenticAMD-25-33-0`: vendor, family, model and stepping in decimal, as the environment of results and
    /// the tables have them; Arm's implementer, family, part and revision as `0x41-8-3340-1`.
    ///
    /// ```
    /// use truecount_events::{Cpu, Vendor};
    /// let cpu = Cpu::from_id("AuthenticAMD-25-33-0").unwrap();
    /// assert_eq!((cpu.vendor, cpu.family, cpu.model), (Vendor::Amd, 25, 0x21));
    /// assert!(Cpu::from_id("unknown").is_none());
    /// ```
    #[must_use]
    pub fn from_id(text: &str) -> Option<Self> {
        let mut words = text.split('-');
        let vendor = match words.next()? {
            "GenuineIntel" => Vendor::Intel,
            "AuthenticAMD" => Vendor::Amd,
            "HygonGenuine" => Vendor::Hygon,
            arm => Vendor::Arm(any_number(arm)?),
        };
        let mut number = || any_number(words.next()?);
        let (family, model, stepping) = (number()?, number()?, number()?);
        words.next().is_none().then_some(Self {
            vendor,
            family,
            model,
            stepping,
        })
    }

    /// The CPU that `TRUECOUNT_TEST_CPU` names, for tests that must not depend on the machine: `Some(None)` for one that
    /// no table knows (any other text, as `unknown`).
    #[must_use]
    pub fn stated() -> Option<Option<Self>> {
        let text = std::env::var("TRUECOUNT_TEST_CPU").ok()?;
        Some(Self::from_id(&text))
    }
}

fn any_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Who an Arm implementer code stands for (Arm Architecture Reference Manual, `MIDR_EL1`).
#[must_use]
pub fn arm_implementer(code: u32) -> Option<&'static str> {
    Some(match code {
        0x41 => "Arm",
        0x42 => "Broadcom",
        0x43 => "Cavium",
        0x46 => "Fujitsu",
        0x48 => "HiSilicon",
        0x4e => "NVIDIA",
        0x50 => "Applied Micro",
        0x51 => "Qualcomm",
        0x53 => "Samsung",
        0x61 => "Apple",
        0x6d => "Microsoft",
        0xc0 => "Ampere",
        _ => return None,
    })
}

/// The name of a core by its part number (Linux `arch/arm64/include/asm/cputype.h`).
#[must_use]
pub fn arm_core(implementer: u32, part: u32) -> Option<&'static str> {
    Some(match (implementer, part) {
        (0x41, 0xd03) => "Cortex-A53",
        (0x41, 0xd04) => "Cortex-A35",
        (0x41, 0xd05) => "Cortex-A55",
        (0x41, 0xd07) => "Cortex-A57",
        (0x41, 0xd08) => "Cortex-A72",
        (0x41, 0xd09) => "Cortex-A73",
        (0x41, 0xd0a) => "Cortex-A75",
        (0x41, 0xd0b) => "Cortex-A76",
        (0x41, 0xd0c) => "Neoverse N1",
        (0x41, 0xd0d) => "Cortex-A77",
        (0x41, 0xd40) => "Neoverse V1",
        (0x41, 0xd41) => "Cortex-A78",
        (0x41, 0xd44) => "Cortex-X1",
        (0x41, 0xd46) => "Cortex-A510",
        (0x41, 0xd47) => "Cortex-A710",
        (0x41, 0xd48) => "Cortex-X2",
        (0x41, 0xd49) => "Neoverse N2",
        (0x41, 0xd4f) => "Neoverse V2",
        (0x41, 0xd83) => "Neoverse V3AE",
        (0x41, 0xd84) => "Neoverse V3",
        (0x41, 0xd8e) => "Neoverse N3",
        (0x61, 0x022) => "M1 Icestorm",
        (0x61, 0x023) => "M1 Firestorm",
        (0x61, 0x032) => "M2 Blizzard",
        (0x61, 0x033) => "M2 Avalanche",
        (0xc0, 0xac3) => "Ampere-1",
        (0xc0, 0xac4) => "Ampere-1A",
        _ => return None,
    })
}
