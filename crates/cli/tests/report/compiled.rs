//! Programs with a known tree of calls, of many compilers and linkers: chains to `main`, and perf's own recordings of them.

use std::path::PathBuf;
use std::process::Command;

use crate::{json, rows, text, truecount};

/// A directory of programs that are compiled for a test.
struct Programs(PathBuf);

impl Programs {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("truecount-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Compiles; `None` where the compiler (or its linker) is not there.
    fn compile(&self, words: &[&str], source: &str, name: &str) -> Option<String> {
        let (compiler, options) = words.split_first().unwrap();
        let output = Command::new(compiler)
            .args(options)
            .args(["-o", &self.path(name), &self.path(source)])
            .env("HOME", &self.0)
            .env("GOCACHE", self.0.join("go"))
            .env("GO111MODULE", "off")
            .output();
        let plain = options.iter().all(|o| matches!(*o, "-O" | "-O1" | "-g"));
        let need = match *compiler {
            "cc" | "rustc" if plain => *compiler,
            _ => "compilers",
        };
        match output {
            Ok(output) if output.status.success() => Some(self.path(name)),
            Ok(output) => {
                let said = text(&output.stderr);
                truecount_testing::skip!(need, "{words:?}: {}", said.trim());
                None
            }
            Err(error) => {
                truecount_testing::skip!(need, "{words:?}: {error}");
                None
            }
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const TREE_C: &str = "volatile unsigned long sink;\n\
    __attribute__((noinline)) void leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }\n\
    __attribute__((noinline)) void other(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink -= i; }\n\
    __attribute__((noinline)) void middle(unsigned long n) { leaf(n); sink++; other(n / 3); sink++; }\n\
    __attribute__((noinline)) void outer(unsigned long n) { middle(n); sink++; }\n\
    int main(void) { for (int i = 0; i < 60; i++) { outer(1000000); sink++; } return 0; }\n";
const TREE_RS: &str = "use std::hint::black_box;\n\
    #[inline(never)] fn leaf(n: u64) -> u64 { let mut s = 0; for i in 0..n { s = black_box(s + i); } s }\n\
    #[inline(never)] fn middle(n: u64) -> u64 { black_box(leaf(n)) + 1 }\n\
    #[inline(never)] fn outer(n: u64) -> u64 { black_box(middle(n)) + 1 }\n\
    fn main() { for _ in 0..60 { black_box(outer(1_000_000)); } }\n";
const TREE_GO: &str = "package main\nvar sink uint64\n\
    //go:noinline\nfunc leaf(n uint64) { for i := uint64(0); i < n; i++ { sink += i } }\n\
    //go:noinline\nfunc middle(n uint64) { leaf(n); sink++ }\n\
    //go:noinline\nfunc outer(n uint64) { middle(n); sink++ }\n\
    func main() { for i := 0; i < 60; i++ { outer(1000000); sink++ } }\n";

/// Recorded stacks lead to `main` in 95 of 100 samples, whatever language and linker made the program.
#[test]
fn chains_lead_to_main_in_every_language() {
    let programs = Programs::new("languages");
    for (name, source) in [
        ("t.c", TREE_C),
        ("t.cpp", TREE_C),
        ("t.rs", TREE_RS),
        ("t.go", TREE_GO),
    ] {
        std::fs::write(programs.path(name), source).unwrap();
    }
    const C: &[&str] = &["cc", "-O1", "-g", "-fomit-frame-pointer"];
    const CPP: &[&str] = &["c++", "-O2", "-g", "-fomit-frame-pointer"];
    const RUST: &[&str] = &["rustc", "-O", "-g"];
    let ways: [(&str, &[&str], &[&str]); 11] = [
        ("t.c", C, &["-fuse-ld=bfd", "-no-pie"]),
        ("t.c", C, &["-fuse-ld=gold"]),
        ("t.c", C, &["-fuse-ld=lld"]),
        ("t.c", C, &["-fuse-ld=mold"]),
        ("t.c", C, &["-static"]),
        ("t.c", C, &["-static-pie"]),
        ("t.cpp", CPP, &["-fuse-ld=bfd"]),
        ("t.cpp", CPP, &["-fuse-ld=gold"]),
        ("t.rs", RUST, &[]),
        ("t.rs", RUST, &["-Ctarget-feature=+crt-static"]),
        ("t.go", &["go", "build"], &[]),
    ];
    for (number, (source, compiler, options)) in ways.into_iter().enumerate() {
        let words = [compiler, options].concat();
        let Some(program) = programs.compile(&words, source, &format!("p{number}")) else {
            continue;
        };
        let data = programs.path(&format!("p{number}.data"));
        let record = [
            "record",
            "-g",
            "dwarf",
            "-e",
            "cpu-clock:u",
            "-c",
            "200000",
            "-o",
        ];
        let recorded = truecount(&[&record[..], &[&data, "--", &program]].concat());
        if recorded.status.code() == Some(125) {
            truecount_testing::skip("software", text(&recorded.stderr));
            return;
        }
        let document = json(&truecount(&["report", &data, "--json", "--top", "1000"]));
        let samples = document["events"][0]["samples"].as_u64().unwrap();
        let total = |name: &str| {
            let all = rows(&document);
            let is_it = |key: &str| {
                let function = key.split([' ', '(']).next().unwrap_or_default();
                function == name
                    || function.ends_with(&format!("::{name}"))
                    || function == format!("main.{name}")
            };
            all.iter()
                .filter(|row| is_it(&row.0))
                .map(|row| row.2)
                .max()
                .unwrap_or(0)
        };
        assert!(samples > 20, "{words:?}: {document}");
        for name in ["outer", "main"] {
            assert!(
                total(name) * 100 >= samples * 95,
                "{words:?}: {name}: {} of {samples}\n{document:#}",
                total(name)
            );
        }
    }
}

/// What perf recorded in its various ways has the same samples in each function here as in perf's own list.
#[test]
fn functions_have_the_samples_that_perf_gives_them() {
    let programs = Programs::new("shares");
    std::fs::write(programs.path("t.c"), TREE_C).unwrap();
    let Some(program) = programs.compile(&["cc", "-O1", "-g"], "t.c", "shares") else {
        return;
    };
    let ways: [&[&str]; 6] = [
        &[],
        &["-z"],
        &["--buildid-mmap"],
        &["-a"],
        &["--threads"],
        &["-z", "--call-graph", "dwarf,4096"],
    ];
    for (number, options) in ways.into_iter().enumerate() {
        let file = programs.path(&format!("{number}.data"));
        let recorded = Command::new("perf")
            .args([
                "record",
                "-q",
                "-e",
                "cpu-clock:u",
                "-c",
                "400000",
                "-o",
                &file,
            ])
            .args(options)
            .args(["--", &program])
            .output();
        match recorded {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let said = text(&output.stderr);
                truecount_testing::skip!("perf", "perf record {options:?}: {}", said.trim());
                continue;
            }
            Err(error) => {
                truecount_testing::skip!("perf", "no perf ({error})");
                return;
            }
        }
        let listed = Command::new("perf")
            .args(["script", "-F", "comm,ip,sym", "-G", "-i", &file])
            .output()
            .unwrap();
        let listed = text(&listed.stdout);
        let document = json(&truecount(&["report", &file, "--json", "--comm", "shares"]));
        for function in ["leaf", "other"] {
            let is_it = |line: &&str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.first() == Some(&"shares") && words.last() == Some(&function)
            };
            let expected = listed.lines().filter(is_it).count() as u64;
            let key = format!("{function} [shares]");
            let all = rows(&document);
            let own = all.iter().find(|row| row.0 == key).map_or(0, |row| row.1);
            assert!(expected > 5, "{options:?}: {listed}");
            assert_eq!(own, expected, "{options:?}: {function}: {all:?}");
        }
    }
}
