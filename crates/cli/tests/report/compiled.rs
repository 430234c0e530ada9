//! Programs with a known tree of calls, of many compilers and linkers: chains to `main`, and perf's own recordings of them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

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
        let plain = options
            .iter()
            .all(|o| matches!(*o, "-O" | "-O0" | "-O1" | "-g" | "-fomit-frame-pointer"));
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

/// The sources of the tree in all languages.
fn trees(name: &str) -> Programs {
    let programs = Programs::new(name);
    for (name, source) in [
        ("t.c", TREE_C),
        ("t.cpp", TREE_C),
        ("t.rs", TREE_RS),
        ("t.go", TREE_GO),
    ] {
        std::fs::write(programs.path(name), source).unwrap();
    }
    programs
}

/// Compiles a line of source, compiler and options.
fn compiled(programs: &Programs, line: &str, name: &str) -> Option<String> {
    let line = line.replace("LLD", &format!("{} -fuse-ld=lld", lld()));
    let (source, words) = line.split_once(' ').unwrap();
    let words: Vec<&str> = words.split(' ').collect();
    programs.compile(&words, source, name)
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

/// The options by which the C compiler uses the LLD that rustc brings along, where there is no other.
fn lld() -> String {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = output.map_or_else(|_| String::new(), |output| text(&output.stdout));
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let directory = PathBuf::from(sysroot.trim()).join("lib/rustlib");
    format!("-B{}", directory.join(host).join("bin/gcc-ld").display())
}

/// Records with stacks; `None` where this machine has no cpu-clock.
fn record(programs: &Programs, program: &str, data: &str) -> Option<String> {
    let data = programs.path(data);
    let options = ["-g", "dwarf", "-e", "cpu-clock:u", "-c", "200000"];
    let arguments = [&["record"], &options[..], &["-o", &data, "--", program]].concat();
    let recorded = truecount(&arguments);
    if recorded.status.code() == Some(125) {
        truecount_testing::skip("software", text(&recorded.stderr));
        return None;
    }
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    Some(data)
}

/// The functions of a tree that lie above the first one of this name, outermost first, and its samples.
fn path_to(document: &Value, name: &str) -> (Vec<String>, u64) {
    let mut path: Vec<String> = Vec::new();
    for node in document["events"][0]["tree"].as_array().unwrap() {
        path.truncate(node["depth"].as_u64().unwrap() as usize);
        let function = node["function"].as_str().unwrap();
        path.push(plain(function).to_owned());
        if plain(function) == name {
            return (path, node["total"]["samples"].as_u64().unwrap());
        }
    }
    (Vec::new(), 0)
}

/// `leaf` of `leaf`, `p::leaf`, `main.leaf`, `leaf(unsigned long)`.
fn plain(function: &str) -> &str {
    let name = function.split([' ', '(']).next().unwrap_or_default();
    let name = name.rsplit("::").next().unwrap_or_default();
    name.strip_prefix("main.").unwrap_or(name)
}

/// Recorded stacks lead to `main` in 95 of 100 samples, whatever language and linker made the program, by the calls that
/// the source has: from `leaf` through `middle` and `outer`. LLD lays the text out so that its first page belongs to two
/// segments; Go's functions, and C without asynchronous unwind tables, are in `.debug_frame` only, also compressed.
#[test]
fn chains_lead_to_main_in_every_language() {
    let programs = trees("languages");
    for (number, line) in [
        "t.c cc -O1 -g -fomit-frame-pointer -fuse-ld=bfd -no-pie",
        "t.c cc -O1 -g -fomit-frame-pointer -fuse-ld=bfd",
        "t.c cc -O1 -g -fomit-frame-pointer -fuse-ld=gold",
        "t.c cc -O1 -g -fomit-frame-pointer LLD",
        "t.c cc -O1 -g -fomit-frame-pointer LLD -no-pie",
        "t.c cc -O1 -g -fomit-frame-pointer -fuse-ld=mold",
        "t.c cc -O1 -g -fomit-frame-pointer -static",
        "t.c cc -O1 -g -fomit-frame-pointer -static-pie",
        "t.c cc -O1 -g -fno-asynchronous-unwind-tables",
        "t.c cc -O1 -g -fno-asynchronous-unwind-tables -gz=zlib",
        "t.cpp c++ -O2 -g -fomit-frame-pointer -fuse-ld=bfd",
        "t.cpp c++ -O2 -g -fomit-frame-pointer LLD",
        "t.cpp c++ -O2 -g -fomit-frame-pointer -fuse-ld=mold",
        "t.rs rustc -O -g",
        "t.rs rustc -O -g -Ctarget-feature=+crt-static",
        "t.rs rustc -O -g -Crelocation-model=static",
        "t.go go build",
        "t.go go build -buildmode=pie",
    ]
    .into_iter()
    .enumerate()
    {
        let Some(program) = compiled(&programs, line, &format!("p{number}")) else {
            continue;
        };
        let Some(data) = record(&programs, &program, &format!("p{number}.data")) else {
            return;
        };
        let arguments = ["report", &data, "--json", "--top", "1000", "--tree"];
        let document = json(&truecount(&arguments));
        let samples = document["events"][0]["samples"].as_u64().unwrap();
        assert!(samples > 20, "{line}: {document}");
        for name in ["middle", "outer", "main"] {
            let all = rows(&document);
            let of_it = all.iter().filter(|row| plain(&row.0) == name);
            let total = of_it.map(|row| row.2).max().unwrap_or(0);
            assert!(
                total * 100 >= samples * 95,
                "{line}: {name}: {total} of {samples}\n{document:#}"
            );
        }
        let (path, total) = path_to(&document, "leaf");
        assert!(
            path.ends_with(&["main", "outer", "middle", "leaf"].map(str::to_owned)),
            "{line}: {path:?}"
        );
        assert!(total * 100 >= samples * 40, "{line}: {total} of {samples}");
    }
}

/// Where stacks are not unwound to their beginning the tree says so, and why: here more stack than is recorded.
#[test]
fn the_tree_says_which_chains_ended_early() {
    let programs = Programs::new("early");
    let source = "volatile unsigned long sink;\n\
        __attribute__((noinline)) void deep(unsigned long n) { volatile char room[20000]; room[n % 20000] = 1;\n\
        for (unsigned long i = 0; i < n; i++) sink += room[i % 20000]; }\n\
        int main(void) { for (int i = 0; i < 60; i++) { deep(1000000); sink++; } return 0; }\n";
    std::fs::write(programs.path("t.c"), source).unwrap();
    let compiler = ["cc", "-O1", "-g", "-fomit-frame-pointer"];
    let Some(program) = programs.compile(&compiler, "t.c", "deep") else {
        return;
    };
    let Some(data) = record(&programs, &program, "deep.data") else {
        return;
    };
    let tree = |options: &[&str]| {
        let arguments = [&["report", &data, "--json"], options].concat();
        json(&truecount(&arguments))
    };
    let document = tree(&["--tree"]);
    let samples = document["events"][0]["samples"].as_u64().unwrap();
    let first = &document["events"][0]["tree"][0];
    assert_eq!(
        first["function"], "(ends early: more stack than was recorded)",
        "{document:#}"
    );
    assert_eq!(first["dso"], "deep");
    assert!(first["total"]["samples"].as_u64().unwrap() * 100 >= samples * 90);
    let (path, _) = path_to(&document, "deep");
    assert_eq!(path.len(), 2, "{path:?}");
    // From the callees' side it is the outermost caller.
    let callees = tree(&["-g", "callee"]);
    let nodes = callees["events"][0]["tree"].as_array().unwrap();
    assert_eq!(nodes[0]["function"], "deep");
    assert_eq!(nodes[1]["function"], first["function"], "{callees:#}");
    // The table's rows are functions only.
    let all = rows(&document);
    assert!(
        all.iter().all(|row| !row.0.contains("ends early")),
        "{all:?}"
    );
}

/// Stacks of one function, which nobody called: they were recorded, and a tree is made of them.
#[test]
fn stacks_without_a_caller_have_a_tree() {
    let programs = Programs::new("alone");
    let source = "void _start(void) { for (volatile long i = 0; i < 100000000; i++) ;\n\
        #ifdef __x86_64__\n\
        __asm__ volatile(\"syscall\" : : \"a\"(60), \"D\"(0));\n\
        #else\n\
        register long x8 __asm__(\"x8\") = 93, x0 __asm__(\"x0\") = 0; __asm__ volatile(\"svc 0\" : : \"r\"(x8), \"r\"(x0));\n\
        #endif\n}\n";
    std::fs::write(programs.path("t.c"), source).unwrap();
    let compiler = ["cc", "-O1", "-nostdlib", "-static"];
    let Some(program) = programs.compile(&compiler, "t.c", "alone") else {
        return;
    };
    let Some(data) = record(&programs, &program, "alone.data") else {
        return;
    };
    let document = json(&truecount(&["report", &data, "--json", "--tree"]));
    assert_eq!(document["samples_with_call_chain"], 0, "{document:#}");
    let (_, samples) = path_to(&document, "_start");
    assert_eq!(samples, document["events"][0]["samples"].as_u64().unwrap());
    let table = text(&truecount(&["report", &data]).stdout);
    assert!(!table.contains("No call chains were recorded"), "{table}");
}

/// What perf recorded in its various ways, of programs of many compilers and linkers, has the same samples in each
/// function here as in perf's own list, and of unwound stacks the same callers but for one sample in twenty.
#[test]
fn functions_have_the_samples_that_perf_gives_them() {
    let programs = trees("shares");
    const PLAIN: &str = "t.c cc -O1 -g";
    // Optimized code has no frame pointers in its leaves, whatever one asks for.
    const POINTERS: &str = "t.c cc -O0 -g";
    const DWARF: &str = "--call-graph dwarf,4096";
    for (number, (line, options)) in [
        (PLAIN, ""),
        (PLAIN, "-z"),
        (PLAIN, "--buildid-mmap"),
        (PLAIN, "-a"),
        (PLAIN, "--threads"),
        (POINTERS, "-g"),
        (PLAIN, "-z --call-graph dwarf,4096"),
        (PLAIN, "-a --threads -z --buildid-mmap"),
        ("t.c cc -O1 -g -fomit-frame-pointer LLD -no-pie", DWARF),
        ("t.c cc -O1 -g -fomit-frame-pointer LLD", DWARF),
        ("t.c cc -O1 -g -fomit-frame-pointer -fuse-ld=mold", DWARF),
        ("t.c cc -O1 -g -fomit-frame-pointer -static", DWARF),
        ("t.cpp c++ -O2 -g -fomit-frame-pointer -fuse-ld=bfd", DWARF),
        ("t.rs rustc -O -g", DWARF),
        ("t.go go build", DWARF),
    ]
    .into_iter()
    .enumerate()
    {
        let Some(program) = compiled(&programs, line, &format!("s{number}")) else {
            continue;
        };
        let file = programs.path(&format!("{number}.data"));
        let recorded = Command::new("perf")
            .args("record -q -e cpu-clock:u -c 400000 -o".split(' '))
            .arg(&file)
            .args(options.split_whitespace())
            .args(["--", &program])
            .output();
        match recorded {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let said = text(&output.stderr);
                truecount_testing::skip!("perf", "perf record {options}: {}", said.trim());
                continue;
            }
            Err(error) => {
                truecount_testing::skip!("perf", "no perf ({error})");
                return;
            }
        }
        agrees_with_perf(&file, &format!("s{number}"), options, line);
    }
}

/// As the test above says, of a recording.
fn agrees_with_perf(file: &str, comm: &str, options: &str, line: &str) {
    let what = format!("{line}, {options}");
    let chains = chains_of_perf(file, comm);
    let arguments = ["report", file, "--json", "--no-inline", "--comm", comm];
    let document = json(&truecount(&arguments));
    let samples = document["events"][0]["samples"].as_u64().unwrap();
    assert_eq!(chains.len() as u64, samples, "{what}");
    let all = rows(&document);
    let row = |function: &str| all.iter().find(|row| plain(&row.0) == function);
    for function in ["leaf", "other"] {
        if function == "other" && !line.starts_with("t.c") {
            continue;
        }
        let is_it = |chain: &&Vec<String>| chain.first().is_some_and(|f| f == function);
        let expected = chains.iter().filter(is_it).count() as u64;
        // Samples come at fixed times, and may keep missing what a loop does in a part of each round.
        assert!(function == "other" || expected > 5, "{what}: {chains:?}");
        assert_eq!(
            row(function).map_or(0, |row| row.1),
            expected,
            "{what}: {all:?}"
        );
    }
    // perf does not unwind static programs and Go's; `chains_lead_to_main_in_every_language` has theirs.
    let callers = if line.contains("-static") || line.starts_with("t.go") {
        &[][..]
    } else {
        &["middle", "outer", "main"][..]
    };
    for &function in callers {
        let has_it = |chain: &&Vec<String>| chain.iter().any(|f| f == function);
        let expected = chains.iter().filter(has_it).count() as u64;
        let total = row(function).map_or(0, |row| row.2);
        if options.contains('g') && !options.contains("buildid") {
            assert!(expected * 2 > samples, "{what}: {function} {expected}");
        }
        assert!(
            total.abs_diff(expected) * 20 <= samples,
            "{what}: {function}: {total} here, {expected} there: {all:?}"
        );
    }
}

/// The functions of every sample of processes with this name, innermost first, as perf itself finds them.
fn chains_of_perf(file: &str, comm: &str) -> Vec<Vec<String>> {
    let listed = Command::new("perf")
        .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i", file])
        .output()
        .unwrap();
    let mut chains: Vec<Vec<String>> = Vec::new();
    let mut wanted = false;
    for line in text(&listed.stdout).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        // The name, alone or before an address without a chain; then one line a frame, behind a tab.
        let head = !line.starts_with('\t');
        if head {
            wanted = words.first() == Some(&comm);
            if wanted {
                chains.push(Vec::new());
            }
        }
        if let (true, Some(chain)) = (wanted, chains.last_mut())
            && !(head && words.len() == 1)
        {
            // Behind the address; a name of C++ may have parts.
            let name = words.get(usize::from(head) + 1).copied();
            chain.push(plain(name.unwrap_or_default()).to_owned());
        }
    }
    chains
}
