//! `stat`: counts by CPU and core, of control groups, begun late and switched by others: options of perf.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::support::{code, fails, json, run, stderr, stdout, truecount, virtual_pmu, whole_cpus};
use truecount_testing::schemas::schema;

fn valid(name: &str, document: &serde_json::Value) {
    let validator = jsonschema::validator_for(&schema(name)).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn cpus_cores_and_sockets_are_told_apart_and_add_up() {
    if !whole_cpus() {
        return;
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online = truecount_events::cpu_list(&online).unwrap();
    for (option, first) in [
        ("-A", "CPU0"),
        ("--per-core", "S0-D0-C0"),
        ("--per-socket", "S0"),
        ("--per-node", "N0"),
    ] {
        let events = "context-switches,page-faults";
        let line = ["stat", "-a", option, "-e", events];
        let document = json(&[&line[..], &["--json", "sleep", "0.1"]].concat());
        valid("stat.json", &document);
        let parts = document["parts"].as_array().unwrap();
        assert_eq!(parts[0]["name"], first, "{document}");
        let cpus = parts
            .iter()
            .flat_map(|part| part["cpus"].as_array().unwrap());
        let mut cpus: Vec<u64> = cpus.map(|cpu| cpu.as_u64().unwrap()).collect();
        cpus.sort_unstable();
        assert!(
            cpus.iter().eq(online
                .iter()
                .map(|cpu| u64::from(*cpu))
                .collect::<Vec<_>>()
                .iter())
        );
        for event in 0..2 {
            let of = |place: &serde_json::Value| place["counters"][event]["value"].as_u64();
            let sum: u64 = parts.iter().map(|part| of(part).unwrap()).sum();
            assert_eq!(Some(sum), of(&document), "{document}");
        }
        // perf's fields: CPUs by themselves have no number of CPUs.
        let text = stderr(&run(&[&line[..], &["-x,", "sleep", "0.05"]].concat()));
        let fields: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let event = if option == "-A" { 3 } else { 4 };
        assert_eq!(
            (fields[0], fields[event]),
            (first, "context-switches"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 2 * parts.len(), "{text}");
        let text = stderr(&run(&[&line[..], &["sleep", "0.05"]].concat()));
        assert!(
            text.contains(first) && text.contains("page-faults"),
            "{text}"
        );
        let csv = stdout(&run(&[&line[..], &["--csv", "sleep", "0.05"]].concat()));
        assert!(csv.starts_with("part,cpus,event,"), "{csv}");
        let lines = stdout(&run(
            &[&line[..], &["-I", "40", "--json", "sleep", "0.1"]].concat()
        ));
        for line in lines.lines() {
            let line = serde_json::from_str(line).unwrap();
            valid("stat-interval.json", &line);
            assert_eq!(line["parts"].as_array().unwrap().len(), parts.len());
        }
    }
    // One CPU alone.
    let one = json(&[
        "stat",
        "-C",
        "0",
        "-A",
        "--json",
        "-e",
        "context-switches",
        "true",
    ]);
    assert_eq!(one["parts"].as_array().unwrap().len(), 1);
    fails(&["stat", "-A", "true"], 2, &["--no-aggr", "add -a"]);
}

#[test]
fn nothing_is_counted_before_the_delay() {
    let events = ["stat", "-e", "page-faults,task-clock", "--json"];
    let delayed = |delay: &str, script: &str| {
        json(&[&events[..], &["-D", delay, "--", "sh", "-c", script]].concat())
    };
    // Hundreds of page faults before, hundreds behind, which begin long after it.
    let faults = "for i in 1 2 3 4 5 6 7 8; do /bin/true; done";
    let script = format!("{faults}; {faults}; {faults}; sleep 1; {faults}");
    let value = |document: &serde_json::Value| document["counters"][0]["value"].as_u64();
    let all = value(&delayed("0", &script)).unwrap();
    let late = delayed("600", &script);
    valid("stat.json", &late);
    let part = value(&late).unwrap();
    assert!(part > 100 && part < all / 2, "{part} of {all}");
    assert!(late["wall_ns"].as_u64().unwrap() > 200_000_000, "{late}");
    // What the kernel tells of the whole run does not stand beside it.
    assert_eq!(late["resources"].as_array().unwrap().len(), 0, "{late}");
    let notes = late["notes"].to_string();
    assert!(notes.contains("Counting was on for"), "{notes}");
    // It never begins: no 0, and no number of the whole run.
    let never = delayed("100000", faults);
    for counter in never["counters"].as_array().unwrap() {
        assert!(counter["value"].is_null(), "{never}");
    }
    assert!(
        never["notes"].to_string().contains("never switched on"),
        "{never}"
    );
}

#[test]
fn what_the_virtual_pmu_cannot_begin_late_is_said() {
    if !virtual_pmu() {
        return;
    }
    for option in [&["-D", "10"][..], &["--control", "fd:0"]] {
        let line = [&["stat", "--source", "virtual"], option, &["true"]].concat();
        fails(
            &line,
            2,
            &[
                "the virtual PMU counts a command from its start",
                "--source",
            ],
        );
    }
    // By itself, stat takes what can.
    let document = json(&["stat", "--json", "-D", "1", "sleep", "0.2"]);
    assert_eq!(document["under_virtual_pmu"], false);
    assert!(document["counters"][0]["value"].is_u64(), "{document}");
}

/// Two named pipes.
fn fifos(directory: &Path) -> [PathBuf; 2] {
    ["control", "ack"].map(|name| {
        let path = directory.join(name);
        let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a valid path.
        assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
        path
    })
}

/// The program itself says when: perf's example in perf-stat(1), with fifos and with descriptors.
#[test]
fn counting_is_switched_by_who_holds_the_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let [control, ack] = fifos(directory.path());
    let faults = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done";
    let say =
        |word: &str| format!("echo {word} >&8; read answer <&9; test \"$answer\" = ack || exit 9");
    let (control, ack) = (control.display(), ack.display());
    let script = |between: &str| {
        format!(
            "exec 8<>'{control}' 9<>'{ack}'; {faults}; {faults}; {}; {between}; {}; {faults}; {faults}",
            say("enable"),
            say("disable")
        )
    };
    let count = |begin: &[&str], between: &str| {
        let pipes = format!("fifo:{control},{ack}");
        let line = ["stat", "-e", "page-faults", "--json", "--control", &pipes];
        let script = script(between);
        let document = json(&[&line[..], begin, &["--", "sh", "-c", &script]].concat());
        let value = document["counters"][0]["value"].as_u64();
        value.unwrap_or_else(|| panic!("{document}"))
    };
    let off = ["-D", "-1"];
    let (nothing, some) = (count(&off, ":"), count(&off, faults));
    let all = count(&[], faults);
    assert!(nothing * 10 < some, "{nothing} of {some}");
    assert!(some * 2 < all, "{some} of {all}");
    // Nobody switches it on.
    let pipes = format!("fifo:{control}");
    let line = ["stat", "-e", "page-faults", "-D", "-1", "--control", &pipes];
    let text = stderr(&run(&[&line[..], &["true"]].concat()));
    assert!(
        text.contains("not counted") && text.contains("never switched on"),
        "{text}"
    );
}

#[test]
fn one_event_is_switched_and_what_is_not_understood_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let [control, ack] = fifos(directory.path());
    let pipes = format!("fifo:{},{}", control.display(), ack.display());
    let mut child = truecount(&["stat", "-e", "page-faults,task-clock", "-D", "-1", "--json"])
        .args([
            "--control",
            &pipes,
            "--",
            "sh",
            "-c",
            "read line; for i in 1 2 3; do /bin/true; done",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let open = |path: &Path| {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
    };
    let (mut says, hears) = (open(&control), open(&ack));
    let mut answers = BufReader::new(hears).lines();
    for word in ["ping", "enable page-faults", "enable nonsense", "jump"] {
        says.write_all(format!("{word}\n").as_bytes()).unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), "ack", "{word}");
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        document["counters"][0]["value"].as_u64().unwrap() > 50,
        "{document}"
    );
    assert!(document["counters"][1]["value"].is_null(), "{document}");
    let notes = document["notes"].to_string();
    assert!(
        notes.contains("no event `nonsense`") && notes.contains("`jump`"),
        "{notes}"
    );
}

/// A control group of this test's own; `None` where none can be made.
fn control_group() -> Option<(PathBuf, String)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let first = words[2] == "cgroup" && words[3].split(',').any(|o| o == "perf_event");
        (first || words[2] == "cgroup2").then(|| words[1].to_owned())
    });
    let name = format!("truecount-test-{}", std::process::id());
    let path = Path::new(&mount?).join(&name);
    std::fs::create_dir(&path).ok().map(|()| (path, name))
}

#[test]
fn a_control_group_is_counted_alone() {
    fails(
        &[
            "stat",
            "-a",
            "-G",
            "truecount-no-such-group",
            "-e",
            "page-faults",
            "touch",
            "/dev/null",
        ],
        1,
        &["control group"],
    );
    let Some((path, name)) = control_group() else {
        truecount_testing::skip!("cgroup", "no control group can be made here");
        return;
    };
    let procs = path.join("cgroup.procs");
    let inside = format!(
        "echo $$ >{}; for i in 1 2 3 4 5 6 7 8; do /bin/true; done",
        procs.display()
    );
    let line = ["stat", "-a", "-e", "page-faults,page-faults", "-G"];
    let both = format!("{name},");
    let output = run(&[&line[..], &[&both, "--json", "--", "sh", "-c", &inside]].concat());
    let perfs = run(&[&line[..], &[&name, "-x,", "--", "sh", "-c", &inside]].concat());
    let outside = run(&[
        &line[..],
        &[&name, "--json", "--", "sh", "-c", "/bin/true; /bin/true"],
    ]
    .concat());
    let three = run(&[&line[..], &["a,b,c", "true"]].concat());
    std::thread::sleep(Duration::from_millis(50));
    let _ = std::fs::remove_dir(&path);
    if stderr(&output).contains("CONFIG_CGROUP_PERF") {
        truecount_testing::skip!("cgroup", "this kernel does not count by control group");
        return;
    }
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    valid("stat.json", &document);
    assert_eq!(document["cgroups"], serde_json::json!([name, ""]));
    let value =
        |document: &serde_json::Value, at: usize| document["counters"][at]["value"].as_u64();
    let (own, all) = (value(&document, 0).unwrap(), value(&document, 1).unwrap());
    assert!(own > 200 && own <= all, "{document}");
    // perf has the group behind the event.
    let text = stderr(&perfs);
    assert!(
        text.lines().all(|row| row.split(',').nth(3) == Some(&name)),
        "{text}"
    );
    let outside: serde_json::Value = serde_json::from_slice(&outside.stdout).unwrap();
    assert_eq!(value(&outside, 0).unwrap_or(0), 0, "{outside}");
    assert_eq!(
        code(&three),
        if stderr(&three).contains("3 groups") {
            2
        } else {
            1
        }
    );
}
