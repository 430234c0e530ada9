//! Files that tell of the machine (proc(5), sysfs): their texts on a reference machine.

use std::fmt::Write as _;

use super::Machine;
use super::table::{FEATURES, MEMORY, NAMES};

/// Nothing below these is there, but for the files.
pub(super) const ABSENT: &[&str] = &[
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/devices/system/memory",
    "/sys/fs/cgroup",
    "/sys/fs/selinux",
    "/sys/kernel/mm",
    "/sys/class/dmi",
    "/sys/hypervisor",
    "/proc/self/cgroup",
    "/proc/cgroups",
    "/proc/pressure",
    "/proc/schedstat",
    "/proc/zoneinfo",
    "/proc/vmstat",
    "/proc/interrupts",
];

/// Paths and texts.
pub(super) fn files(machine: &Machine) -> Vec<(String, String)> {
    let [system, host, release, version, ..] = NAMES;
    let mut all: Vec<(String, String)> = Vec::new();
    let mut add = |path: &str, text: String| all.push((path.to_owned(), text));
    let cpus = match machine.cpus() {
        1 => "0\n".to_owned(),
        cpus => format!("0-{}\n", cpus - 1),
    };
    for name in ["online", "possible", "present"] {
        add(&format!("/sys/devices/system/cpu/{name}"), cpus.clone());
    }
    add(
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never\n".to_owned(),
    );
    add(
        "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
        "2097152\n".to_owned(),
    );
    add(
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "tsc\n".to_owned(),
    );
    add("/proc/cpuinfo", cpuinfo(machine));
    add("/proc/meminfo", meminfo());
    add("/proc/stat", stat(machine));
    add("/proc/loadavg", "0.00 0.00 0.00 1/100 1000\n".to_owned());
    add("/proc/uptime", "1000.00 1000.00\n".to_owned());
    add(
        "/proc/version",
        format!("{system} version {release} (reference) {version}\n"),
    );
    add("/proc/cmdline", "quiet\n".to_owned());
    add(
        "/proc/filesystems",
        "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\n\text4\n".to_owned(),
    );
    for path in ["/proc/mounts", "/proc/self/mounts"] {
        add(
            path,
            "/dev/root / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\n".to_owned(),
        );
    }
    add(
        "/proc/self/mountinfo",
        "1 1 8:1 / / rw,relatime - ext4 /dev/root rw\n".to_owned(),
    );
    for (path, text) in [
        ("kernel/ostype", system),
        ("kernel/osrelease", release),
        ("kernel/version", version),
        ("kernel/hostname", host),
        ("kernel/pid_max", "32768"),
        ("kernel/threads-max", "65536"),
        ("kernel/randomize_va_space", "2"),
        ("kernel/cap_last_cap", "40"),
        ("kernel/ngroups_max", "65536"),
        ("kernel/rtsig-max", "1024"),
        ("vm/overcommit_memory", "0"),
        ("vm/max_map_count", "65530"),
        ("vm/mmap_min_addr", "65536"),
        ("vm/nr_hugepages", "0"),
        ("fs/pipe-max-size", "1048576"),
        ("net/core/somaxconn", "4096"),
    ] {
        add(&format!("/proc/sys/{path}"), format!("{text}\n"));
    }
    all
}

fn cpuinfo(machine: &Machine) -> String {
    let level = |feature: &&super::table::Feature| {
        feature.level <= machine.model.level || machine.model.more.contains(&feature.name)
    };
    // As the kernel spells them.
    let flags: Vec<String> = FEATURES
        .iter()
        .filter(level)
        .filter(|feature| feature.name != "osxsave")
        .map(|feature| match feature.name {
            "sse3" => "pni".to_owned(),
            "lahf" => "lahf_lm".to_owned(),
            "lzcnt" => "abm".to_owned(),
            name => name.replace('.', "_"),
        })
        .collect();
    let row = machine.rows().into_iter().find(|row| row[0] == 1);
    let signature = row.map_or(0, |row| row[2]);
    let model = signature >> 4 & 15 | signature >> 12 & 0xf0;
    let mut text = String::new();
    for cpu in 0..machine.cpus() {
        let _ = write!(
            text,
            "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: {}\nmodel\t\t: {model}\nmodel name\t: \
             truecount {}\nstepping\t: {}\ncpu MHz\t\t: 1000.000\ncache size\t: 8192 KB\nphysical id\t: 0\n\
             siblings\t: {}\ncore id\t\t: {cpu}\ncpu cores\t: {}\nfpu\t\t: yes\nflags\t\t: {}\n\
             clflush size\t: 64\ncache_alignment\t: 64\n\n",
            signature >> 8 & 15,
            machine.model.name,
            signature & 15,
            machine.cpus(),
            machine.cpus(),
            // The first says it for all: many CPUs have to fit.
            if cpu == 0 {
                flags.join(" ")
            } else {
                String::new()
            },
        );
    }
    text
}

fn meminfo() -> String {
    let total = MEMORY >> 10;
    let rows = [
        ("MemTotal", total),
        ("MemFree", total / 2),
        ("MemAvailable", total / 2),
        ("Buffers", 0),
        ("Cached", 0),
        ("SwapCached", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("CommitLimit", total / 2),
        ("Committed_AS", 0),
        ("Hugepagesize", 2048),
    ];
    rows.map(|(name, kib)| format!("{:<16}{kib:>8} kB\n", format!("{name}:")))
        .concat()
}

fn stat(machine: &Machine) -> String {
    let mut text = String::from("cpu  0 0 0 1000 0 0 0 0 0 0\n");
    for cpu in 0..machine.cpus() {
        let _ = writeln!(text, "cpu{cpu} 0 0 0 1000 0 0 0 0 0 0");
    }
    text.push_str(
        "intr 0\nctxt 0\nbtime 2000000000\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n",
    );
    text
}
