//! What works on this machine, and what it means. Everything that can be tried is tried.

mod kept;

pub use kept::exactness;

use serde::Serialize;
use truecount_events::{Machine, irq};
use truecount_perf::probe::{self, BranchTrial, Root};
use truecount_perf::sys::bindings as abi;
use truecount_perf::{Event, EventAttr, Facts, OpenOptions, SharedKernel, Target, linux};

use truecount_model::{Reason, SourceKind};
use truecount_run::exactness::Verdicts;
use truecount_run::source::{hardware_available_on, step_available, virtual_available};

/// How it stands with one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It works.
    Ok,
    /// It works in part.
    Limited,
    /// It does not work.
    Missing,
    /// A fact that is neither good nor bad.
    Info,
}

/// One finding.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Its name, as `--require` takes it.
    pub name: &'static str,
    /// How it stands.
    pub status: Status,
    /// In words.
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    fn new(name: &'static str, status: Status, detail: impl Into<String>) -> Self {
        Self {
            name,
            status,
            detail: detail.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn of(name: &'static str, result: Result<(), Reason>, works: &str) -> Self {
        match result {
            Ok(()) => Self::new(name, Status::Ok, works),
            Err(reason) => Self {
                name,
                status: Status::Missing,
                detail: reason.cause,
                hint: reason.hint,
            },
        }
    }

    /// Whether `--require` takes it: what works or does not, no plain fact.
    pub fn requirable(&self) -> bool {
        matches!(
            self.name,
            "hardware"
                | "rdpmc"
                | "lbr"
                | "irq-event"
                | "kernel-counts"
                | "aslr-control"
                | "software"
                | "step"
                | "virtual"
        )
    }
}

/// Everything, in the order shown.
#[must_use]
pub fn all() -> Vec<Finding> {
    let kernel = linux();
    let hardware = hardware_available_on(&kernel);
    let mut all = of_machine(&Root::system(), &kernel);
    let counters = all
        .iter()
        .position(|finding| finding.name == "paranoid")
        .unwrap_or(all.len());
    all.insert(counters, irq_event(&hardware));
    all.extend([
        aslr(&Facts::gather(&Root::system())),
        software(),
        Finding::of(
            "step",
            step_available(),
            "single-stepping works: exact instructions:u, slowly (--source step)",
        ),
        Finding::of(
            "virtual",
            virtual_available(),
            "the virtual PMU works: exact instructions:u near native speed \
             (--source virtual, truecount run)",
        ),
    ]);
    all
}

/// What a machine's files and its kernel's answers say; what has to be run on it is left out.
#[must_use]
pub fn of_machine(root: &Root, kernel: &SharedKernel) -> Vec<Finding> {
    let facts = kernel.facts();
    let cpu = probe::cpu::describe(root);
    let hardware = hardware_available_on(kernel);
    vec![
        processor(&cpu),
        Finding::new(
            "kernel",
            Status::Info,
            facts
                .release
                .clone()
                .unwrap_or_else(|| "unknown release".to_owned()),
        ),
        virtualisation(&cpu, &facts),
        pmu(&cpu, &facts),
        Finding::of(
            "hardware",
            hardware.clone(),
            "the CPU's counters can be opened",
        ),
        counters(&cpu, kernel),
        user_reads(&hardware, kernel),
        branch_stacks(&hardware, kernel),
        paranoid(&facts),
        kernel_counts(&hardware, kernel),
        watchdog(&facts),
    ]
}

fn processor(cpu: &probe::cpu::Cpu) -> Finding {
    let identity = cpu.identity();
    let text = match &cpu.brand {
        Some(name) => format!("{name} ({identity})"),
        None => identity,
    };
    Finding::new("cpu", Status::Info, text)
}

fn virtualisation(cpu: &probe::cpu::Cpu, facts: &Facts) -> Finding {
    let mut text = match &cpu.hypervisor {
        Some(name) => format!("a virtual machine under {name}"),
        None => "no hypervisor".to_owned(),
    };
    if let Some(container) = &facts.container {
        text = format!("{text}, in a container ({container})");
    }
    Finding::new("virtualisation", Status::Info, text)
}

fn pmu(cpu: &probe::cpu::Cpu, facts: &Facts) -> Finding {
    let listed: Vec<&str> = facts
        .pmus
        .iter()
        .flatten()
        .filter(|pmu| pmu.core)
        .map(|pmu| pmu.name.as_str())
        .collect();
    let mut text = match cpu.pmu_version {
        Some(0) | None => "the CPU announces no PMU version".to_owned(),
        Some(version) => format!("the CPU announces PMU version {version}"),
    };
    if let (Some(general), Some(width)) = (cpu.general_counters, cpu.counter_width)
        && cpu.pmu_version.is_some_and(|version| version > 0)
    {
        let fixed = cpu.fixed_counters.unwrap_or(0);
        text = format!("{text}, {general} general and {fixed} fixed counters of {width} bits");
    }
    text = match listed.as_slice() {
        [] => format!("{text}; the kernel offers none"),
        names => format!("{text}; the kernel offers {}", names.join(", ")),
    };
    Finding::new("pmu", Status::Info, text)
}

fn counters(cpu: &probe::cpu::Cpu, kernel: &SharedKernel) -> Finding {
    match probe::counters_at_once(kernel) {
        Ok(found) => {
            let text = format!(
                "{} events at once, {} of them general (found by trying)",
                found.all.ran, found.general.ran
            );
            let fewer = cpu
                .general_counters
                .is_some_and(|announced| (found.general.ran as u64) < u64::from(announced));
            if fewer {
                Finding::new(
                    "counters",
                    Status::Limited,
                    format!("{text}: fewer than announced"),
                )
                .hint(format!(
                    "see who holds counters: {}",
                    kernel.facts().other_users()
                ))
            } else {
                Finding::new("counters", Status::Ok, text)
            }
        }
        Err(_) => Finding::new("counters", Status::Missing, "needs hardware counters"),
    }
}

/// `instructions:u` as other probes want it.
fn instructions() -> EventAttr {
    EventAttr::new(
        abi::PERF_TYPE_HARDWARE,
        u64::from(abi::PERF_COUNT_HW_INSTRUCTIONS),
    )
    .exclude_kernel(true)
    .exclude_hv(true)
}

/// What a probe says that cannot work without hardware.
fn without_hardware(name: &'static str, hardware: &Result<(), Reason>) -> Option<Finding> {
    hardware.as_ref().err()?;
    Some(Finding::new(
        name,
        Status::Missing,
        "needs hardware counters",
    ))
}

fn user_reads(hardware: &Result<(), Reason>, kernel: &SharedKernel) -> Finding {
    if let Some(finding) = without_hardware("rdpmc", hardware) {
        return finding;
    }
    // arm64: config1 bit 1 asks for reads from user space (arch/arm64/kernel/../perf/arm_pmuv3.c).
    let attr = if cfg!(target_arch = "aarch64") {
        instructions().config1(2)
    } else {
        instructions()
    };
    match probe::user_read(kernel, &attr) {
        Ok(read) if read.works() => Finding::new(
            "rdpmc",
            Status::Ok,
            format!(
                "programs may read their counters directly ({} bits)",
                read.width
            ),
        ),
        Ok(_) => Finding::new(
            "rdpmc",
            Status::Missing,
            "the kernel does not let programs read counters directly",
        )
        .hint(if cfg!(target_arch = "aarch64") {
            "sysctl kernel.perf_user_access=1"
        } else {
            "echo 1 > /sys/bus/event_source/devices/cpu/rdpmc"
        }),
        Err(error) => Finding::new("rdpmc", Status::Missing, error.reason()).hint(error.hint()),
    }
}

fn branch_stacks(hardware: &Result<(), Reason>, kernel: &SharedKernel) -> Finding {
    if let Some(finding) = without_hardware("lbr", hardware) {
        return finding;
    }
    match probe::branch_stack(kernel) {
        BranchTrial::Works => Finding::new("lbr", Status::Ok, "branch stacks can be sampled"),
        BranchTrial::Refused(errno) => Finding::new(
            "lbr",
            Status::Missing,
            format!("branch stacks cannot be sampled: {errno}"),
        )
        .hint(
            "they need Intel LBR, AMD LBR v2 (Zen 4) or Arm BRBE, passed through by the hypervisor",
        ),
    }
}

fn irq_event(hardware: &Result<(), Reason>) -> Finding {
    if let Some(finding) = without_hardware("irq-event", hardware) {
        return finding;
    }
    let known = Machine::this().cpu().and_then(irq::interrupts);
    let name = known.map_or_else(
        || "none known for this CPU".to_owned(),
        |event| format!("r{:04x} ({})", event.config, event.name),
    );
    // Opening counts a loop and waits for an interrupt: belief is not enough.
    let opened: Result<truecount::Counter, _> =
        truecount::Counter::open("instructions-minus-irqs:u");
    match opened {
        Ok(_) => counted_difference(&name, Verdicts::of_this_machine()),
        Err(error) => Finding::new("irq-event", Status::Missing, format!("{name}: {error}")),
    }
}

/// The difference can be counted; whether it is exact is what `exactness` found.
fn counted_difference(name: &str, known: &Verdicts) -> Finding {
    const EVENT: &str = "instructions-minus-irqs:u";
    let hardware = SourceKind::Hardware;
    match known.deviation(EVENT, hardware, &Machine::this()) {
        Some(kept) => Finding::new(
            "irq-event",
            Status::Limited,
            format!(
                "{name} counts, and {EVENT} is still not exact: {}",
                kept.verdict.text
            ),
        )
        .hint("truecount exactness -e instructions-minus-irqs:u"),
        None => Finding::new(
            "irq-event",
            Status::Ok,
            format!("{name} counts, one for each instruction that interrupts add: {EVENT} works"),
        ),
    }
}

fn paranoid(facts: &Facts) -> Finding {
    let Some(level) = facts.paranoid else {
        return Finding::new(
            "paranoid",
            Status::Missing,
            "no kernel.perf_event_paranoid: the kernel has no perf events, or /proc is hidden",
        );
    };
    let means = match level {
        ..=-1 => "everybody may do everything",
        0 => "no raw tracepoints for ordinary users",
        1 => "processes with their kernel part, no machine-wide counts for ordinary users",
        2 => "user mode only for ordinary users",
        _ => "nothing for ordinary users",
    };
    if facts.privileged() {
        return Finding::new(
            "paranoid",
            Status::Info,
            format!("kernel.perf_event_paranoid = {level} ({means}); this user is privileged"),
        );
    }
    let text = format!("kernel.perf_event_paranoid = {level}: {means}");
    if level >= 3 {
        Finding::new("paranoid", Status::Missing, text)
            .hint("sysctl kernel.perf_event_paranoid=2, or give truecount CAP_PERFMON")
    } else {
        Finding::new("paranoid", Status::Info, text)
    }
}

fn kernel_counts(hardware: &Result<(), Reason>, kernel: &SharedKernel) -> Finding {
    if let Some(finding) = without_hardware("kernel-counts", hardware) {
        return finding;
    }
    let attr = EventAttr::new(
        abi::PERF_TYPE_HARDWARE,
        u64::from(abi::PERF_COUNT_HW_INSTRUCTIONS),
    );
    match Event::open_with(kernel, &attr, Target::CallingThread, OpenOptions::default()) {
        Ok(_) => Finding::new(
            "kernel-counts",
            Status::Ok,
            "events of the kernel can be counted",
        ),
        Err(error) => {
            Finding::new("kernel-counts", Status::Missing, error.reason()).hint(error.hint())
        }
    }
}

fn watchdog(facts: &Facts) -> Finding {
    match facts.nmi_watchdog {
        Some(true) if facts.watchdog_counts == Some(false) => Finding::new(
            "nmi-watchdog",
            Status::Info,
            "on, as buddies that watch each other (CONFIG_HARDLOCKUP_DETECTOR_BUDDY): it holds no counter",
        ),
        Some(true) => Finding::new(
            "nmi-watchdog",
            Status::Limited,
            match facts.watchdog_counts {
                Some(_) => "it holds one counter on every CPU",
                None => "it may hold one counter on every CPU (since Linux 6.5 that depends on the kernel's configuration)",
            },
        )
        .hint("sysctl kernel.nmi_watchdog=0"),
        Some(false) => Finding::new("nmi-watchdog", Status::Info, "off: it holds no counter"),
        None => Finding::new("nmi-watchdog", Status::Info, "this kernel has none"),
    }
}

fn aslr(facts: &Facts) -> Finding {
    let system = match facts.randomize_va_space {
        Some(0) => "addresses are not randomised here",
        Some(_) => "addresses are randomised (kernel.randomize_va_space)",
        None => "unknown whether addresses are randomised",
    };
    // SAFETY: 0xffffffff asks for the personality without changing it.
    let now = unsafe { libc::personality(0xffff_ffff) };
    let allowed = now >= 0 && {
        // SAFETY: sets what is set already with the wished flag, then what it was before.
        unsafe {
            let with = libc::c_ulong::try_from(now | libc::ADDR_NO_RANDOMIZE).unwrap_or(0);
            let before = libc::c_ulong::try_from(now).unwrap_or(0);
            libc::personality(with) >= 0 && libc::personality(before) >= 0
        }
    };
    if allowed {
        Finding::new(
            "aslr-control",
            Status::Ok,
            format!("{system}; truecount switches that off for what it runs"),
        )
    } else {
        Finding::new(
            "aslr-control",
            Status::Missing,
            format!("{system}; personality(2) is refused, so counts vary from run to run"),
        )
        .hint("allow personality in the container's seccomp profile")
    }
}

fn software() -> Finding {
    let attr = EventAttr::new(
        abi::PERF_TYPE_SOFTWARE,
        u64::from(abi::PERF_COUNT_SW_PAGE_FAULTS),
    )
    .exclude_kernel(true)
    .exclude_hv(true);
    match Event::open_with(
        &linux(),
        &attr,
        Target::CallingThread,
        OpenOptions::default(),
    ) {
        Ok(_) => Finding::new(
            "software",
            Status::Ok,
            "clocks, faults, switches: perf software events and wait4",
        ),
        Err(error) => Finding::new(
            "software",
            Status::Limited,
            format!(
                "times, faults and memory from wait4 only: {}",
                error.reason()
            ),
        )
        .hint(error.hint()),
    }
}
