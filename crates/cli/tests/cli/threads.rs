//! Thread scheduling: held constant by `--deterministic=threads`, varied by `noise`.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    code, compiled, interrupt, json, run, schema, stderr, stdout, truecount, virtual_pmu,
};

/// Says what the kernel schedules it by, and its child and its thread.
const POLICY: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void show(const char *who) {
    struct sched_param p; cpu_set_t set;
    sched_getparam(0, &p);
    sched_getaffinity(0, sizeof set, &set);
    printf("%s %d %d %d\n", who, sched_getscheduler(0), p.sched_priority, CPU_COUNT(&set));
    fflush(stdout);
}
static void *thread(void *none) { show("thread"); return none; }
int main(void) {
    show("itself");
    if (fork() == 0) { show("child"); _exit(0); }
    wait(0);
    pthread_t t;
    pthread_create(&t, 0, thread, 0);
    pthread_join(t, 0);
    return 0;
}
"#;

/// Threads that take work from a queue and put the results into a tree, whose shape follows from their order.
const POOL: &str = r#"
#include <pthread.h>
#include <stdlib.h>
enum { THREADS = 4, ITEMS = 3000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, tree = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static int made, taken, done;
struct node { unsigned key; struct node *side[2]; } *root;
static void *worker(void *none) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (made == taken && !done) pthread_cond_wait(&ready, &lock);
        if (made == taken) { pthread_mutex_unlock(&lock); return none; }
        unsigned key = taken++;
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < 500 + (int)(key * 2654435761u >> 22); i++) key = key * 1664525 + 1013904223;
        struct node *new = calloc(1, sizeof *new);
        new->key = key;
        pthread_mutex_lock(&tree);
        struct node **at = &root;
        while (*at) at = &(*at)->side[key > (*at)->key];
        *at = new;
        pthread_mutex_unlock(&tree);
    }
}
int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&lock);
        made++;
        pthread_cond_signal(&ready);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    done = 1;
    pthread_cond_broadcast(&ready);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

/// Never ends, and never waits.
const SPIN: &str = r"
#include <pthread.h>
static void *spin(void *none) { for (volatile long i = 0;; i++); return none; }
int main(void) {
    pthread_t t;
    for (int i = 0; i < 3; i++) pthread_create(&t, 0, spin, 0);
    spin(0);
}
";

/// Whether the machine lets truecount do it; the record says what it held constant.
fn in_turn() -> bool {
    let document = json(&[
        "stat",
        "--source",
        "software",
        "--json",
        "--deterministic=threads",
        "--",
        "true",
    ]);
    let validator = jsonschema::validator_for(&schema("stat.json")).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let environment = &document["environment"];
    let held = environment["deterministic"].as_array().unwrap();
    // It brings the one CPU with it.
    assert!(held.contains(&"cpu".into()), "{environment}");
    let held = held.contains(&"threads".into());
    match environment["not_deterministic"].as_array() {
        Some(refused) => {
            assert!(!held && refused[0]["factor"] == "threads", "{environment}");
            assert!(refused[0]["reason"].as_str().unwrap().contains("SCHED_RR"));
            truecount_testing::skip!("remedies", "{refused:?}");
        }
        None => assert!(held, "{environment}"),
    }
    held
}

#[test]
fn a_program_its_children_and_threads_run_in_turn() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), POLICY).filter(|_| in_turn()) else {
        return;
    };
    let program = program.to_str().unwrap();
    let print = |source: &str, flag: &str| {
        let output = run(&["stat", "--source", source, flag, "--", program]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    let mut sources = vec![("software", "itself 2 1 1\nchild 2 1 1\nthread 2 1 1\n")];
    if virtual_pmu() {
        // Its own scheduler: the kernel's policy stays as it is.
        sources.push(("virtual", "itself 0 0 1\nchild 0 0 1\nthread 0 0 1\n"));
    }
    for (source, expected) in sources {
        // SCHED_RR is 2 (sched.h).
        for flag in ["--deterministic=threads", "--deterministic=all,threads"] {
            assert_eq!(print(source, flag), expected, "{source}");
        }
        let usual = "itself 0 0 1\nchild 0 0 1\nthread 0 0 1\n";
        for flag in ["--deterministic", "--deterministic=all"] {
            assert_eq!(print(source, flag), usual, "{source}");
        }
    }
}

#[test]
fn an_order_of_threads_that_matters_is_named_and_held_constant() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), POOL).filter(|_| in_turn()) else {
        return;
    };
    let head = ["noise", "--json", "--source", "virtual", "-n", "6"];
    let tail = ["--factors", "threads", "--", program.to_str().unwrap()];
    let document = json(&[&head[..], &tail].concat());
    assert_eq!(document["residual"]["plus_minus"], 0.0, "{document:#}");
    assert_eq!(document["dominant_factor"], "threads", "{document:#}");
    let not_tested: &Value = &document["not_tested"];
    assert!(not_tested.as_array().unwrap().is_empty(), "{not_tested}");
}

#[test]
fn threads_that_spin_on_the_only_cpu_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), SPIN).filter(|_| in_turn()) else {
        return;
    };
    let limit = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap();
    if limit.trim() == "-1" {
        truecount_testing::skip!(
            "remedies",
            "the kernel would leave the CPU to the program alone"
        );
        return;
    }
    // SAFETY: an empty set is zeroes; the CPUs of this thread are written into it.
    let last = unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(
            libc::sched_getaffinity(0, size_of_val(&cpus), &raw mut cpus),
            0
        );
        (0..1024usize).rfind(|&cpu| libc::CPU_ISSET(cpu, &cpus))
    };
    let start = |more: &[&str]| {
        let head = [
            "stat",
            "--source",
            "software",
            "--deterministic=all,threads",
        ];
        let arguments = [&head[..], more, &["--", program.to_str().unwrap()]].concat();
        let mut command = truecount(&arguments);
        // truecount and the program share one CPU.
        // SAFETY: a system call on memory of its own.
        unsafe {
            command.pre_exec(move || {
                let mut cpus: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(last.unwrap_or(0), &mut cpus);
                match libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    // They never end by themselves: that they do is the test.
    let output = start(&["--timeout", "500ms"]).wait_with_output().unwrap();
    assert_eq!(code(&output), 124, "{}", stderr(&output));
    let child = start(&[]);
    interrupt(&child, Duration::from_millis(500));
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
}

/// Nobody stares at a silent terminal: while a run does not end, how far it is is said, and once what could be the cause.
#[test]
fn a_program_that_spins_gets_a_hint_while_it_runs() {
    use std::io::BufRead as _;
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), SPIN) else {
        return;
    };
    let head = ["noise", "--source", "virtual", "-n", "2", "--timeout", "5m"];
    let tail = ["--factors", "threads", "--", program.to_str().unwrap()];
    let mut child = truecount(&[&head[..], &tail].concat())
        .env("TRUECOUNT_TEST_PROGRESS_MS", "200")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    // The pipe stays open: whoever writes to a closed one is ended by that.
    let (mut said, mut lines) = (Vec::new(), lines.map(Result::unwrap));
    for line in lines.by_ref() {
        let hint = line.contains("threads that spin");
        said.push(line);
        if hint {
            break;
        }
    }
    interrupt(&child, Duration::ZERO);
    said.extend(lines);
    let status = child.wait().unwrap();
    let said = said.join("\n");
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("truecount noise: run 0 of"), "{said}");
    for part in ["--factors aslr,env,cpu", "--timeout"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.matches("threads that spin").count(), 1, "{said}");
}

#[test]
fn what_is_on_request_is_not_in_all() {
    let output = run(&["stat", "--deterministic=moon", "--", "true"]);
    assert_eq!(code(&output), 2);
    let text = stderr(&output);
    assert!(
        text.contains("all for all but") && text.contains("threads"),
        "{text}"
    );
    let help = stdout(&run(&["stat", "--help"]));
    assert!(help.contains("--deterministic=all,time,threads"), "{help}");
}
