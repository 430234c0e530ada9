//! Directory order: held constant by `--deterministic`, varied by `noise`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{code, compiled, json, run, stderr, stdout, virtual_pmu};

/// Natively and, where it works, by the virtual PMU.
fn sources() -> Vec<&'static str> {
    let mut sources = vec!["software"];
    if virtual_pmu() {
        sources.push("virtual");
    }
    sources
}

/// A directory with so many files, made in another order than that of their names.
fn filled(files: usize) -> tempfile::TempDir {
    let directory = quick(files > 300);
    for n in 0..files {
        let name = format!("f{}", (n * 7919 + 3) % files);
        std::fs::write(directory.path().join(name), "").unwrap();
    }
    directory
}

/// A directory of its own, in memory where many files are to be made.
fn quick(in_memory: bool) -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = (in_memory && memory.is_dir()).then(|| tempfile::tempdir_in(memory));
    made.and_then(Result::ok)
        .unwrap_or_else(|| tempfile::tempdir().unwrap())
}

/// What a directory of [`filled`] lists, sorted.
fn sorted(files: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..files).map(|n| format!("f{n}")).collect();
    names.sort();
    names
}

/// What a program prints with the files held constant; `None` where this machine cannot.
fn held(source: &str, command: &[&str]) -> Option<String> {
    let head = ["stat", "--source", source, "--deterministic=files", "--"];
    let output = run(&[&head[..], command].concat());
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    if stderr(&output).contains("Not held constant") {
        truecount_testing::skip!("remedies", "{}", stderr(&output));
        return None;
    }
    Some(stdout(&output))
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn a_directory_is_listed_by_name_whatever_its_size() {
    for source in sources() {
        for files in [0, 1, 200, 3000] {
            let directory = filled(files);
            let path = directory.path().to_str().unwrap();
            let Some(text) = held(source, &["ls", "-U", path]) else {
                return;
            };
            assert_eq!(lines(&text), sorted(files), "{source}");
        }
        // `.` and `..` come first, also before what sorts before them.
        let directory = filled(2);
        std::fs::write(directory.path().join("!"), "").unwrap();
        let path = directory.path().to_str().unwrap();
        let text = held(source, &["ls", "-aU", path]).unwrap();
        assert_eq!(lines(&text), [".", "..", "!", "f0", "f1"]);
        // Programs that change the directory while they read it.
        let directory = quick(true);
        let script = "rm -r \"$1\" && mkdir \"$1\" && touch \"$1/b\" \"$1/a\" && ls -U \"$1\"";
        let path = directory.path().join("again");
        std::fs::create_dir(&path).unwrap();
        for n in 0..3000 {
            std::fs::write(path.join(n.to_string()), "").unwrap();
        }
        let path = path.to_str().unwrap();
        let text = held(source, &["sh", "-c", script, "sh", path]).unwrap();
        assert_eq!(lines(&text), ["a", "b"]);
    }
}

/// Lists by the system call itself, with a buffer of its own size, while signals arrive; then by the C library, back and
/// forth; by threads at a time; and makes mistakes.
const LISTER: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
struct entry { uint64_t ino; int64_t off; unsigned short length; unsigned char type; char name[]; };
static const char *directory;
static void die(const char *what) { printf("wrong: %s (%s)\n", what, strerror(errno)); exit(1); }
static long get(int fd, void *buffer, unsigned size) { return syscall(SYS_getdents64, fd, buffer, size); }
static int opened(void) { int fd = open(directory, O_RDONLY | O_DIRECTORY); if (fd < 0) die("open"); return fd; }
static int skip(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }
/* All names, one behind the other. */
static char *all(int fd, unsigned size) {
    char *buffer = malloc(size), *text = calloc(1, 1 << 20), *to = text;
    for (long n; (n = get(fd, buffer, size)) != 0;) {
        if (n < 0 || n > size) die("getdents64");
        for (long at = 0; at < n;) {
            struct entry *e = (void *)(buffer + at);
            if (!skip(e->name)) to = stpcpy(stpcpy(to, e->name), "\n");
            at += e->length;
        }
    }
    free(buffer);
    return text;
}
static void *thread(void *own) {
    if (own && unshare(CLONE_FILES)) die("unshare");
    int fd = opened();
    char *text = all(fd, 300);
    close(fd);
    return text;
}
static volatile int ticks;
static void tick(int none) { (void)none; ticks++; }
int main(int argc, char **argv) {
    (void)argc;
    directory = argv[1];
    int fd = opened();
    char *names = all(fd, 200);
    if (get(fd, names + (1 << 19), 1000) != 0) die("behind the end");
    struct { char *text; const char *what; } same[8];
    int n = 0;
    lseek(fd, 0, SEEK_SET);
    same[n].what = "rewound", same[n++].text = all(fd, 32768);
    /* Another descriptor of the same open file goes on where the first one stands. */
    lseek(fd, 0, SEEK_SET);
    char buffer[4096], rest[1 << 18];
    struct entry *first = (void *)buffer;
    long got = get(fd, buffer, 200);
    if (got <= 0) die("first");
    strcpy(rest, "");
    for (long at = 0; at < got; at += ((struct entry *)(buffer + at))->length) {
        const char *name = ((struct entry *)(buffer + at))->name;
        if (!skip(name)) strcat(strcat(rest, name), "\n");
    }
    int other = dup(fd);
    strcat(rest, all(other, 500));
    same[n].what = "duplicated", same[n++].text = rest;
    /* Signals at any time. */
    struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
    struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    lseek(fd, 0, SEEK_SET);
    same[n].what = "with signals", same[n++].text = all(fd, 200);
    setitimer(ITIMER_REAL, &never, 0);
    /* Threads, also with descriptors of their own. */
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, thread, (void *)(i & 1));
    for (int i = 0; i < 4; i++) {
        void *text;
        pthread_join(threads[i], &text);
        same[n].what = "a thread", same[n++].text = text;
    }
#ifdef SYS_getdents
    char *old = calloc(1, 1 << 18), *to = old;
    lseek(fd, 0, SEEK_SET);
    for (long n; (n = syscall(SYS_getdents, fd, buffer, 300)) != 0;) {
        if (n < 0) die("getdents");
        for (long at = 0; at < n; at += *(unsigned short *)(buffer + at + 16)) {
            unsigned short length = *(unsigned short *)(buffer + at + 16);
            char type = buffer[at + length - 1];
            if (!skip(buffer + at + 18)) {
                to = stpcpy(stpcpy(to, buffer + at + 18), "\n");
                if (type != DT_REG) die("type");
            }
        }
    }
    same[n].what = "the old call", same[n++].text = old;
#endif
    for (int i = 0; i < n; i++) if (strcmp(same[i].text, names)) die(same[i].what);
    /* The C library's places, from any to any. */
    DIR *dir = opendir(directory);
    long places[400];
    char list[400][16];
    int count = 0;
    for (struct dirent *e; (places[count] = telldir(dir), e = readdir(dir)) && count < 399; count++)
        snprintf(list[count], 16, "%.15s", e->d_name);
    for (int i = 0; i < count; i++) {
        int at = (i * 37) % count;
        seekdir(dir, places[at]);
        struct dirent *e = readdir(dir);
        if (!e || strncmp(e->d_name, list[at], 15)) die("seekdir");
    }
    rewinddir(dir);
    for (int i = 0; i < count; i++) if (strncmp(readdir(dir)->d_name, list[i], 15)) die("rewinddir");
    /* A child goes on in the open file of its parent. */
    rewinddir(dir);
    for (int i = 0; i < 10; i++) readdir(dir);
    lseek(fd, places[10], SEEK_SET);
    fflush(stdout);
    if (fork() == 0) {
        if (get(fd, buffer, 24) <= 0 || strcmp(first->name, list[10])) die("a child");
        _exit(0);
    }
    int status;
    if (wait(&status) < 0 || status) die("the child");
    if (get(fd, buffer, 24) <= 0 || strcmp(first->name, list[11])) die("after the child");
    /* Mistakes. */
    lseek(fd, 0, SEEK_SET);
    if (get(fd, buffer, 10) != -1 || errno != EINVAL) die("no EINVAL");
    if (get(fd, buffer, 0) != -1 || errno != EINVAL) die("no EINVAL for nothing");
    if (get(-1, buffer, 100) != -1 || errno != EBADF) die("no EBADF for -1");
    if (get(77, buffer, 100) != -1 || errno != EBADF) die("no EBADF");
    if (get(fd, (void *)8, 100) != -1 || errno != EFAULT) die("no EFAULT");
    void *closed = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (get(fd, closed, 100) != -1 || errno != EFAULT) die("no EFAULT for reading");
    int file = open(argv[0], O_RDONLY), path = open(directory, O_PATH);
    if (get(file, buffer, 100) != -1 || errno != ENOTDIR) die("no ENOTDIR");
    if (get(path, buffer, 100) != -1 || errno != EBADF) die("no EBADF for a path");
    lseek(fd, 0, SEEK_SET);
    if (strcmp(all(fd, 200), names)) die("after mistakes");
    char gone[] = "/tmp/truecount-test-XXXXXX";
    if (!mkdtemp(gone)) die("mkdtemp");
    int empty = open(gone, O_RDONLY);
    rmdir(gone);
    if (get(empty, buffer, 1000) != -1 || errno != ENOENT) die("no ENOENT");
    fputs(names, stdout);
    return 0;
}
"#;

#[test]
fn every_way_to_list_gives_the_same_names_and_mistakes_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), LISTER) else {
        return;
    };
    let files = filled(300);
    let command = [program.to_str().unwrap(), files.path().to_str().unwrap()];
    let plain = Command::new(command[0]).arg(command[1]).output().unwrap();
    assert!(plain.status.success(), "{}", stdout(&plain));
    for source in sources() {
        let Some(text) = held(source, &command) else {
            return;
        };
        assert_eq!(lines(&text), sorted(300), "{source}");
    }
}

#[test]
fn an_order_that_matters_is_named() {
    if !virtual_pmu() {
        return;
    }
    // Searches for one file: the work depends on where it is.
    let source = "#include <dirent.h>\n#include <string.h>\nint main(int c, char **v) { (void)c; int n = 0;\n\
         DIR *d = opendir(v[1]); for (struct dirent *e; (e = readdir(d)) && strcmp(e->d_name, \"f50\");) n++;\n\
         return n > 10000; }\n";
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), source) else {
        return;
    };
    let files = filled(100);
    let head = ["noise", "--json", "--source", "virtual", "--seed", "7"];
    let tail = ["-n", "4", "--factors", "files,getrandom", "--"];
    let command = [program.to_str().unwrap(), files.path().to_str().unwrap()];
    let document = json(&[&head[..], &tail, &command].concat());
    if let Some(refused) = document["not_tested"]
        .as_array()
        .filter(|all| !all.is_empty())
    {
        truecount_testing::skip!("remedies", "{refused:?}");
        return;
    }
    assert_eq!(document["residual"]["plus_minus"], 0.0, "{document:#}");
    assert_eq!(document["dominant_factor"], "files", "{document:#}");
    let factors: &Vec<Value> = document["factors"].as_array().unwrap();
    for each in factors {
        assert_eq!(each["cause"], each["factor"] == "files", "{each}");
    }
}
