//! The CPU's own account of its PMU and of the hypervisor under it.
//!
//! x86: CPUID leaf 0xA (Intel SDM vol. 2, "Architectural Performance Monitoring"), leaves 0x8000_0001,
//! 0x8000_0022 (AMD APM vol. 3, "Extended Performance Monitoring and Debug"), leaf 1 ECX bit 31 and leaf
//! 0x4000_0000 (hypervisors). Arm: `midr_el1` in `/sys`. Beliefs, not proofs: how many events fit is
//! found by trying, see [`super::counters_at_once`].

use super::files::Root;

/// The four registers that CPUID fills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Registers {
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

/// What the CPU says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    /// `GenuineIntel`, `AuthenticAMD`, …; on Arm the implementer's number, e.g. `0x41`.
    pub vendor: String,
    /// The name in words, where there is one.
    pub brand: Option<String>,
    /// Family (x86).
    pub family: u32,
    /// Model (x86) or part number (Arm).
    pub model: u32,
    /// Stepping (x86) or revision (Arm).
    pub stepping: u32,
    /// Hypervisor under the system; its signature where it has one, e.g. `KVMKVMKVM`.
    pub hypervisor: Option<String>,
    /// Version of the PMU: Intel's architectural version, AMD's 1 (core extensions) or 2 (PerfMonV2).
    pub pmu_version: Option<u32>,
    /// General counters a thread can use.
    pub general_counters: Option<u32>,
    /// Fixed counters.
    pub fixed_counters: Option<u32>,
    /// Bits of a general counter.
    pub counter_width: Option<u32>,
    /// Entries of the branch stack that CPUID announces (AMD's LBR v2).
    pub branch_entries: Option<u32>,
}

impl Cpu {
    /// Who made it and which it is, in the fields that its maker uses: family, model and stepping on x86, implementer,
    /// part and revision on Arm.
    #[must_use]
    pub fn identity(&self) -> String {
        let implementer = self
            .vendor
            .strip_prefix("0x")
            .and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match implementer {
            Some(implementer) => {
                let maker = truecount_events::arm_implementer(implementer)
                    .map_or(String::new(), |name| format!("{name}, "));
                let core = truecount_events::arm_core(implementer, self.model)
                    .map_or(String::new(), |name| format!("{name}, "));
                format!(
                    "{maker}{core}implementer {implementer:#04x} part {:#05x} revision {}",
                    self.model, self.stepping
                )
            }
            None if self.vendor.is_empty() => "unknown".to_owned(),
            None => format!(
                "{} family {:#x} model {:#x} stepping {}",
                self.vendor, self.family, self.model, self.stepping
            ),
        }
    }
}

/// What can be known about the CPU below `root`: CPUID on the running system, else files only.
#[must_use]
pub fn describe(root: &Root) -> Cpu {
    let by_cpuid = if root.is_system() {
        describe_by_cpuid()
    } else {
        None
    };
    let cpu = by_cpuid.unwrap_or_else(|| describe_by_files(root));
    match truecount_events::Cpu::stated().filter(|_| root.is_system()) {
        Some(stated) => as_stated(cpu, stated),
        None => cpu,
    }
}

/// The CPU with the identity that a test states; its brand says so, wherever it is shown.
fn as_stated(cpu: Cpu, stated: Option<truecount_events::Cpu>) -> Cpu {
    use truecount_events::Vendor;
    let brand = Some("as TRUECOUNT_TEST_CPU states".to_owned());
    let Some(stated) = stated else {
        return Cpu {
            vendor: "unknown".to_owned(),
            brand,
            family: 0,
            model: 0,
            stepping: 0,
            ..cpu
        };
    };
    Cpu {
        vendor: match stated.vendor {
            Vendor::Intel => "GenuineIntel".to_owned(),
            Vendor::Amd => "AuthenticAMD".to_owned(),
            Vendor::Hygon => "HygonGenuine".to_owned(),
            Vendor::Arm(implementer) => format!("{implementer:#04x}"),
            _ => "unknown".to_owned(),
        },
        brand,
        family: stated.family,
        model: stated.model,
        stepping: stated.stepping,
        ..cpu
    }
}

/// The hypervisor under the system, or `None`.
#[must_use]
pub(crate) fn hypervisor(root: &Root) -> Option<String> {
    describe(root).hypervisor
}

#[cfg(target_arch = "x86_64")]
fn describe_by_cpuid() -> Option<Cpu> {
    Some(from_cpuid(|leaf, subleaf| {
        // CPUID exists on every x86-64; in newer Rust the intrinsic is safe.
        #[allow(unused_unsafe)]
        // SAFETY: x86-64 has CPUID.
        let r = unsafe { std::arch::x86_64::__cpuid_count(leaf, subleaf) };
        Registers {
            eax: r.eax,
            ebx: r.ebx,
            ecx: r.ecx,
            edx: r.edx,
        }
    }))
}

#[cfg(not(target_arch = "x86_64"))]
fn describe_by_cpuid() -> Option<Cpu> {
    None
}

/// The low `bits` of `value` from bit `from` on.
const fn field(value: u32, from: u32, bits: u32) -> u32 {
    (value >> from) & ((1 << bits) - 1)
}

/// Text in registers, byte by byte, up to the first 0.
fn text(registers: &[u32]) -> String {
    let bytes: Vec<u8> = registers
        .iter()
        .flat_map(|r| r.to_le_bytes())
        .take_while(|&b| b != 0)
        .collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Describes an x86 CPU by a CPUID function: `(leaf, subleaf)` to registers.
#[must_use]
pub fn from_cpuid(cpuid: impl Fn(u32, u32) -> Registers) -> Cpu {
    let zero = cpuid(0, 0);
    let one = cpuid(1, 0);
    let extended = cpuid(0x8000_0000, 0).eax;
    let base_family = field(one.eax, 8, 4);
    let family = base_family
        + if base_family == 15 {
            field(one.eax, 20, 8)
        } else {
            0
        };
    let wide_model = base_family == 6 || base_family == 15;
    let model = field(one.eax, 4, 4)
        | if wide_model {
            field(one.eax, 16, 4) << 4
        } else {
            0
        };
    let mut cpu = Cpu {
        vendor: text(&[zero.ebx, zero.edx, zero.ecx]),
        family,
        model,
        stepping: field(one.eax, 0, 4),
        ..Cpu::default()
    };
    if (0x8000_0004..0x8100_0000).contains(&extended) {
        let brand: Vec<u32> = (0x8000_0002..=0x8000_0004)
            .map(|leaf| cpuid(leaf, 0))
            .flat_map(|r| [r.eax, r.ebx, r.ecx, r.edx])
            .collect();
        cpu.brand = Some(text(&brand)).filter(|brand| !brand.is_empty());
    }
    if one.ecx >> 31 != 0 {
        let hv = cpuid(0x4000_0000, 0);
        let name = text(&[hv.ebx, hv.ecx, hv.edx]);
        cpu.hypervisor = Some(if name.is_empty() {
            "unknown".to_owned()
        } else {
            name
        });
    }
    if matches!(cpu.vendor.as_str(), "AuthenticAMD" | "HygonGenuine") {
        amd_pmu(&mut cpu, extended, &cpuid);
    } else if zero.eax >= 0xa {
        intel_pmu(&mut cpu, cpuid(0xa, 0));
    }
    cpu
}

fn intel_pmu(cpu: &mut Cpu, leaf: Registers) {
    let version = field(leaf.eax, 0, 8);
    cpu.pmu_version = Some(version);
    if version > 0 {
        cpu.general_counters = Some(field(leaf.eax, 8, 8));
        cpu.counter_width = Some(field(leaf.eax, 16, 8));
        // Fixed counters come with version 2; from 5 on a bit mask in ECX can list more.
        let listed = field(leaf.edx, 0, 5);
        let masked = if version >= 5 {
            32 - leaf.ecx.leading_zeros()
        } else {
            0
        };
        cpu.fixed_counters = Some(if version >= 2 { listed.max(masked) } else { 0 });
    }
}

fn amd_pmu(cpu: &mut Cpu, extended: u32, cpuid: &impl Fn(u32, u32) -> Registers) {
    // Without the extension there are the four counters of K7, always 48 bits.
    cpu.general_counters = Some(4);
    cpu.fixed_counters = Some(0);
    cpu.counter_width = Some(48);
    cpu.pmu_version = Some(0);
    if extended >= 0x8000_0001 && cpuid(0x8000_0001, 0).ecx >> 23 & 1 != 0 {
        cpu.general_counters = Some(6); // PerfCtrExtCore
        cpu.pmu_version = Some(1);
    }
    if extended >= 0x8000_0022 {
        let leaf = cpuid(0x8000_0022, 0);
        if leaf.eax & 1 != 0 {
            cpu.pmu_version = Some(2);
            cpu.general_counters = Some(field(leaf.ebx, 0, 4));
        }
        if leaf.eax & 2 != 0 {
            cpu.branch_entries = Some(field(leaf.ebx, 4, 6));
        }
    }
}

fn describe_by_files(root: &Root) -> Cpu {
    let mut cpu = Cpu::default();
    let midr = root
        .text("sys/devices/system/cpu/cpu0/regs/identification/midr_el1")
        .and_then(|hex| u32::from_str_radix(hex.trim_start_matches("0x"), 16).ok());
    if let Some(midr) = midr {
        // MIDR_EL1: implementer 31:24, part number 15:4, revision 3:0 (Arm ARM, D19.2.101).
        cpu.vendor = format!("{:#04x}", field(midr, 24, 8));
        cpu.model = field(midr, 4, 12);
        cpu.stepping = field(midr, 0, 4);
    }
    let info = root.text("proc/cpuinfo").unwrap_or_default();
    let entry = |name: &str| {
        info.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    let hex = |name: &str| {
        let text = entry(name)?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    if cpu.vendor.is_empty()
        && let (Some(implementer), Some(part)) = (hex("CPU implementer"), hex("CPU part"))
    {
        cpu.vendor = format!("{implementer:#04x}");
        cpu.model = part;
    }
    if cpu.vendor.is_empty() {
        cpu.vendor = entry("vendor_id").unwrap_or_default();
        let number = |name| {
            entry(name)
                .and_then(|value| value.parse().ok())
                .unwrap_or(0)
        };
        cpu.family = number("cpu family");
        cpu.model = number("model");
        cpu.stepping = number("stepping");
    }
    cpu.brand = entry("model name");
    let flagged =
        entry("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    cpu.hypervisor = root
        .text("sys/hypervisor/type")
        .or_else(|| root.text("proc/device-tree/hypervisor/compatible"))
        .map(|name| name.trim_end_matches('\0').to_owned())
        .or_else(|| flagged.then(|| "unknown".to_owned()));
    cpu
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Tree;

    fn words(text: &str) -> [u32; 3] {
        let mut bytes = [0u8; 12];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        [0, 4, 8].map(|i| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]))
    }

    #[test]
    fn a_skylake() {
        let [b, d, c] = words("GenuineIntel");
        let cpu = from_cpuid(|leaf, _| match leaf {
            0 => Registers {
                eax: 0x16,
                ebx: b,
                ecx: c,
                edx: d,
            },
            1 => Registers {
                eax: 0x0005_06e3,
                ..Registers::default()
            },
            // Version 4, 4 general counters of 48 bits; 3 fixed ones.
            0xa => Registers {
                eax: 0x0730_0404,
                edx: 0x603,
                ..Registers::default()
            },
            _ => Registers::default(),
        });
        assert_eq!(
            (cpu.vendor.as_str(), cpu.family, cpu.model, cpu.stepping),
            ("GenuineIntel", 6, 0x5e, 3)
        );
        assert_eq!((cpu.pmu_version, cpu.general_counters), (Some(4), Some(4)));
        assert_eq!((cpu.fixed_counters, cpu.counter_width), (Some(3), Some(48)));
        assert_eq!(cpu.hypervisor, None);
    }

    #[test]
    fn a_zen_5_in_a_machine_of_kvm() {
        let [b, d, c] = words("AuthenticAMD");
        let hv = words("KVMKVMKVM");
        let cpu = from_cpuid(|leaf, _| match leaf {
            0 => Registers {
                eax: 0x10,
                ebx: b,
                ecx: c,
                edx: d,
            },
            1 => Registers {
                eax: 0x00b4_0f40,
                ecx: 1 << 31,
                ..Registers::default()
            },
            0x4000_0000 => Registers {
                eax: 0x4000_0001,
                ebx: hv[0],
                ecx: hv[1],
                edx: hv[2],
            },
            0x8000_0000 => Registers {
                eax: 0x8000_0028,
                ..Registers::default()
            },
            0x8000_0001 => Registers {
                ecx: 1 << 23,
                ..Registers::default()
            },
            0x8000_0022 => Registers {
                eax: 3,
                ebx: 6 | 16 << 4,
                ..Registers::default()
            },
            _ => Registers::default(),
        });
        assert_eq!((cpu.family, cpu.model), (0x1a, 0x44));
        assert_eq!(cpu.hypervisor.as_deref(), Some("KVMKVMKVM"));
        assert_eq!((cpu.pmu_version, cpu.general_counters), (Some(2), Some(6)));
        assert_eq!(cpu.branch_entries, Some(16));
    }

    #[test]
    fn a_neoverse_by_its_files() {
        let tree = Tree::new().unwrap();
        tree.file(
            "sys/devices/system/cpu/cpu0/regs/identification/midr_el1",
            "0x00000000413fd0c1\n",
        );
        let cpu = describe(&tree.root());
        assert_eq!(
            (cpu.vendor.as_str(), cpu.model, cpu.stepping),
            ("0x41", 0xd0c, 1)
        );
        assert_eq!(
            cpu.identity(),
            "Arm, Neoverse N1, implementer 0x41 part 0xd0c revision 1"
        );
        let x86 = Cpu {
            vendor: "GenuineIntel".to_owned(),
            family: 6,
            model: 0x5e,
            stepping: 3,
            ..Cpu::default()
        };
        assert_eq!(
            x86.identity(),
            "GenuineIntel family 0x6 model 0x5e stepping 3"
        );
        assert_eq!(Cpu::default().identity(), "unknown");
    }

    #[test]
    fn nothing_is_claimed_without_files() {
        let tree = Tree::new().unwrap();
        assert_eq!(describe(&tree.root()), Cpu::default());
    }

    #[test]
    fn this_machine_has_a_vendor() {
        if cfg!(target_arch = "x86_64") {
            assert!(!describe(&Root::system()).vendor.is_empty());
        }
    }
}
