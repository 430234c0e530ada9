//! The conditions that rows of the table test, and the words that they share.

use perf_event_open_sys::bindings as abi;

use crate::facts::Facts;
use crate::situation::{Operation, Situation, Target};

// ---------------------------------------------------------------- conditions

pub(super) fn opening(s: &Situation) -> bool {
    s.operation == Operation::Open
}

pub(super) fn mapping(s: &Situation) -> bool {
    s.operation == Operation::Map
}

pub(super) fn is_ioctl(s: &Situation) -> bool {
    matches!(s.operation, Operation::Ioctl(_))
}

/// The event is one of the CPU's own, as far as can be told.
pub(super) fn of_core_pmu(s: &Situation) -> bool {
    s.attr.is_generic_hardware()
        || s.facts
            .pmu_of_type(s.attr.get_type())
            .is_some_and(|pmu| pmu.core)
}

pub(super) fn of_other_pmu(s: &Situation) -> bool {
    s.attr.get_type() > abi::PERF_TYPE_BREAKPOINT
        && s.facts
            .pmu_of_type(s.attr.get_type())
            .is_some_and(|pmu| !pmu.core)
}

pub(super) fn has_branch_stack(s: &Situation) -> bool {
    s.attr.get_sample_type() & u64::from(abi::PERF_SAMPLE_BRANCH_STACK) != 0
}

pub(super) fn paranoid_at_least(s: &Situation, level: i32) -> bool {
    s.facts.paranoid.is_some_and(|paranoid| paranoid >= level) && !s.facts.privileged()
}

pub(super) fn others_task(s: &Situation) -> bool {
    matches!(s.target, Target::Thread(tid) | Target::ThreadOnCpu { tid, .. } if tid != 0)
}

pub(super) fn wants_addresses_of_kernel(s: &Situation) -> bool {
    let bits = abi::PERF_SAMPLE_PHYS_ADDR;
    s.attr.get_sample_type() & u64::from(bits) != 0 || s.attr.get_namespaces()
}

pub(super) fn too_fast(s: &Situation) -> bool {
    s.attr.get_freq()
        && s.facts
            .max_sample_rate
            .is_some_and(|most| s.attr.get_sample_period() > most)
}

pub(super) fn contradiction(s: &Situation) -> Option<&'static str> {
    let a = &s.attr;
    if s.in_group && (a.get_pinned() || a.get_exclusive()) {
        Some("only the leader of a group can be pinned or exclusive")
    } else if a.get_inherit_thread() && !a.get_inherit() {
        Some("inherit_thread needs inherit")
    } else if a.get_remove_on_exec() && a.get_enable_on_exec() {
        Some("remove_on_exec and enable_on_exec exclude each other")
    } else if a.get_sigtrap() && !a.get_remove_on_exec() {
        Some("sigtrap needs remove_on_exec")
    } else if !a.get_sample_stack_user().is_multiple_of(8) || a.get_sample_stack_user() >= 65_535 {
        Some("sample_stack_user must be a multiple of 8 below 65535")
    } else if !a.get_freq() && a.get_sample_period() >> 63 != 0 {
        Some("the sample period must be below 2^63")
    } else {
        None
    }
}

pub(super) fn inherited_group(s: &Situation) -> bool {
    s.attr.get_inherit()
        && s.attr.get_read_format() & u64::from(abi::PERF_FORMAT_GROUP) != 0
        && s.facts.version().is_none_or(|version| version < (6, 12))
}

// --------------------------------------------------------------------- words

pub(super) fn text(text: &str) -> String {
    text.to_owned()
}

pub(super) fn number(n: Option<u64>) -> String {
    n.map_or_else(|| "unknown".to_owned(), |n| n.to_string())
}

pub(super) fn paranoid(s: &Situation) -> i32 {
    s.facts.paranoid.unwrap_or_default()
}

/// The highest paranoid level at which all that was asked for is allowed (`perf_event_open`, `perf_trace_event_perm`).
fn enough(s: &Situation) -> i32 {
    let raw = s.attr.get_sample_type() & u64::from(abi::PERF_SAMPLE_RAW) != 0;
    if s.attr.get_type() == abi::PERF_TYPE_TRACEPOINT && (raw || paranoid(s) < 1) {
        -1
    } else if s.target.is_cpu_wide() {
        0
    } else if !s.attr.get_exclude_kernel() {
        1
    } else {
        2
    }
}

/// The hint of a paranoid level: which level would do, and the capability.
pub(super) fn lower_paranoid(s: &Situation) -> String {
    let level = enough(s);
    let capability = if s.facts.user_namespace {
        "or run outside the user namespace, whose capabilities do not count here"
    } else {
        "or give the program the capability CAP_PERFMON (setcap cap_perfmon+ep PROGRAM), or run it as root"
    };
    format!("as root: sysctl kernel.perf_event_paranoid={level}; {capability}")
}

/// How a virtual machine gets a PMU, by what its CPU calls the hypervisor (leaf 0x4000_0000), the vendor in its DMI table
/// and its kernel's release. Sources: xen-command-line(7); VMware, "Virtual CPU Performance Counters"; Microsoft,
/// "Enable hardware performance counters (Hyper-V)"; AWS, "PMU access by instance type"; Google, "Enable the PMU in VMs".
fn of_hypervisor(facts: &Facts, name: &str) -> &'static str {
    let release = facts.release.as_deref().unwrap_or_default();
    let vendor = facts.machine_vendor.as_deref().unwrap_or_default();
    if release.contains("WSL") || release.contains("microsoft-standard") {
        return "WSL 2 has a PMU only where Windows passes it on to its virtual machines; a Linux of its own has it";
    }
    if vendor.starts_with("Amazon") {
        return "EC2 passes the PMU on in metal and full-socket sizes (and in part in some others)";
    }
    if vendor.starts_with("Google") {
        return "on Compute Engine create the machine with --performance-monitoring-unit=standard (C4 and newer), or use a \
                bare-metal type";
    }
    match name {
        // Where the CPU's own word is not available the vendor of the machine tells.
        "Microsoft Hv" | "unknown" if vendor.starts_with("Microsoft") => {
            "on your own Hyper-V host: Set-VMProcessor NAME -Perfmon @(\"pmu\",\"lbr\",\"pebs\"); Azure and hosted CI \
             runners on it do not offer it (a self-hosted runner can)"
        }
        "Microsoft Hv" => "on the host: Set-VMProcessor NAME -Perfmon @(\"pmu\",\"lbr\",\"pebs\")",
        "XenVMMXenVMM" | "xen" => "boot the Xen host with vpmu=on",
        _ if name == "VMwareVMware" || vendor.starts_with("VMware") => {
            "switch on \"Virtualize CPU performance counters\" for this machine (vpmc.enable = TRUE)"
        }
        "VBoxVBoxVBox" => "VirtualBox has no virtual PMU: use another hypervisor",
        "TCGTCGTCGTCG" => "QEMU's emulation (TCG) has no PMU on x86: use KVM",
        _ => {
            "switch on a virtual PMU for this machine (QEMU/KVM: -cpu host,pmu=on; libvirt: <pmu state='on'/>; \
             clouds: a bare-metal or full-socket size)"
        }
    }
}

pub(super) fn no_pmu_hint(s: &Situation) -> String {
    let way_out = "else use a source without a PMU (software, step, virtual)";
    match &s.facts.hypervisor {
        Some(name) => format!("{}, {way_out}", of_hypervisor(&s.facts, name)),
        None => format!(
            "check that the firmware leaves the PMU on and that the kernel drives it (dmesg | grep -i pmu), {way_out}"
        ),
    }
}

pub(super) fn no_pmu_reason(s: &Situation) -> String {
    match &s.facts.hypervisor {
        Some(name) if name != "unknown" => {
            format!("this machine has no PMU: the hypervisor ({name}) does not offer one")
        }
        Some(_) => text("this machine has no PMU: its hypervisor does not offer one"),
        None => text("this machine has no PMU that the kernel can use"),
    }
}

pub(super) fn seccomp_reason(s: &Situation) -> String {
    match &s.facts.container {
        Some(name) => format!("a system call filter of the container ({name}) blocks perf events"),
        None => text("a system call filter (seccomp) blocks perf events"),
    }
}

pub(super) fn seccomp_hint(_: &Situation) -> String {
    text(
        "start the container with perf allowed (docker/podman run --cap-add PERFMON, or --security-opt \
         seccomp=PROFILE with perf_event_open in it)",
    )
}

pub(super) fn task(s: &Situation) -> String {
    match s.target {
        Target::Thread(tid) | Target::ThreadOnCpu { tid, .. } => format!("task {tid}"),
        _ => text("the task"),
    }
}

pub(super) fn cpu(s: &Situation) -> String {
    match s.target {
        Target::CallingThreadOnCpu(cpu)
        | Target::ThreadOnCpu { cpu, .. }
        | Target::Cpu(cpu)
        | Target::Cgroup { cpu, .. } => format!("CPU {cpu}"),
        _ => text("the CPU"),
    }
}

pub(super) fn pmu(s: &Situation) -> String {
    match s.facts.pmu_of_type(s.attr.get_type()) {
        Some(pmu) => format!("PMU {}", pmu.name),
        None => text("this PMU"),
    }
}
