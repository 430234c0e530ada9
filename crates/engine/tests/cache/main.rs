//! Translations on disk: nothing is translated twice, counts stay the same, and
//! a file that does not fit is never used.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod changed;
#[path = "../support/mod.rs"]
mod support;

use std::fs::File;
use std::io::Read;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch};
use truecount_engine::snapshot::{Prefix, SavedPage, hash, piece};
use truecount_engine::virt::{self, Cache, Options};

#[derive(Debug, PartialEq, Eq)]
struct Run {
    code: Option<i32>,
    instructions: u64,
    translated: u64,
    cached: u64,
}

/// `None` (and a printed reason) where the machine forbids ptrace.
fn run(words: &[&str], cache: Option<&Cache>, fixed: bool) -> Option<Run> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if fixed {
        fixed_layout(&mut command);
    }
    let options = Options::default().cache(cache.cloned());
    let outcome = launch(&mut command, &options)?.wait();
    let outcome = outcome.expect("the engine ends well");
    let threads = &outcome.totals.threads;
    Some(Run {
        code: outcome.status.code(),
        instructions: outcome.totals.instructions(),
        translated: threads.iter().map(|t| t.translated).sum(),
        cached: threads.iter().map(|t| t.cached).sum(),
    })
}

/// Every event of a run with per-block counters, and blocks translated.
fn events(words: &[&str], cache: Option<&Cache>) -> Option<(Vec<Option<u64>>, u64)> {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    fixed_layout(&mut command);
    let options = Options::default().per_block(true).cache(cache.cloned());
    let outcome = launch(&mut command, &options)?.wait();
    let totals = outcome.expect("the engine ends well").totals;
    let events = virt::Event::ALL.map(|event| totals.event(event));
    let translated = totals.threads.iter().map(|t| t.translated).sum();
    Some((events.to_vec(), translated))
}

fn directory(name: &str) -> (Cache, PathBuf) {
    let path =
        truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    (Cache::open(&path).expect("a directory of our own"), path)
}

fn files(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).expect("the directory is there");
    entries.map(|e| e.expect("an entry").path()).collect()
}

/// Compiles a C program; `None` where there is no compiler.
fn compile(name: &str, source: &str, arguments: &[&str]) -> Option<PathBuf> {
    let arguments = [&["-O1"], arguments].concat();
    built(&format!("{name}.c"), source, &arguments)
}

/// `/proc/self` is the first thread, and nothing where others outlive it: what they came to anew (a million
/// instructions of `qsort` here) ran uncounted. Whether the thread waits in `pthread_join` makes a hundred or two.
#[test]
fn threads_that_outlive_the_first_one_are_counted() {
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
        static int words[10000];\n\
        static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }\n\
        static void *outlives(void *first) { pthread_join(*(pthread_t *)first, 0);\n\
        qsort(words, 10000, sizeof *words, order); return first == 0 ? 0 : (puts(\"gone\"), exit(3), first); }\n\
        int main(void) { static pthread_t own; own = pthread_self(); pthread_t other;\n\
        pthread_create(&other, 0, outlives, &own); pthread_exit(0); }\n";
    let Some(program) = compile("outlives", source, &["-pthread"]) else {
        return;
    };
    let words = [program.to_str().expect("a name")];
    let (cache, _) = directory("outlives");
    let Some(without) = run(&words, None, true) else {
        return;
    };
    assert!(without.instructions > 1_000_000, "{without:?}");
    for _ in 0..3 {
        let with = run(&words, Some(&cache), true).expect("as before");
        assert_eq!(with.code, without.code);
        let difference = with.instructions.abs_diff(without.instructions);
        assert!(difference < 2000, "{with:?} instead of {without:?}");
    }
}

/// Most of what a start takes is page faults (some microseconds each in a virtual machine): natively some fifty. Under
/// the virtual PMU it was 290 more, half of them copies of pages of the tables of indirect branches.
#[test]
fn a_start_with_kept_translations_takes_few_page_faults() {
    let source = include_str!("../../../../tests/programs/starts.c");
    let Some(program) = compile("starts", source, &[]) else {
        return;
    };
    let faults = |command: &mut Command| -> u64 {
        let output = command.output().expect("it starts");
        let text = String::from_utf8(output.stdout).expect("digits");
        text.trim().parse().expect("a number")
    };
    let mut natively = Command::new(&program);
    natively.arg("20");
    fixed_layout(&mut natively);
    let natively = faults(&mut natively);
    let (cache, _) = directory("starts");
    let mut counted = 0;
    for _ in 0..3 {
        let mut command = Command::new(&program);
        command.arg("20").stdout(Stdio::piped());
        fixed_layout(&mut command);
        let options = Options::default().cache(Some(cache.clone()));
        let Some(mut running) = launch(&mut command, &options) else {
            return;
        };
        let mut text = String::new();
        let mut out = running.child_mut().stdout.take().expect("a pipe");
        out.read_to_string(&mut text).expect("digits");
        running.wait().expect("the engine ends well");
        counted = text.trim().parse().expect("a number");
    }
    println!("{natively} page faults a start natively, {counted} under the virtual PMU");
    assert!(counted < natively + 180, "{counted}, natively {natively}");
}

#[test]
fn a_second_run_translates_nothing_and_counts_the_same() {
    for (name, words) in [
        ("true", &["true"][..]),
        ("ls", &["ls", "/"]),
        ("exec", &["sh", "-c", "/bin/true; exec /bin/true"]),
    ] {
        let (cache, _) = directory(name);
        let Some(without) = run(words, None, true) else {
            return;
        };
        let Some(first) = run(words, Some(&cache), true) else {
            return;
        };
        let Some(second) = run(words, Some(&cache), true) else {
            return;
        };
        assert_eq!(without.cached, 0, "{name}");
        assert!(
            second.translated == 0 && second.cached > 0,
            "{name}: {second:?}"
        );
        for other in [&first, &second] {
            let seen = (other.code, other.instructions);
            assert_eq!(seen, (without.code, without.instructions), "{name}");
        }
    }
}

/// As a server does it whose work is done in forked children.
#[test]
fn what_only_forked_children_execute_is_kept() {
    let source =
        include_str!("../trust/again.c").replacen("int main(void) {", "int work(void) {", 1)
            + "#include <sys/wait.h>\n#include <unistd.h>\n\
           int main(void) {\n\
             int status, bad = 0;\n\
             for (int i = 0; i < 4; i++) {\n\
               if (fork() == 0) _exit(work() != 0);\n\
               wait(&status);\n\
               bad |= status;\n\
             }\n\
             return bad;\n\
           }\n";
    let Some(program) = compile("fork-server", &source, &[]) else {
        return;
    };
    let words = [program.to_str().expect("a path in ASCII")];
    let (cache, path) = directory("forks");
    let Some(without) = run(&words, None, true) else {
        return;
    };
    let first = run(&words, Some(&cache), true).expect("it worked before");
    // Another launcher: nothing but the file is left of the first run.
    let cache = Cache::open(&path).expect("it was there");
    let second = run(&words, Some(&cache), true).expect("it worked before");
    assert!(without.translated > 4 * 3000, "{without:?}");
    assert!(
        second.translated * 20 < first.translated,
        "{first:?}, {second:?}"
    );
    for run in [&first, &second] {
        assert_eq!(
            (run.code, run.instructions),
            (Some(0), without.instructions)
        );
    }
}

#[test]
fn per_block_counters_are_described_again() {
    for (name, words) in [
        ("events-ls", &["ls", "/"][..]),
        // Forks count on in their parent's counters.
        (
            "events-sh",
            &["sh", "-c", "(:; :); /bin/true; exec /bin/true"],
        ),
    ] {
        let (cache, _) = directory(name);
        let Some((without, _)) = events(words, None) else {
            return;
        };
        assert!(without.iter().all(|count| count.is_some_and(|c| c > 0)));
        let (first, translated) = events(words, Some(&cache)).expect("it worked before");
        let (second, again) = events(words, Some(&cache)).expect("it worked before");
        assert_eq!((&first, &second), (&without, &without), "{name}");
        assert!(again * 10 < translated, "{name}: {again} of {translated}");
    }
}

#[test]
fn another_launcher_checks_the_file_and_uses_it() {
    let (cache, path) = directory("again");
    let Some(first) = run(&["true"], Some(&cache), true) else {
        return;
    };
    let again = Cache::open(&path).expect("the same directory");
    let second = run(&["true"], Some(&again), true).expect("it worked before");
    assert!(first.translated > 0 && second.translated == 0, "{second:?}");
    assert_eq!(again.clear().expect("our files"), 1);
    let third = run(&["true"], Some(&again), true).expect("it worked before");
    assert!(
        third.translated == first.translated && third.cached == 0,
        "{third:?}"
    );
}

#[test]
fn with_random_addresses_nothing_is_kept() {
    let (cache, path) = directory("random");
    if std::fs::read_to_string("/proc/sys/kernel/randomize_va_space").is_ok_and(|v| v.trim() == "0")
    {
        truecount_testing::skip!("aslr", "address randomisation is off on this machine");
        return;
    }
    let Some(run) = run(&["true"], Some(&cache), false) else {
        return;
    };
    assert!(run.translated > 0);
    assert_eq!(files(&path), Vec::<PathBuf>::new());
}

/// Changes bytes of a finished file and makes its checksum right again.
fn forge(path: &Path, change: impl FnOnce(&mut Vec<u8>, &dyn Fn(&[u8], usize) -> u64)) {
    let mut bytes = std::fs::read(path).expect("a file of the cache");
    let word = |bytes: &[u8], at: usize| {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    change(&mut bytes, &word);
    let place = offset_of!(Prefix, checksum);
    bytes[place..place + 8].fill(0);
    let sum = bytes.chunks(128 << 10).fold(0, hash);
    bytes[place..place + 8].copy_from_slice(&sum.to_ne_bytes());
    std::fs::write(path, bytes).expect("ours");
}

/// Where piece `number` is in the file.
fn piece_at(bytes: &[u8], number: usize, word: &dyn Fn(&[u8], usize) -> u64) -> usize {
    word(bytes, offset_of!(Prefix, pieces) + 16 * number) as usize
}

#[test]
fn code_that_is_not_what_was_translated_is_translated_again() {
    let (cache, path) = directory("stale");
    let Some(first) = run(&["true"], Some(&cache), true) else {
        return;
    };
    let file = files(&path).pop().expect("a file");
    forge(&file, |_, _| {});
    let open = || Cache::open(&path).expect("the same directory");
    let same = run(&["true"], Some(&open()), true).expect("it worked before");
    assert_eq!(same.translated, 0, "forging keeps a file valid");
    // As if the first page of the first image had other bytes then.
    forge(&file, |bytes, word| {
        let at = piece_at(bytes, piece::PAGES, word) + offset_of!(SavedPage, hash);
        bytes[at] ^= 1;
    });
    let stale = run(&["true"], Some(&open()), true).expect("it worked before");
    assert!(
        stale.translated > 0 && stale.cached < first.translated,
        "{stale:?}"
    );
    assert_eq!(
        (stale.code, stale.instructions),
        (first.code, first.instructions)
    );
    let after = run(&["true"], Some(&open()), true).expect("it worked before");
    assert_eq!(after.translated, 0, "what was stale has been replaced");
}

#[test]
fn a_damaged_file_is_ignored_and_replaced() {
    let (cache, path) = directory("damaged");
    let Some(first) = run(&["true"], Some(&cache), true) else {
        return;
    };
    let name = files(&path).pop().expect("a file");
    let whole = std::fs::read(&name).expect("ours");
    let (size, junk) = (whole.len() as u64, [0xffu8; 600]);
    let changed = [!whole[whole.len() / 2]];
    let cut = |file: &File, length| file.set_len(length).expect("ours");
    let spoil = |file: &File, bytes, at| file.write_all_at(bytes, at).expect("ours");
    let damage: [&dyn Fn(&File); 5] = [
        &|file| cut(file, 0),
        &|file| cut(file, 100),
        &|file| cut(file, size - 4096),
        &|file| spoil(file, &changed, size / 2),
        &|file| spoil(file, &junk, 8),
    ];
    for (number, damage) in damage.iter().enumerate() {
        std::fs::write(&name, &whole).expect("ours");
        damage(&File::options().write(true).open(&name).expect("ours"));
        let cache = Cache::open(&path).expect("the same directory");
        let run = run(&["true"], Some(&cache), true).expect("it worked before");
        assert_eq!(
            (run.code, run.instructions),
            (first.code, first.instructions),
            "{number}"
        );
        assert_eq!(
            (run.translated, run.cached),
            (first.translated, 0),
            "{number}"
        );
        assert_eq!(
            std::fs::read(&name).expect("ours").len(),
            whole.len(),
            "{number}"
        );
    }
}

#[test]
fn threads_find_what_earlier_threads_translated() {
    let source = r#"
        #include <pthread.h>
        static void *work(void *p) {
            long sum = 0;
            for (int i = 0; i < 1000; i++) sum += i ^ (long)p;
            return (void *)sum;
        }
        int main(void) {
            pthread_t threads[8];
            for (int round = 0; round < 8; round++) {
                for (long i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, (void *)i);
                for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
            }
            return 9;
        }"#;
    let (cache, _) = directory("threads");
    let Some(program) = compile("threads", source, &["-pthread"]) else {
        return;
    };
    let path = program.to_string_lossy().into_owned();
    let Some(first) = run(&[&path], Some(&cache), true) else {
        return;
    };
    let second = run(&[&path], Some(&cache), true).expect("it worked before");
    assert_eq!((first.code, second.code), (Some(9), Some(9)));
    // Who waits for whom differs from run to run, and with it a few blocks.
    assert!(
        second.translated * 20 < first.translated,
        "{first:?} {second:?}"
    );
}

#[test]
fn libraries_that_come_and_go_and_written_code() {
    let source = r#"
        #include <dlfcn.h>
        #include <string.h>
        #include <sys/mman.h>
        int main(int argc, char **argv) {
            int total = 0;
            for (int i = 0; i < 3; i++) {
                void *library = dlopen(argv[1], RTLD_NOW);
                if (!library) return 100;
                total += ((int (*)(void))dlsym(library, "value"))();
                dlclose(library);
            }
            /* mov eax, n; ret, twice at the same place */
            unsigned char *code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int n = 1; n < 3; n++) {
                memcpy(code, "\xb8\0\0\0\0\xc3", 6);
                code[1] = n;
                total += ((int (*)(void))code)();
            }
            return total; /* 3 * 7 + 1 + 2 */
        }"#;
    let (cache, _) = directory("mixed");
    let value = "int value(void) { return 7; }";
    let Some(library) = compile("libcomes.so", value, &["-shared", "-fPIC"]) else {
        return;
    };
    let Some(program) = compile("mixed", source, &["-ldl"]) else {
        return;
    };
    let paths = [program, library].map(|p| p.to_string_lossy().into_owned());
    let words = [&*paths[0], &paths[1]];
    let Some(without) = run(&words, None, true) else {
        return;
    };
    let runs: Vec<Run> = (0..3)
        .map(|_| run(&words, Some(&cache), true).expect("it worked"))
        .collect();
    for run in &runs {
        assert_eq!(
            (run.code, run.instructions),
            (Some(24), without.instructions),
            "{runs:?}"
        );
    }
    // Written code, and the library that was gone at the end, are translated anew.
    assert!(runs[1].translated * 10 < runs[0].translated, "{runs:?}");
}
