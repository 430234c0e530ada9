//! The simulators against an independent one (`simulator.py`) on the same trace.

#![allow(clippy::unwrap_used)] // helpers of tests; a failure is the test's

use std::io::Write as _;
use std::process::Command;
use truecount_memory::{
    Beside, Branches, By, Caches, Kind, Machine, Predictor, Prefetch, Reference,
};

/// A generator with a fixed beginning (Steele, Lea, Flood: SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// One reference or branch: address, size or outcome or target, what (0 to 5, as `simulator.py` names them), the
/// instruction that references data.
type Event = (u64, u64, u64, u64);

/// Loops over arrays with several strides, random places in heaps of three sizes, a stack, code with loops.
fn trace(count: usize) -> Vec<Event> {
    let mut numbers = Numbers(1);
    let mut events = Vec::with_capacity(count);
    let (mut code, mut stream) = (0x40_0000u64, 0x7f00_0000_0000u64);
    // Walks through memory, each by one instruction with its own stride, now and then from elsewhere.
    let mut walks =
        [8u64, 24, 64, 200, 1024, 5000].map(|stride| (0x3000_0000_0000 + (stride << 32), stride));
    walks[1].1 = 24u64.wrapping_neg();
    walks[4].1 = 1024u64.wrapping_neg();
    let (mut loops, mut left) = (0u64, 0u64);
    while events.len() < count {
        let length = 1 + numbers.below(15);
        events.push((code, length, 0, 0));
        code += length;
        let sizes = [1, 2, 4, 8, 8, 8, 16, 32, 64, 108, 512];
        let size = sizes[numbers.below(sizes.len() as u64) as usize];
        let kind = 1 + numbers.below(3);
        match numbers.below(8) {
            0 => events.push((0x60_0000 + numbers.below(16 << 10), size, kind, code % 1000)),
            1 => events.push((
                0x1000_0000 + numbers.below(1 << 20),
                size,
                kind,
                code % 1000,
            )),
            2 => events.push((
                0x2000_0000 + numbers.below(1 << 26),
                size,
                kind,
                code % 1000,
            )),
            3 | 4 => {
                events.push((stream, size, kind, 0x5000));
                stream += [8, 64, 72, 4096][numbers.below(4) as usize];
                if numbers.below(1000) == 0 {
                    stream = 0x7f00_0000_0000 + numbers.below(1 << 30);
                }
            }
            // A loop that goes seven times round, and what depends on whether it goes on.
            5 if numbers.below(2) == 0 => {
                left = if left == 0 { 6 } else { left - 1 };
                loops += 1;
                events.push((0x40_1000, u64::from(left != 0), 4, 0));
                events.push((0x40_1010, u64::from(left % 2 == 0), 4, 0));
                events.push((0x40_1020, loops % 2, 4, 0));
            }
            5 => {
                let taken = u64::from(numbers.below(5) != 0);
                events.push((code, taken, 4, 0));
                if taken == 1 {
                    code -= code.min(numbers.below(4000)).min(code - 0x40_0000);
                }
            }
            6 if numbers.below(4) == 0 => {
                let target = 0x40_0000 + 64 * numbers.below(1 << 12);
                events.push((code, target, 5, 0));
                code = target;
            }
            7 => {
                let number = numbers.below(6);
                let walk = &mut walks[number as usize];
                // (A multiple of 256 apart from another one: they take each other's place.)
                events.push((walk.0, size, kind, 0x6000 + number / 5 * 256 + number % 5));
                walk.0 = match numbers.below(200) {
                    0 => 0x3000_0000_0000 + (numbers.below(1 << 24) << 8),
                    _ => walk.0.wrapping_add(walk.1),
                };
            }
            _ => {}
        }
    }
    events.truncate(count);
    events
}

fn count(machine: &Machine, beside: &Beside, events: &[Event]) -> String {
    let mut caches = Caches::with(machine, beside);
    let mut branches = Branches::with(beside.predictor);
    let mut modified = truecount_memory::Misses::default();
    for &(address, value, what, pc) in events {
        let kind = match what {
            0 => {
                caches.fetch(address, value as u32);
                continue;
            }
            1 => Kind::Load,
            2 => Kind::Store,
            3 => Kind::Modify,
            4 => {
                branches.conditional(address, value != 0);
                continue;
            }
            _ => {
                branches.indirect(address, value);
                continue;
            }
        };
        let before = caches.reads;
        let reference = Reference {
            address,
            size: value as u32,
            kind,
        };
        caches.data(reference, By { pc, operand: 0 });
        if kind == Kind::Modify {
            // What modifies counts as a read; the other simulator tells it apart.
            modified.references += caches.reads.references - before.references;
            modified.first += caches.reads.first - before.first;
            modified.last += caches.reads.last - before.last;
        }
    }
    let row = |name: &str, a: u64, b: u64, c: u64| format!("{name} {a} {b} {c}\n");
    let (i, r, w) = (caches.instructions, caches.reads, caches.writes);
    [
        row("fetch", i.references, i.first, i.last),
        row(
            "load",
            r.references - modified.references,
            r.first - modified.first,
            r.last - modified.last,
        ),
        row("store", w.references, w.first, w.last),
        row("modify", modified.references, modified.first, modified.last),
        row(
            "conditional",
            branches.conditional.branches,
            branches.conditional.wrong,
            0,
        ),
        row(
            "indirect",
            branches.indirect.branches,
            branches.indirect.wrong,
            0,
        ),
        match *beside == Beside::default() {
            true => String::new(),
            false => {
                let misses = caches.beside;
                let (l2, prefetched) = (misses.l2_data, misses.prefetched);
                format!(
                    "{} {l2} {} {} {prefetched} {}\n",
                    misses.l2_instructions, misses.tlb, misses.itlb, misses.prefetched_memory
                )
            }
        },
    ]
    .concat()
}

/// `TRUECOUNT_REFERENCES=10000000` makes the trace longer.
#[test]
fn misses_and_predictions_equal_an_independent_simulators() {
    if Command::new("python3").arg("--version").output().is_err() {
        truecount_testing::skip("python", "there is no python3");
        return;
    }
    let wanted = std::env::var("TRUECOUNT_REFERENCES");
    let wanted = wanted.ok().and_then(|n| n.parse().ok()).unwrap_or(400_000);
    let events = trace(wanted);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
    for (address, value, what, by) in &events {
        for word in [address, value, what, by] {
            out.write_all(&word.to_le_bytes()).unwrap();
        }
    }
    out.into_inner().unwrap();
    let small = Machine {
        i1: "1024,1,32".parse().unwrap(),
        d1: "3072,3,64".parse().unwrap(),
        ll: "65536,4,128".parse().unwrap(),
    };
    let beside = Beside {
        l2: Some("262144,4,64".parse().unwrap()),
        // 64 pages.
        tlb: Some("262144,4,4096".parse().unwrap()),
        itlb: Some("65536,16,4096".parse().unwrap()),
        ..Beside::default()
    };
    let tlb = Beside { l2: None, ..beside };
    let l2 = Beside {
        l2: Some("16384,2,32".parse().unwrap()),
        ..Beside::default()
    };
    let next_line = Beside {
        prefetch: Prefetch::NextLine,
        ..Beside::default()
    };
    let stride = Beside {
        prefetch: Prefetch::Stride,
        predictor: Predictor::Tage,
        ..beside
    };
    let small_stride = Beside {
        prefetch: Prefetch::Stride,
        ..l2
    };
    // Other lines go than the least recently used ones, in each level.
    let policies = |i1: &str, d1: &str, ll: &str| Machine {
        i1: format!("4096,4,64,{i1}").parse().unwrap(),
        d1: format!("49152,12,64,{d1}").parse().unwrap(),
        ll: format!("1048576,16,64,{ll}").parse().unwrap(),
    };
    let random_l2 = Beside {
        l2: Some("16384,2,32,random".parse().unwrap()),
        prefetch: Prefetch::NextLine,
        ..Beside::default()
    };
    let machines = [
        (policies("fifo", "plru", "random"), Beside::default()),
        (policies("plru", "fifo", "lru"), random_l2),
        (policies("random", "random", "plru"), Beside::default()),
        (Machine::FIXED, Beside::default()),
        (small, Beside::default()),
        (Machine::FIXED, beside),
        (small, l2),
        (small, tlb),
        (Machine::FIXED, next_line),
        (Machine::FIXED, stride),
        (small, small_stride),
    ];
    for (machine, beside) in machines {
        let run = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simulator.py"))
            .arg(&file)
            .args([machine.i1, machine.d1, machine.ll].map(|geometry| geometry.to_string()))
            .args(
                [beside.l2, beside.tlb, beside.itlb]
                    .map(|one| one.map_or_else(String::new, |one| one.to_string())),
            )
            .args([beside.prefetch.to_string(), beside.predictor.to_string()])
            .output()
            .unwrap();
        assert!(
            run.status.success(),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
        let expected = String::from_utf8(run.stdout).unwrap();
        assert!(expected.contains("fetch "), "{expected}");
        if beside.prefetch != Prefetch::None && beside.tlb.is_some() {
            let last = expected.lines().last().unwrap_or("");
            assert!(
                last.split(' ').all(|word| word != "0"),
                "all is met: {last}"
            );
        }
        assert_eq!(
            count(&machine, &beside, &events),
            expected,
            "{machine:?} {beside:?}"
        );
    }
}
