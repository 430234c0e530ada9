//! What the file says about the machine and the recording.

use truecount_perf::probe::{Root, cpu};
use truecount_sample::abi::branch as br;
use truecount_sample::writer::WriterFeatures;

use crate::Chosen;

/// The features of a recording of these events: this machine, and the command line that made it.
#[must_use]
pub fn describe(chosen: &Chosen, command_line: Vec<String>) -> WriterFeatures {
    let root = Root::system();
    let cpu = cpu::describe(&root);
    let online = root.online_cpus().map_or(0, |c| c.len() as u32);
    let memory = root.text("proc/meminfo").unwrap_or_default();
    let memory = memory
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:"))
        .and_then(|l| l.split_ascii_whitespace().next()?.parse().ok());
    let calls = chosen
        .events
        .iter()
        .any(|event| event.attr.get_branch_sample_type() & br::CALL_STACK != 0);
    WriterFeatures {
        hostname: root.text("proc/sys/kernel/hostname").unwrap_or_default(),
        os_release: root.text("proc/sys/kernel/osrelease").unwrap_or_default(),
        version: concat!("truecount ", env!("CARGO_PKG_VERSION")).to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cpu_description: cpu.brand.clone().unwrap_or_default(),
        cpu_id: if cfg!(target_arch = "x86_64") {
            format!(
                "{},{},{},{}",
                cpu.vendor, cpu.family, cpu.model, cpu.stepping
            )
        } else {
            String::new()
        },
        cpus_available: online,
        cpus_online: online,
        total_memory_kib: memory.unwrap_or(0),
        command_line,
        // As perf: a stack of calls is a chain, not branches to be looked at one by one.
        branch_stack: chosen.branches && !calls,
    }
}
