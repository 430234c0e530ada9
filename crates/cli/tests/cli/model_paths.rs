//! What Callgrind's simulation makes of each path of calls: as much in all as Cachegrind's, which keeps none; and by hand.

use crate::memory::built;
use crate::model_told::BRANCHES;
use crate::support::{code, stderr, virtual_pmu};
use crate::valgrind::{front, line};
use std::collections::BTreeMap;
use std::path::Path;
use truecount_testing::programs::REFERENCES;

const EVENTS: [&str; 13] = [
    "Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "Bc", "Bcm", "Bi", "Bim",
];

type Costs = [u64; EVENTS.len()];

/// A file of Callgrind's: parts, and in each of them what functions cost themselves, and calls, by caller and callee.
struct Part {
    totals: Costs,
    own: BTreeMap<String, Costs>,
    calls: BTreeMap<(String, String), Costs>,
}

fn costs(words: &str) -> Costs {
    let mut costs = Costs::default();
    for (cost, word) in costs.iter_mut().zip(words.split_whitespace()) {
        *cost = word.parse().unwrap();
    }
    costs
}

fn add(sum: &mut Costs, more: Costs) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

fn read(text: &str) -> Part {
    let mut part = Part {
        totals: costs(line(text, "totals:")),
        own: BTreeMap::new(),
        calls: BTreeMap::new(),
    };
    assert_eq!(line(text, "events:"), EVENTS.join(" "));
    let (mut function, mut callee, mut is_call) = (String::new(), String::new(), false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name.to_owned();
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = name.to_owned();
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if let Some(found) = line.strip_prefix("0 ") {
            let found = costs(found);
            match std::mem::take(&mut is_call) {
                true => {
                    let edge = (function.clone(), callee.clone());
                    add(part.calls.entry(edge).or_default(), found);
                }
                false => add(part.own.entry(function.clone()).or_default(), found),
            }
        }
    }
    part
}

/// The parts of the profile of a program, in order.
fn profile(directory: &Path, program: &Path, more: &[&str]) -> Vec<Part> {
    let left = directory.join("left");
    std::fs::create_dir_all(&left).unwrap();
    for old in std::fs::read_dir(&left).unwrap() {
        std::fs::remove_file(old.unwrap().path()).unwrap();
    }
    let out = "--callgrind-out-file=left/out";
    let plain =
        "--compress-strings=no --compress-pos=no --dump-line=no --cache-sim=yes --branch-sim=yes";
    let mut options = vec!["--tool=callgrind", out];
    options.extend(plain.split(' ').chain(more.iter().copied()));
    let output = front(directory, &options, &[program.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(!stderr(&output).contains("lack"), "{}", stderr(&output));
    let entries = std::fs::read_dir(&left).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let number = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        name.rsplit('.').next().unwrap().parse().unwrap_or(u32::MAX)
    };
    files.sort_by_key(|path| number(path));
    let text = files
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap());
    text.map(|text| read(&text)).collect()
}

/// The totals of Cachegrind, in this file's order.
fn cachegrind(directory: &Path, program: &Path) -> Costs {
    let options =
        "--tool=cachegrind --cachegrind-out-file=cachegrind --cache-sim=yes --branch-sim=yes";
    let options: Vec<&str> = options.split(' ').collect();
    let output = front(directory, &options, &[program.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.join("cachegrind")).unwrap();
    let found = costs(line(&text, "summary:"));
    let names = line(&text, "events:").split(' ');
    let by_name: BTreeMap<&str, u64> = names.zip(found).collect();
    EVENTS.map(|event| by_name[event])
}

/// With reads and writes together: what is modified is written with one of the tools, and read with the other.
fn together(mut costs: Costs) -> Costs {
    for (read, write) in [(1, 2), (4, 5), (7, 8)] {
        costs[read] += std::mem::take(&mut costs[write]);
    }
    costs
}

/// Everything that functions cost themselves, and what the paths from the top cost, is what Cachegrind has in all.
#[test]
fn paths_have_all_that_cachegrind_has() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (source, arguments) in [
        (REFERENCES, &["-O1", "-static"][..]),
        (REFERENCES, &["-O2", "-static", "-fno-plt"]),
        (BRANCHES, &["-O1", "-nostdlib", "-static"]),
    ] {
        let Some(program) = built(directory.path(), source, arguments) else {
            return;
        };
        let expected = together(cachegrind(directory.path(), &program));
        let parts = profile(directory.path(), &program, &[]);
        let [part] = &parts[..] else {
            panic!("{} parts", parts.len());
        };
        assert_eq!(together(part.totals), expected, "{arguments:?}");
        let mut own = Costs::default();
        for &costs in part.own.values() {
            add(&mut own, costs);
        }
        assert_eq!(own, part.totals);
        // What is at the top cost that itself and by what it called. (What is jumped into behind its first instruction is
        // nobody's callee, and there is no call to where the program begins.)
        let called: Vec<&String> = part.calls.keys().map(|(_, callee)| callee).collect();
        let tops = part.own.iter().filter(|(name, _)| !called.contains(name));
        let inclusive = tops.map(|(name, &own)| {
            let mut sum = own;
            for ((caller, _), &costs) in &part.calls {
                if caller == name {
                    add(&mut sum, costs);
                }
            }
            sum
        });
        // (That of the branches is jumped to again.)
        if source != BRANCHES {
            assert_eq!(inclusive.max(), Some(part.totals), "{arguments:?}");
        }
    }
}

/// `walk` meets 100 new lines from `one`, then 40 others, and those again, from `two`; both call it through `through`.
/// Then a part ends; counting is switched off and on, and caches with it.
const LINES: &str = r#"
static char lines[1 << 16] __attribute__((aligned(64)));
static unsigned long arguments[6];
__attribute__((noinline)) static void request(unsigned long which) {
    unsigned long result = 0;
    arguments[0] = which;
    __asm__ volatile(
        "rol $3, %%rdi; rol $13, %%rdi; rol $61, %%rdi; rol $51, %%rdi; xchg %%rbx, %%rbx"
        : "+d"(result) : "a"(arguments) : "memory", "cc");
}
__attribute__((noipa)) void walk(int from, int to) {
    for (int i = from; i < to; i++) (void)*(volatile char *)&lines[64 * i];
}
__attribute__((noipa)) void through(int from, int to) { walk(from, to); __asm__ volatile(""); }
__attribute__((noipa)) void one(void) { through(0, 100); __asm__ volatile(""); }
__attribute__((noipa)) void two(void) { through(100, 140); through(100, 140); __asm__ volatile(""); }
int main(void) {
    one();
    two();
    request(0x43540000); /* dump */
    one();
    request(0x43540005); /* stop */
    for (volatile int i = 0; i < 100; i++) one();
    request(0x43540004); /* start */
    one();
    return 0;
}
"#;

#[test]
fn misses_are_those_of_their_path_and_part() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-O1", "-static", "-fno-inline", "-fno-stack-protector"];
    let Some(program) = built(directory.path(), LINES, &arguments) else {
        return;
    };
    let sizes = ["--D1=32768,8,64", "--I1=32768,8,64", "--LL=8388608,16,64"];
    let parts = profile(directory.path(), &program, &sizes);
    let [first, second] = &parts[..] else {
        panic!("{} parts", parts.len());
    };
    let misses = |part: &Part, caller: &str, callee: &str| {
        let edge = (caller.to_owned(), callee.to_owned());
        let costs = part.calls.get(&edge).copied().unwrap_or_default();
        (costs[4], costs[7])
    };
    for (caller, callee, expected) in [
        ("main", "one", 100),
        ("one", "through", 100),
        ("main", "two", 40),
        ("two", "through", 40),
        ("through", "walk", 140),
    ] {
        let found = misses(first, caller, callee);
        assert_eq!(found, (expected, expected), "{caller} {callee}");
    }
    assert_eq!(first.own["walk"][4], 140);
    // They are there; behind the switch nothing is any more.
    let again = misses(second, "one", "through");
    assert_eq!(again, (100, 100));
    assert_eq!(second.own["walk"][4], 100);
    // Off until it is switched on: what is told then is all, one by one.
    let off = [&sizes[..], &["--instr-atstart=no"]].concat();
    let parts = profile(directory.path(), &program, &off);
    let last = parts.last().unwrap();
    assert_eq!(misses(last, "one", "through"), (100, 100));
    assert_eq!(last.own["walk"][4], 100);
    assert_eq!(last.own.get("two"), None);
}

/// What is not collected is not in the profile, and in the caches all the same.
#[test]
fn what_is_not_collected_is_simulated() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-O1", "-static", "-fno-inline", "-fno-stack-protector"];
    let Some(program) = built(directory.path(), LINES, &arguments) else {
        return;
    };
    let sizes = "--D1=32768,8,64 --I1=32768,8,64 --LL=8388608,16,64 --toggle-collect=two";
    let sizes: Vec<&str> = sizes.split(' ').collect();
    let parts = profile(directory.path(), &program, &sizes);
    let walk = parts[0].own["walk"];
    // 80 lines, 40 of them new, and its two returns.
    assert_eq!((walk[1], walk[4], walk[7]), (82, 40, 40));
    let sizes = "--D1=32768,8,64 --I1=32768,8,64 --LL=8388608,16,64 --toggle-collect=one";
    let sizes: Vec<&str> = sizes.split(' ').collect();
    let parts = profile(directory.path(), &program, &sizes);
    let walk = |part: &Part| (part.own["walk"][1], part.own["walk"][4]);
    assert_eq!(walk(&parts[0]), (101, 100));
    // The second time is as warm as it is; the third is behind the switch.
    assert_eq!(walk(&parts[1]), (202, 100));
}

/// Seven instructions that modify, by the form of their address or (a bit string) without one, each 1,000 times on lines of
/// their own; one that reads and one that writes.
const MODIFIES: &str = r#"
static char data[1024] __attribute__((aligned(64)));
__attribute__((noipa)) void modify(char *at, long bit) {
    __asm__ volatile(
        "mov $1000, %%ecx\n"
        "1: addl $1, (%0)\n shlq $3, 64(%0)\n notb 128(%0)\n lock cmpxchg %%r8, 192(%0)\n"
        "btsq %1, 256(%0)\n adcw $1, 320(%0)\n cmpxchg %%r8, 384(%0)\n"
        "mov 448(%0), %%r9\n mov %%r9, 512(%0)\n"
        "dec %%ecx\n jnz 1b"
        : : "r"(at), "r"(bit) : "rax", "rcx", "r8", "r9", "memory", "cc");
}
__attribute__((used)) void start(void) {
    modify(data, 5);
    __asm__ volatile("mov $60, %%eax; xor %%edi, %%edi; syscall" : : : "rax", "rdi", "rcx", "r11");
}
__asm__(".globl _start\n_start: call start\n hlt");
"#;

/// Callgrind counts an instruction that reads and writes as a write, with its misses, Cachegrind as a read. (Valgrind 3.19
/// has the same numbers for this program.)
#[test]
fn what_is_modified_is_written_under_callgrind_and_read_under_cachegrind() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-O1", "-nostdlib", "-static", "-fno-stack-protector"];
    let Some(program) = built(directory.path(), MODIFIES, &arguments) else {
        return;
    };
    let [part] = &profile(directory.path(), &program, &[])[..] else {
        panic!("several parts");
    };
    let data = |costs: Costs| (costs[1], costs[2], costs[4], costs[5]);
    // (`modify` returns, once: the stack's line was written before.)
    assert_eq!(data(part.own["modify"]), (1001, 8000, 1, 8));
    let all = cachegrind(directory.path(), &program);
    assert_eq!(together(all), together(part.totals));
    let moved = (all[1] - part.totals[1], all[4] - part.totals[4]);
    assert_eq!(moved, (7000, 7));
    // Where all references are told one by one, too: lines of other lengths, which only a simulator of all has.
    for sizes in ["--D1=32768,8,32", "--D1=32768,8,128"] {
        let [part] = &profile(directory.path(), &program, &[sizes])[..] else {
            panic!("several parts");
        };
        assert_eq!(data(part.own["modify"]).0, 1001, "{sizes}");
        assert_eq!(data(part.own["modify"]).1, 8000, "{sizes}");
    }
}
