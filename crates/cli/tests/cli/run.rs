//! `truecount run`, and `--source virtual` of `stat` and `bench`.

use crate::support::{code, fails, json, run, stderr, stdout, step, truecount, virtual_pmu};

/// Says so and gives true where the virtual PMU does not work.
fn skipped() -> bool {
    !virtual_pmu()
}

/// The document of a run; what the program prints goes to stderr.
fn document(args: &[&str]) -> serde_json::Value {
    let output = run(&[&["run", "--json"], args].concat());
    serde_json::from_str(&stdout(&output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn instructions(source: &str) -> u64 {
    let document = json(&["stat", "--source", source, "--json", "--", "true"]);
    let counter = &document["counters"][0];
    assert_eq!(counter["event"], "instructions:u");
    assert_eq!(counter["precision"], "exact");
    assert_eq!(counter["source"], source);
    counter["value"].as_u64().unwrap()
}

#[test]
fn the_same_count_by_run_by_stat_and_by_single_steps() {
    if skipped() {
        return;
    }
    let counter = &document(&["--", "true"])["counters"][0];
    assert_eq!(counter["precision"], "exact");
    assert_eq!(counter["source"], "virtual");
    let first = counter["value"].as_u64().unwrap();
    let again = document(&["--", "true"])["counters"][0]["value"].as_u64();
    assert!(first > 1000);
    assert_eq!(again, Some(first));
    assert_eq!(instructions("virtual"), first);
    if step() {
        assert_eq!(instructions("step"), first);
    }
}

#[test]
fn status_and_signal_are_the_program_s() {
    if skipped() {
        return;
    }
    assert_eq!(code(&run(&["run", "--", "sh", "-c", "exit 7"])), 7);
    let killed = run(&["run", "--json", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(code(&killed), 137);
    let killed: serde_json::Value = serde_json::from_str(&stdout(&killed)).unwrap();
    assert_eq!(killed["exit"]["signal"], 9);
    // What was counted until then, and not called exact.
    assert!(killed["counters"][0]["value"].as_u64().unwrap() > 1000);
    assert_eq!(killed["counters"][0]["precision"], "counted");
    assert_eq!(code(&run(&["run", "--", "sh", "-c", "kill -TERM $$"])), 143);
}

#[test]
fn streams_are_the_program_s_and_the_report_goes_where_it_is_sent() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report");
    let path = file.to_str().unwrap();
    let output = run(&["run", "-o", path, "--", "printf", "%s|", "a b", "-x", ""]);
    assert_eq!(stdout(&output), "a b|-x||");
    assert_eq!(stderr(&output), "");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("instructions:u") && text.contains("virtual") && text.contains("exact"),
        "{text}"
    );
}

/// `--json` is the same in every command: the document on stdout and nothing else there, or in the file that is named.
#[test]
fn a_document_never_mixes_with_what_the_program_prints() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("document.json");
    let named = format!("--json={}", file.to_str().unwrap());
    let mut commands = vec![vec!["stat", "--source", "software"]];
    if !skipped() {
        commands.push(vec!["stat", "--source", "virtual"]);
        commands.push(vec!["run"]);
    }
    for command in commands {
        let head = |json| [&command[..], &[json, "--", "echo", "printed"]].concat();
        let output = run(&head("--json"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert!(stderr(&output).contains("printed"), "{output:?}");
        let output = run(&head(&named));
        assert_eq!(stdout(&output), "printed\n", "the program keeps its stdout");
        let text = std::fs::read_to_string(&file).unwrap();
        let again: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["schema"], again["schema"]);
    }
    let output = run(&["check", &named]);
    assert_eq!(stdout(&output), "");
    let text = std::fs::read_to_string(&file).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], "truecount.check/2");
    // As with -o: a path that cannot be written is told before anything is measured.
    fails(
        &["stat", "--json=/no/such/directory/file", "--", "true"],
        1,
        &["cannot write"],
    );
}

#[test]
fn processes_and_threads_add_up_to_the_total() {
    if skipped() {
        return;
    }
    let args = ["--per-process", "--per-thread", "--"];
    let document =
        document(&[&args[..], &["sh", "-c", "/bin/true; /bin/echo >/dev/null"]].concat());
    let total = document["counters"][0]["value"].as_u64().unwrap();
    for list in ["processes", "threads"] {
        let rows = document[list].as_array().unwrap();
        let sum: u64 = rows
            .iter()
            .map(|row| row["instructions"].as_u64().unwrap())
            .sum();
        assert_eq!(sum, total, "{list}");
        for program in ["true", "echo"] {
            assert!(
                rows.iter().any(|row| row["program"] == program),
                "no {program} in {rows:?}"
            );
        }
    }
}

#[test]
fn every_event_is_counted_in_one_run_and_functions_add_up() {
    if skipped() {
        return;
    }
    let events = "instructions:u,branches:u,conditional-branches:u,indirect-branches:u,calls:u,\
        returns:u,loads:u,stores:u,locked:u,vector-instructions:u";
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("flame.svg");
    let document = document(&[
        "-e",
        events,
        "--functions",
        "--flamegraph",
        picture.to_str().unwrap(),
        "--per-process",
        "--",
        "sh",
        "-c",
        "/bin/ls / >/dev/null; exit 3",
    ]);
    let counters = document["counters"].as_array().unwrap();
    assert_eq!(counters.len(), 10);
    for counter in counters {
        let name = counter["event"].as_str().unwrap();
        let total = counter["value"].as_u64().unwrap();
        assert!(total > 0 && counter["precision"] == "exact", "{counter}");
        for list in ["functions", "processes"] {
            let rows = document[list].as_array().unwrap();
            let sum: u64 = rows
                .iter()
                .map(|row| row["events"][name].as_u64().unwrap())
                .sum();
            assert_eq!(sum, total, "{name} in {list}");
        }
    }
    let functions = document["functions"].as_array().unwrap();
    assert!(
        functions
            .iter()
            .any(|f| f["program"] == "ls" && f["module"].as_str().unwrap().contains("libc")),
        "{functions:?}"
    );
    let drawn = std::fs::read_to_string(picture).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains(">ls<"));
}

#[test]
fn auto_takes_it_where_there_is_no_pmu_and_falls_back() {
    if skipped() || crate::support::hardware() {
        return;
    }
    let automatic = json(&["stat", "--json", "--", "true"]);
    assert_eq!(automatic["source"], "virtual");
    assert_eq!(automatic["counters"][0]["event"], "instructions:u");
    assert_eq!(automatic["counters"][0]["precision"], "exact");
    assert_eq!(automatic["under_virtual_pmu"], true);
    // Only the kernel's events: a native run.
    let native = json(&["stat", "--json", "-e", "page-faults", "--", "true"]);
    assert_eq!(native["source"], "software");
    assert_eq!(native["under_virtual_pmu"], false);
    assert!(native["counters"][0]["value"].as_u64().unwrap() > 0);
    let bench = json(&["bench", "-n", "2", "--json", "true"]);
    let metrics = &bench["commands"][0]["metrics"];
    assert_eq!(metrics["instructions:u"]["source"], "virtual");
    assert_eq!(metrics["wall-time"]["source"], "software");
}

#[test]
fn a_program_that_the_engine_ends_is_measured_natively() {
    if skipped() || crate::support::hardware() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = gs_user(directory.path());
    let document = json(&["stat", "--json", "--", &program]);
    assert_eq!(document["exit"]["code"], 0);
    assert_eq!(document["source"], "software");
    let reason = document["counters"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("the virtual PMU cannot run it"), "{reason}");
    let notes = document["notes"].to_string();
    assert!(notes.contains("a second time, natively"), "{notes}");
    assert!(!document["resources"].as_array().unwrap().is_empty());
}

#[test]
fn what_it_cannot_do_is_one_line() {
    if skipped() {
        return;
    }
    fails(
        &["run", "-e", "cycles:u", "--", "true"],
        2,
        &["cycles:u", "needs a PMU", "loads"],
    );
    fails(
        &["run", "-e", "loads", "--", "true"],
        2,
        &["user mode", "loads:u"],
    );
    fails(&["run", "--", "no-such-program"], 127, &["not found"]);
    fails(&["run", "--", "/etc/passwd"], 126, &["not executable"]);
    let row = &json(&[
        "stat",
        "--source",
        "virtual",
        "-e",
        "page-faults",
        "--json",
        "--",
        "true",
    ])["counters"][0];
    assert!(row["value"].is_null(), "{row}");
    let reason = row["reason"].as_str().unwrap();
    assert!(reason.contains("with the virtual PMU in it"), "{reason}");
    fails(
        &["stat", "--source", "virtual", "-I", "10", "--", "true"],
        2,
        &["from its start to its end"],
    );
}

#[test]
fn a_time_limit_ends_the_run() {
    if skipped() {
        return;
    }
    let output = run(&[
        "stat",
        "--source",
        "virtual",
        "--timeout",
        "300ms",
        "--",
        "sleep",
        "20",
    ]);
    assert_eq!(code(&output), 124, "{}", stderr(&output));
}

#[test]
fn bench_takes_its_counts_from_it() {
    if skipped() {
        return;
    }
    let document = json(&[
        "bench", "-n", "2", "--source", "virtual", "--json", "true", "echo",
    ]);
    let metrics = &document["commands"][0]["metrics"];
    assert_eq!(metrics["instructions:u"]["source"], "virtual");
    assert_eq!(metrics["instructions:u"]["exact"], true);
    assert_eq!(metrics["wall-time"]["source"], "software");
}

#[test]
fn what_the_engine_refuses_inside_a_program_is_status_123() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = gs_user(directory.path());
    let output = run(&["run", "--", &file]);
    let text = stderr(&output);
    assert_eq!(code(&output), 123, "{text}");
    assert!(text.contains("internal check failed"), "{text}");
    assert!(!text.contains("exact"), "{text}");
}

/// A tiny ELF with `lodsb` from the segment GS by an address of 32 bits, which the engine does not support; natively it exits
/// with 0.
fn gs_user(directory: &std::path::Path) -> String {
    let mut elf = vec![0u8; 0x90];
    elf[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let mut put = |at: usize, bytes: &[u8]| elf[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &[2, 0, 62, 0, 1, 0, 0, 0]); // ET_EXEC, EM_X86_64
    put(24, &0x40_0078u64.to_le_bytes()); // entry
    put(32, &64u64.to_le_bytes()); // program headers
    put(52, &[64, 0, 56, 0, 1, 0]);
    put(64, &[1, 0, 0, 0, 5, 0, 0, 0]); // PT_LOAD, r-x
    put(80, &0x40_0000u64.to_le_bytes());
    put(96, &0x90u64.to_le_bytes());
    put(104, &0x90u64.to_le_bytes());
    put(112, &0x1000u64.to_le_bytes());
    // lea rsi, [rip]; lods al, gs:[esi]; mov eax, 60; xor edi, edi; syscall
    put(
        120,
        &[
            0x48, 0x8d, 0x35, 0, 0, 0, 0, 0x65, 0x67, 0xac, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f,
            0x05,
        ],
    );
    let file = directory.join("gs");
    std::fs::write(&file, &elf).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, mode).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_second_run_translates_nothing() {
    if skipped() {
        return;
    }
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("translations");
    let _ = std::fs::remove_dir_all(&directory);
    // Of one length: the stack begins where the environment ends, and with it what the loader's string functions do.
    let blocks = |flags: &[&str], variable: &str| {
        let output = truecount(&[&["run", "--json"], flags, &["--", "true"]].concat())
            .env("XDG_CACHE_HOME", &directory)
            .env("TRUECOUNT_NO_CACHE", variable)
            .output()
            .unwrap();
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        ["translated_blocks", "cached_blocks"].map(|name| document[name].as_u64().unwrap())
    };
    let [all, none] = blocks(&["--no-cache"], "0");
    assert!(all > 0 && none == 0);
    assert!(!directory.exists(), "nothing is kept");
    assert_eq!(blocks(&[], "1"), [all, 0]);
    assert_eq!(blocks(&[], "0"), [all, 0]);
    if cfg!(target_os = "linux") && blocks(&[], "0") == [all, 0] {
        truecount_testing::skip!(
            "aslr",
            "the kernel does not switch address randomisation off here"
        );
        return;
    }
    assert_eq!(blocks(&[], "0"), [0, all]);
    let cleared = truecount(&["run", "--clear-cache"])
        .env("XDG_CACHE_HOME", &directory)
        .output()
        .unwrap();
    assert!(stderr(&cleared).starts_with("1 file"), "{cleared:?}");
    assert_eq!(blocks(&[], "0"), [all, 0]);
}

#[test]
fn a_picture_that_fails_does_not_cost_the_result() {
    if skipped() {
        return;
    }
    let output = run(&["run", "--json", "--flamegraph", "/dev/full", "--", "true"]);
    assert_eq!(code(&output), 1);
    let failure = stderr(&output);
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(document["counters"][0]["value"].as_u64().unwrap() > 1000);
    assert!(
        document["functions"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );
    assert!(
        failure.contains("/dev/full") && failure.contains("space"),
        "{failure}"
    );
}

/// Stubs have no symbols, inlined functions no code of their own: both have names nevertheless.
#[test]
fn functions_name_stubs_and_what_is_inlined() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("p.c"), directory.path().join("p"));
    let text = "#include <stdlib.h>\n#include <stdio.h>\n
        static inline __attribute__((always_inline)) unsigned mixed(unsigned x) {
            for (int i = 0; i < 50; i++) x = x * 1664525u + 1013904223u + (x >> 7);
            return x;
        }
        __attribute__((noinline)) unsigned worked(unsigned x) { return mixed(x) ^ mixed(x + 1); }
        int main(int argc, char **argv) {
            unsigned sum = 0;
            for (int i = 0; i < 1000; i++) { sum += worked(i) + rand(); }
            return printf(\"%u\\n\", sum) < 0;
        }\n";
    std::fs::write(&source, text).unwrap();
    for lazily in ["-Wl,-z,lazy", "-Wl,-z,now"] {
        let compiled = std::process::Command::new("cc")
            .args(["-g", "-O2", lazily, "-o"])
            .args([&program, &source])
            .status();
        if !compiled.is_ok_and(|status| status.success()) {
            truecount_testing::skip!("cc", "no C compiler");
            return;
        }
        let document = json(&[
            "run",
            "--functions",
            "--json=-",
            "--",
            program.to_str().unwrap(),
        ]);
        let own: Vec<(&str, u64)> = document["functions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|each| each["module"] == program.to_str().unwrap())
            .map(|each| {
                let count = each["events"]["instructions:u"].as_u64().unwrap();
                (each["function"].as_str().unwrap(), count)
            })
            .collect();
        let count = |name: &str| own.iter().find(|(each, _)| *each == name).map(|(_, n)| *n);
        // One jump a call (and the instruction that marks its target, where there is one).
        let stub = count("rand@plt").unwrap_or_else(|| panic!("{own:?}"));
        assert!((1000..=3010).contains(&stub), "{own:?}");
        let inlined = count("mixed (inlined)").unwrap_or_else(|| panic!("{own:?}"));
        assert!(inlined > 1000 * 2 * 50 * 4, "{own:?}");
        assert!(
            count("worked").is_none_or(|outer| outer < inlined / 10),
            "{own:?}"
        );
        assert!(count("_init").is_none_or(|init| init < 100), "{own:?}");
    }
}

/// `ulimit -s` is meant for the program; the command itself once overflowed its stack.
#[test]
fn a_small_stack_is_the_program_s_limit() {
    if skipped() {
        return;
    }
    for size in ["64", "256"] {
        let script = format!("ulimit -s {size}; exec \"$0\" run -- sh -c 'ulimit -s'");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_truecount")]);
        let output = command.output().unwrap();
        assert_eq!(stdout(&output), format!("{size}\n"), "{}", stderr(&output));
        assert!(stderr(&output).contains("exact"), "{}", stderr(&output));
    }
}
