//! `/proc/stat`, `/proc/interrupts` and `/proc/vmstat`. Facts: proc(5), `fs/proc/stat.c`, `kernel/irq/proc.c`,
//! `arch/x86/kernel/irq.c` of Linux 6.12.

use std::collections::BTreeMap;

use truecount_perf::probe::Root;

use crate::files::text;

/// Nanoseconds of a tick of `/proc/stat`: `USER_HZ` is 100 on x86 and Arm (`include/asm-generic/param.h`).
const TICK_NS: u64 = 10_000_000;
/// CPU numbers beyond this are no CPU numbers (Linux's largest `NR_CPUS` is 8,192).
const MAX_CPUS: u32 = 1 << 16;

/// Where a CPU's time went since boot, in ns, as the kernel accounts it (in ticks of 10 ms).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// User mode, niced or not, guests included.
    pub user: u64,
    /// The kernel.
    pub kernel: u64,
    /// Hard and soft interrupts.
    pub interrupts: u64,
    /// Nothing to do, or waiting for a disk.
    pub idle: u64,
    /// The hypervisor ran somebody else.
    pub steal: u64,
}

/// `/proc/stat`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stat {
    /// By CPU number; only CPUs that are online.
    pub cpus: BTreeMap<u32, CpuTimes>,
    /// Context switches of all CPUs since boot.
    pub context_switches: Option<u64>,
}

impl Stat {
    /// Reads it.
    ///
    /// # Errors
    /// The file cannot be read, or holds no CPU.
    pub fn read(root: &Root) -> Result<Self, String> {
        let stat = Self::parse(&text(root, "proc/stat")?);
        if stat.cpus.is_empty() {
            return Err("/proc/stat names no CPU".to_owned());
        }
        Ok(stat)
    }

    /// Parses it; lines that are something else are passed over.
    ///
    /// ```
    /// use truecount_system::proc::Stat;
    /// let stat = Stat::parse("cpu  9 9\ncpu1 1 2 3 4 5 6 7 8 0 0\nctxt 77\n");
    /// assert_eq!(stat.cpus[&1].user, 30_000_000); // 1 + 2 ticks
    /// assert_eq!(stat.context_switches, Some(77));
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut stat = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(first) = words.next() else { continue };
            if first == "ctxt" {
                stat.context_switches = words.next().and_then(|word| word.parse().ok());
            } else if let Some(number) = first.strip_prefix("cpu")
                && let Ok(cpu) = number.parse::<u32>()
                && cpu < MAX_CPUS
            {
                // user nice system idle iowait irq softirq steal (guest is in user)
                let mut ticks = [0u64; 8];
                let mut seen = 0;
                for (slot, word) in ticks.iter_mut().zip(words) {
                    let Ok(value) = word.parse() else { break };
                    *slot = value;
                    seen += 1;
                }
                if seen < 4 {
                    continue;
                }
                let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
                let ns = |a: u64, b: u64| a.saturating_add(b).saturating_mul(TICK_NS);
                let times = CpuTimes {
                    user: ns(user, nice),
                    kernel: ns(system, 0),
                    interrupts: ns(irq, softirq),
                    idle: ns(idle, iowait),
                    steal: ns(steal, 0),
                };
                stat.cpus.insert(cpu, times);
            }
        }
        stat
    }
}

/// `/proc/interrupts`: for each line the count of each CPU. The kernel keeps them in 32 bits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interrupts {
    /// Line name (`24`, `LOC`, `IPI0`) to counts in the order of `cpus`.
    pub lines: BTreeMap<String, Vec<u32>>,
    /// The CPUs of the columns.
    pub cpus: Vec<u32>,
}

impl Interrupts {
    /// Reads it.
    ///
    /// # Errors
    /// The file cannot be read, or names no CPU.
    pub fn read(root: &Root) -> Result<Self, String> {
        let read = Self::parse(&text(root, "proc/interrupts")?);
        if read.cpus.is_empty() {
            return Err("/proc/interrupts names no CPU".to_owned());
        }
        Ok(read)
    }

    /// Parses it; lines without one number for each CPU are passed over (`ERR`, `MIS` count for no CPU).
    ///
    /// ```
    /// use truecount_system::proc::Interrupts;
    /// let read = Interrupts::parse("  CPU0 CPU2\n 24: 1 2 IO-APIC timer\nLOC: 10 20 Local\nERR: 0\n");
    /// assert_eq!(read.cpus, [0, 2]);
    /// assert_eq!(read.lines["LOC"], [10, 20]);
    /// assert_eq!(read.lines.len(), 2);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or("");
        let cpus: Vec<u32> = head
            .split_ascii_whitespace()
            .map_while(|word| word.strip_prefix("CPU")?.parse().ok())
            .filter(|&cpu| cpu < MAX_CPUS)
            .collect();
        let mut read = Self {
            lines: BTreeMap::new(),
            cpus,
        };
        for line in lines {
            let Some((name, rest)) = line.split_once(':') else {
                continue;
            };
            let name = name.trim();
            if matches!(name, "ERR" | "MIS") {
                continue;
            }
            // The kernel prints them as unsigned int; what is larger is not a count.
            let counts: Vec<u32> = rest
                .split_ascii_whitespace()
                .take(read.cpus.len())
                .map_while(|word| word.parse().ok())
                .collect();
            if !counts.is_empty() && counts.len() == read.cpus.len() {
                read.lines.insert(name.to_owned(), counts);
            }
        }
        read
    }
}

/// Page faults of all CPUs since boot (`pgfault` of `/proc/vmstat`).
///
/// # Errors
/// The file cannot be read or has no such line.
pub fn page_faults(root: &Root) -> Result<u64, String> {
    let text = text(root, "proc/vmstat")?;
    text.lines()
        .find_map(|line| line.strip_prefix("pgfault "))
        .and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| "/proc/vmstat has no pgfault".to_owned())
}
