//! `stat` by CPU, core and socket, begun late and switched, on a machine with a PMU.

use serde_json::Value;

use super::stat::{directory, program};
use super::{no_hardware, skip, truecount};

fn json(args: &[&str], program: &[&str]) -> Value {
    let line = [&["stat", "--json"], args, &["--"], program].concat();
    let output = truecount().args(&line).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line:?}: {text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn value(counters: &Value) -> u64 {
    let value = counters["counters"][0]["value"].as_u64();
    value.unwrap_or_else(|| panic!("{counters}"))
}

/// The loop runs on the last CPU: its part has the instructions, the others have not, and all add up.
#[test]
fn every_part_has_the_instructions_of_its_cpus_other_pmu() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online = truecount_events::cpu_list(&online).unwrap();
    let last = *online.last().unwrap();
    let directory = directory("places");
    let (path, known) = program(&directory);
    let path = path.to_str().unwrap();
    let cpu = last.to_string();
    for option in ["-A", "--per-core", "--per-socket", "--per-node"] {
        let document = json(
            &["-a", option, "-e", "instructions:u", "--cpu", &cpu],
            &[path],
        );
        let parts = document["parts"].as_array().unwrap();
        println!("{option}: {} parts of {} CPUs", parts.len(), online.len());
        let mut sum = 0;
        for part in parts {
            let cpus: Vec<u64> = part["cpus"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_u64)
                .collect();
            let here = cpus.contains(&u64::from(last));
            // Other processes execute something, too, in user mode: truecount itself.
            assert_eq!(value(part) >= known, here, "{document}");
            sum += value(part);
        }
        assert_eq!(sum, value(&document), "{document}");
        if option == "-A" {
            assert_eq!(parts.len(), online.len(), "{document}");
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
}

#[test]
fn what_is_not_switched_on_is_not_counted() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = directory("delay");
    let (path, known) = program(&directory);
    let path = path.to_str().unwrap();
    let group = "{instructions:u,branches:u}";
    let whole = json(&["-D", "0", "-e", group], &[path]);
    assert!(value(&whole) >= known, "{whole}");
    let never = json(&["-D", "1000000", "-e", group], &[path]);
    for counter in never["counters"].as_array().unwrap() {
        assert!(counter["value"].is_null(), "{never}");
    }
    // Some milliseconds into a loop that takes more.
    let part = json(&["-D", "5", "-e", group], &[path]);
    let late = part["counters"][0]["value"].as_u64();
    println!("{known} instructions, {late:?} of them from 5 ms on");
    assert!(late.is_none_or(|late| late < known), "{part}");
    let _ = std::fs::remove_dir_all(&directory);
}

/// A control group of this test's own, in a hierarchy that it mounts where there is none.
#[test]
fn a_control_group_has_its_own_instructions() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = directory("cgroup");
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let there = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[2] == "cgroup2").then(|| words[1].to_owned())
    });
    let mount = there.clone().unwrap_or_else(|| {
        let mount = directory.join("mount");
        std::fs::create_dir_all(&mount).unwrap();
        mount.to_str().unwrap().to_owned()
    });
    if there.is_none() {
        let place = std::ffi::CString::new(mount.clone()).unwrap();
        // SAFETY: valid strings; the file system takes no data.
        let mounted = unsafe {
            libc::mount(
                c"none".as_ptr(),
                place.as_ptr(),
                c"cgroup2".as_ptr(),
                0,
                std::ptr::null(),
            )
        };
        if mounted != 0 {
            truecount_testing::skip!("cgroup", "no cgroup2 in this kernel");
            return;
        }
    }
    let group = std::path::Path::new(&mount).join("truecount-hardware");
    std::fs::create_dir(&group).unwrap();
    let (path, known) = program(&directory);
    let events = "instructions:u,instructions:u";
    let procs = group.join("cgroup.procs");
    let script = format!("echo $$ >{}; exec {}", procs.display(), path.display());
    let line = ["-a", "-A", "-e", events, "-G", "truecount-hardware,"];
    let shell = ["/bin/sh", "-c", &script];
    let has_shell = std::path::Path::new("/bin/sh").exists();
    let asked = truecount()
        .args([
            "stat",
            "-a",
            "-G",
            "truecount-hardware",
            "-e",
            "page-faults",
            "--",
            "/bin/sh",
            "-c",
            ":",
        ])
        .output()
        .unwrap();
    let refused = String::from_utf8_lossy(&asked.stderr).contains("hierarchy by which");
    let document = (has_shell && !refused).then(|| json(&line, &shell));
    let _ = std::fs::remove_dir(&group);
    if there.is_none() {
        let place = std::ffi::CString::new(mount).unwrap();
        // SAFETY: a valid string.
        unsafe { libc::umount(place.as_ptr()) };
    }
    let _ = std::fs::remove_dir_all(&directory);
    let Some(document) = document else {
        truecount_testing::skip!(
            "cgroup",
            "no shell, or a kernel that does not count by control group: {}",
            String::from_utf8_lossy(&asked.stderr)
        );
        return;
    };
    let of = |at: usize| {
        document["counters"][at]["value"]
            .as_u64()
            .unwrap_or_default()
    };
    println!("{known} known, {} in the group, {} in all", of(0), of(1));
    assert!(of(0) >= known && of(1) >= of(0), "{document}");
}
