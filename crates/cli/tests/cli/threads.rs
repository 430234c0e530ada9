//! Thread scheduling: held constant by `--deterministic=threads`, varied by `noise`.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    code, compiled, interrupt, json, run, stderr, stdout, truecount, virtual_pmu,
};
use truecount_testing::schemas::schema;

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

/// Waits that are for more than one system call, between processes of a run: what is written where there is no room, and
/// locks of files.
const WRITES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
enum { MUCH = 300000 };
static char bytes[MUCH];
static void reader(int fd, int other, const char *what) {
    if (fork() == 0) {
        char buffer[5000]; long sum = 0, all = 0, n;
        close(other);
        while ((n = read(fd, buffer, sizeof buffer)) > 0) { all += n; for (long i = 0; i < n; i++) sum += buffer[i]; }
        printf("%s %ld %ld\n", what, all, sum); fflush(stdout);
        _exit(0);
    }
    close(fd);
}
static void lock(int fd, long at, int wait, const char *who) {
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };
    int result = fcntl(fd, wait ? F_SETLKW : F_SETLK, &lock);
    if (result) { printf("%s %d\n", who, errno == EDEADLK); fflush(stdout); _exit(0); }
}
int main(void) {
    for (int i = 0; i < MUCH; i++) bytes[i] = i % 7;
    struct iovec parts[3] = { { bytes, 1000 }, { bytes + 1000, 250000 }, { bytes + 251000, MUCH - 251000 } };
    int ends[2];
    pipe(ends); reader(ends[0], ends[1], "writev");
    printf("%ld\n", (long)writev(ends[1], parts, 3)); fflush(stdout); close(ends[1]); wait(0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends); reader(ends[0], ends[1], "sendmsg");
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };
    printf("%ld\n", (long)sendmsg(ends[1], &message, 0)); fflush(stdout); close(ends[1]); wait(0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends); reader(ends[0], ends[1], "socket writev");
    printf("%ld\n", (long)writev(ends[1], parts, 3)); fflush(stdout); close(ends[1]); wait(0);
    FILE *file = tmpfile(); fwrite(bytes, 1, MUCH, file); fflush(file); lseek(fileno(file), 0, SEEK_SET);
    pipe(ends); reader(ends[0], ends[1], "sendfile");
    long sent = 0, n;
    while ((n = sendfile(ends[1], fileno(file), 0, MUCH)) > 0) sent += n;
    printf("%ld\n", sent); fflush(stdout); close(ends[1]); wait(0);
    // Each has what the other waits for.
    int fd = fileno(file), turn[2], back[2];
    pipe(turn); pipe(back);
    char byte = 0;
    lock(fd, 0, 0, "first");
    if (fork() == 0) {
        lock(fd, 1, 0, "second");
        write(back[1], &byte, 1);
        lock(fd, 0, 1, "child refused");
        printf("child has both\n"); fflush(stdout);
        _exit(0);
    }
    read(back[0], &byte, 1);
    lock(fd, 1, 1, "parent refused");
    printf("parent has both\n"); fflush(stdout);
    struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
    fcntl(fd, F_SETLK, &all);
    wait(0);
    return 0;
}
"#;

#[test]
fn long_writes_and_locks_of_files_wait_in_turn() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), WRITES) else {
        return;
    };
    let program = program.to_str().unwrap();
    let native = std::process::Command::new(program).output().unwrap();
    // Who of the two is refused depends on who comes first; one is.
    let one_refused = |text: &str| text.matches("refused 1").count() == 1;
    let without = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::to_owned);
        lines
            .filter(|line| !line.contains("refused") && !line.contains("both"))
            .collect()
    };
    let expected = String::from_utf8_lossy(&native.stdout).into_owned();
    assert!(one_refused(&expected), "{expected}");
    let mut outputs = Vec::new();
    for _ in 0..2 {
        let file = directory.path().join("document");
        let json = format!("--json={}", file.to_str().unwrap());
        let output = run(&[
            "run",
            &json,
            "--deterministic=all,time,threads",
            "--",
            program,
        ]);
        let text = stdout(&output);
        assert!(one_refused(&text), "{text}\n{expected}");
        assert_eq!(without(&text), without(&expected));
        let document: Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        outputs.push(text);
        let missing = document["environment"]["not_deterministic"].to_string();
        assert!(!missing.contains("\"threads\""), "{missing}");
    }
    assert_eq!(outputs[0], outputs[1]);
}

/// Two threads that each have the lock that the other wants.
const DEADLOCK: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static void *other(void *none) {
    char byte = 0;
    pthread_mutex_lock(&b);
    write(ends[1], &byte, 1);
    pthread_mutex_lock(&a);
    return none;
}
int main(void) {
    pthread_t thread; char byte;
    pipe(ends);
    pthread_mutex_lock(&a);
    pthread_create(&thread, 0, other, 0);
    read(ends[0], &byte, 1);
    pthread_mutex_lock(&b);
    return 0;
}
"#;

#[test]
fn a_deadlock_stays_one_and_the_time_limit_ends_it() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), DEADLOCK) else {
        return;
    };
    let program = program.to_str().unwrap();
    // One of its threads looks for that some fifty times, which takes less than a second where it is let.
    let head = ["stat", "--json", "--source", "virtual", "--timeout", "20s"];
    let output = run(&[
        &head[..],
        &["--deterministic=all,time,threads", "--", program],
    ]
    .concat());
    assert_eq!(code(&output), 124, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["timed_out"], true);
    let missing = document["environment"]["not_deterministic"].to_string();
    assert!(missing.contains("deadlock"), "{missing}");
    assert_eq!(document["outside"]["closed"], false);
}
