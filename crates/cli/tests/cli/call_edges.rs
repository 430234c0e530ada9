//! `truecount valgrind --tool=callgrind`: who calls whom in the files, and what that cost in all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client_requests::{PLAIN, REQUESTS, requests};
use crate::support::{code, compiled, stderr, stdout, virtual_pmu};
use crate::valgrind::{front, line};

/// Own costs by function, and calls with their cost by caller and callee, of a file without compression.
#[derive(Default, Debug)]
pub(crate) struct Read {
    own: BTreeMap<String, u64>,
    pub(crate) edges: BTreeMap<(String, String), (u64, u64)>,
}

pub(crate) fn read(text: &str) -> Read {
    let mut read = Read::default();
    let (mut function, mut callee) = (String::new(), String::new());
    let mut calls: Option<u64> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name.to_owned();
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("calls=") {
            calls = rest.split(' ').next().and_then(|count| count.parse().ok());
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            let cost: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
            match calls.take() {
                Some(calls) => {
                    let key = (function.clone(), callee.clone());
                    let edge: &mut (u64, u64) = read.edges.entry(key).or_default();
                    *edge = (edge.0 + calls, edge.1 + cost);
                }
                None => *read.own.entry(function.clone()).or_default() += cost,
            }
        }
    }
    read
}

impl Read {
    pub(crate) fn edge(&self, caller: &str, callee: &str) -> (u64, u64) {
        let key = (caller.to_owned(), callee.to_owned());
        let found = self.edges.get(&key);
        *found.unwrap_or_else(|| panic!("{caller} does not call {callee}: {self:?}"))
    }

    /// With all it calls.
    fn inclusive(&self, function: &str) -> u64 {
        let edges = self.edges.iter();
        let below = edges.filter(|((caller, _), _)| caller == function);
        self.own.get(function).copied().unwrap_or(0) + below.map(|(_, (_, cost))| cost).sum::<u64>()
    }
}

/// What a function cost itself in a file, by Callgrind's names without compression.
pub(crate) fn own(text: &str, function: &str) -> u64 {
    read(text).own.get(function).copied().unwrap_or(0)
}

/// No C library: every instruction is known. `_start` has 7, `f` of n 6 n + 3, `g` 2, `leaf` 3.
pub(crate) const TREE: &str = r#"
    .globl _start, f, g, leaf
    .type _start, @function
_start: mov $DEPTH, %edi
    call f
    call g
    call g
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
    .type f, @function
f:  test %edi, %edi
    jz 1f
    dec %edi
    call f
    call leaf
1:  ret
    .size f, . - f
    .type g, @function
g:  call leaf
    jmp leaf
    .size g, . - g
    .type leaf, @function
leaf: nop
    nop
    ret
    .size leaf, . - leaf
    .section .note.GNU-stack, "", @progbits
"#;

/// That program, where `f` begins at a depth.
pub(crate) fn tree(directory: &Path, name: &str, depth: u32) -> Option<PathBuf> {
    let (file, program) = (directory.join(format!("{name}.s")), directory.join(name));
    std::fs::write(&file, TREE.replace("DEPTH", &depth.to_string())).unwrap();
    let made = Command::new("cc")
        .args(["-nostdlib", "-static", "-o"])
        .arg(&program)
        .arg(&file)
        .status();
    let made = made.is_ok_and(|status| status.success());
    if !made {
        truecount_testing::skip!("cc", "no C compiler");
    }
    made.then_some(program)
}

/// Calls have the cost of every event: `ret` loads, `call` stores, `f` has one conditional branch.
#[test]
fn every_edge_has_its_other_events() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let Some(program) = tree(at, "p", 3) else {
        return;
    };
    let events = ["--dump-line=no", "--cache-sim=yes", "--branch-sim=yes"];
    let options = [&PLAIN[..], &events].concat();
    let output = front(at, &options, &[program.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = std::fs::read_to_string(at.join("out")).unwrap();
    let events = "Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim";
    assert_eq!(line(&text, "events:"), events);
    let start = text.split("fn=_start\n").nth(1).unwrap();
    let start = start.split("\n\n").next().unwrap();
    let costs = |line: &str| -> Vec<u64> {
        let words = line.split(' ').skip(1);
        let mut costs: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        costs.resize(events.split(' ').count(), 0);
        costs
    };
    for (callee, calls, expected) in [
        ("f", 1, [30, 7, 6, 4]),
        ("g", 2, [10, 2, 2, 0]),
        ("leaf", 2, [6, 2, 0, 0]),
    ] {
        let edge = format!("cfn={callee}\ncalls={calls} 0\n");
        let line = start.split(&edge).nth(1).unwrap().lines().next().unwrap();
        let costs = costs(line);
        assert_eq!(
            [0, 1, 2, 9].map(|at| costs[at]),
            expected,
            "{callee}: {text}"
        );
    }
    // What `_start` cost itself and what it called is everything, in every column.
    let lines = start.lines();
    let mut sums = vec![0; events.split(' ').count()];
    for costs in lines.filter(|line| line.starts_with("0 ")).map(costs) {
        for (sum, cost) in sums.iter_mut().zip(costs) {
            *sum += cost;
        }
    }
    assert_eq!(
        sums,
        costs(&format!("0 {}", line(&text, "totals:"))),
        "{text}"
    );
    // One line of code, two of the stack at most; the first of each comes from memory.
    assert!((1..=2).contains(&sums[3]) && sums[3] == sums[6], "{text}");
    assert!((1..=3).contains(&(sums[4] + sums[5])), "{text}");
}

#[test]
fn every_edge_has_its_calls_and_its_cost() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let Some(program) = tree(at, "p", 3) else {
        return;
    };
    for option in ["--dump-instr=no", "--dump-instr=yes"] {
        let options = [&PLAIN[..], &["--dump-line=no", option]].concat();
        let output = front(at, &options, &[program.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = std::fs::read_to_string(at.join("out")).unwrap();
        assert_eq!(line(&text, "totals:"), "53");
        let read = read(&text);
        assert_eq!(read.own["_start"], 7);
        assert_eq!(read.edge("_start", "f"), (1, 30));
        // What calls itself is in its own cost, and in its edges to others, once.
        assert_eq!(read.edge("f", "f"), (3, 0));
        assert_eq!(read.edge("f", "leaf"), (3, 9));
        assert_eq!(read.edge("_start", "g"), (2, 10));
        assert_eq!(read.edge("g", "leaf"), (2, 6));
        // A tail call: in the place of `g`.
        assert_eq!(read.edge("_start", "leaf"), (2, 6));
        assert_eq!(read.edges.len(), 6);
        let inclusive = ["_start", "f", "g", "leaf"].map(|name| read.inclusive(name));
        assert_eq!(inclusive, [53, 30, 10, 21]);
    }
}

/// Inclusive costs are those that Valgrind's own reader finds, too.
#[test]
fn inclusive_costs_are_what_is_below() {
    let Some((directory, program)) = requests() else {
        return;
    };
    let at = directory.path();
    assert_eq!(code(&front(at, &PLAIN, &[&program])), 0);
    let text = std::fs::read_to_string(at.join("out")).unwrap();
    let file = read(&text);
    for name in ["main", "rec", "inner", "jumps"] {
        assert!(file.inclusive(name) > 3000, "{name}: {file:?}");
    }
    // Stubs between programs and libraries cost who calls through them.
    let stubs = file.own.iter().filter(|(name, _)| name.ends_with("@plt"));
    assert_eq!(stubs.map(|(_, own)| own).sum::<u64>(), 0, "{file:?}");
    assert_eq!(file.edge("main", "rec").0, 1);
    assert_eq!(file.edge("rec", "rec"), (5, 0));
    assert_eq!(file.edge("rec", "work"), (1, 3003));
    assert_eq!(file.edge("inner", "work"), (1, 3003));
    let Ok(shown) = Command::new("callgrind_annotate")
        .args(["--inclusive=yes", "--threshold=100", "out"])
        .current_dir(at)
        .output()
    else {
        truecount_testing::skip!("valgrind", "no callgrind_annotate");
        return;
    };
    let shown = stdout(&shown).replace(',', "");
    let found = shown
        .lines()
        .find(|line| line.contains(":main [") || line.ends_with(":main"));
    let found = found.unwrap_or_else(|| panic!("{shown}"));
    let theirs: u64 = found.split_whitespace().next().unwrap().parse().unwrap();
    // Binding a function at its first call is its caller's own cost, too.
    let ours = file.inclusive("main");
    assert_eq!(file.own.get("[plt]").copied().unwrap_or(0), 0, "{file:?}");
    assert_eq!(ours, theirs, "{shown}");
}

/// Whoever toggles, the callers above have what was collected, and every call counts once.
#[test]
fn what_is_toggled_has_its_callers() {
    let Some((directory, program)) = requests() else {
        return;
    };
    let at = directory.path();
    let options = [&PLAIN[..], &["--toggle-collect=work"]].concat();
    assert_eq!(code(&front(at, &options, &[&program])), 0);
    let text = std::fs::read_to_string(at.join("out")).unwrap();
    let total: u64 = line(&text, "totals:").parse().unwrap();
    assert_eq!(total, 4 * 3003);
    let file = read(&text);
    assert_eq!(file.edge("main", "work"), (1, 3003));
    assert_eq!(file.edge("rec", "work"), (1, 3003));
    assert_eq!(file.edge("inner", "work"), (1, 3003));
    assert_eq!(file.edge("jumps", "work"), (1, 3003));
    assert_eq!(file.edge("main", "inner"), (1, 3003));
    assert_eq!(file.edge("main", "rec"), (1, 3003));
    assert_eq!(file.inclusive("main"), total);
    // By requests in the middle of `main`, and in parts: what is stopped, or dropped, is in none.
    assert_eq!(code(&front(at, &PLAIN, &[&program, "1"])), 0);
    let part = |name: &str| read(&std::fs::read_to_string(at.join(name)).unwrap());
    let (first, last) = (part("out.1"), part("out"));
    assert_eq!(first.edge("main", "work"), (1, 3003));
    assert!(
        !part("out.2")
            .edges
            .contains_key(&("main".into(), "work".into()))
    );
    assert_eq!(last.edge("rec", "work"), (1, 3003));
    assert!(!last.edges.contains_key(&("main".into(), "work".into())));
}

/// A child's parts are its own, whatever its parent has ended before.
#[test]
fn a_child_begins_its_own_parts() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (head, _) = REQUESTS.split_once("int main").unwrap();
    let source = format!(
        "#include <unistd.h>\n#include <sys/wait.h>\n{head}
int main(void) {{ ask(CT(0), 0); ask(CT(0), 0); work(1000);
  if (!fork()) {{ work(2000); ask(CT(3), (long)\"child\"); work(3000); _exit(0); }}
  wait(0); return 0; }}"
    );
    let Some(program) = compiled(at, &source) else {
        return;
    };
    let options: Vec<&str> = PLAIN
        .iter()
        .map(|&word| match word {
            "--callgrind-out-file=out" => "--callgrind-out-file=out.%p",
            other => other,
        })
        .collect();
    let output = front(at, &options, &[program.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let mut works: Vec<(String, u64)> = std::fs::read_dir(at)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?.strip_prefix("out.")?.to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            Some((line(&text, "desc: Trigger:").to_owned(), own(&text, "work")))
                .filter(|_| !name.is_empty())
        })
        .collect();
    works.sort();
    let expected = [
        ("Client Request", 0),
        ("Client Request", 0),
        ("Client Request: child", 6003),
        ("Program termination", 3003),
        ("Program termination", 9003),
    ];
    assert_eq!(works, expected.map(|(name, cost)| (name.to_owned(), cost)));
}
