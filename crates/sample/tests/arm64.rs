//! A compiled aarch64 object, decoded as `llvm-objdump` decodes it.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use truecount_sample::code::Isa;
use truecount_sample::elf::Elf;

const PROGRAM: &str = "
#![no_std]
#[no_mangle]
pub fn sum(values: &[u64], divisor: u64) -> u64 {
    let mut sum = 0u64;
    for v in values {
        if *v & 8 != 0 {
            sum = sum.wrapping_add(*v / divisor.max(1));
        }
    }
    sum
}
#[no_mangle]
pub fn norm(values: &mut [f64]) -> f64 {
    let sum: f64 = values.iter().map(|v| v * v).sum();
    for v in values.iter_mut() {
        *v /= sum;
    }
    sum
}
#[no_mangle]
pub fn call(f: fn(u32) -> u32, text: &str) -> u32 {
    text.bytes().map(|b| f(u32::from(b.leading_zeros() as u8) << 3)).fold(7, |a, b| a.rotate_left(5) ^ b)
}
";

/// Without what differs by taste: remarks, symbols, decimal or hexadecimal numbers, blanks.
fn plain(text: &str) -> String {
    let text = text.split("//").next().unwrap_or_default();
    let text = text.split('<').next().unwrap_or_default();
    let words = text.split_whitespace().map(|word| {
        let number = word
            .trim_start_matches(['#', '['])
            .trim_end_matches([',', ']', '!']);
        let (sign, digits) = match number.strip_prefix('-') {
            Some(digits) => (-1i128, digits),
            None => (1, number),
        };
        let value = match digits.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        match value {
            // As 64 bits.
            Ok(value) if word.contains('#') => {
                word.replace(number, &format!("{:#x}", (sign * value) as u64))
            }
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_compiled_object_reads_as_in_llvm_objdump() {
    let directory = std::env::temp_dir().join(format!("truecount-arm64-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (source, object) = (directory.join("code.rs"), directory.join("code.o"));
    std::fs::write(&source, PROGRAM).unwrap();
    let built = Command::new("rustc")
        .args([
            "--target",
            "aarch64-unknown-linux-musl",
            "--edition=2021",
            "-O",
        ])
        .args(["-Ccodegen-units=1", "--crate-type=lib", "--emit=obj", "-o"])
        .args([&object, &source])
        .output();
    let listed = Command::new("llvm-objdump")
        .args(["-d", "--no-show-raw-insn", "--print-imm-hex"])
        .arg(&object)
        .output();
    let listed = match (built, listed) {
        (Ok(built), Ok(listed)) if built.status.success() && listed.status.success() => listed,
        (built, listed) => {
            truecount_testing::skip!("arm64-tools", "{built:?} {listed:?}");
            return;
        }
    };
    let elf = Elf::open(&object).unwrap().unwrap();
    let isa = Isa::of_machine(elf.machine).unwrap();
    assert_eq!(isa, Isa::Aarch64);
    let (mut compared, mut different) = (0, Vec::new());
    let mut section = String::new();
    let mut ours = std::collections::BTreeMap::new();
    for line in String::from_utf8(listed.stdout).unwrap().lines() {
        if let Some(name) = line.strip_prefix("Disassembly of section ") {
            section = name.trim_end_matches(':').to_owned();
            let (address, bytes) = elf.section(&section).unwrap();
            ours = isa
                .listing(bytes, address)
                .map(|i| (i.address, i.text))
                .collect();
            continue;
        }
        let Some((address, theirs)) = line.split_once(':') else {
            continue;
        };
        let Ok(address) = u64::from_str_radix(address.trim(), 16) else {
            continue;
        };
        let mine = ours
            .get(&address)
            .unwrap_or_else(|| panic!("nothing at {address:#x} of {section}"));
        let (mine, theirs) = (plain(mine), plain(theirs));
        // A lane to all lanes: yaxpeax-arm gives it the name of the copy of one lane.
        let other_name = theirs.strip_prefix("dup") == mine.strip_prefix("mov");
        if mine != theirs && !other_name {
            different.push(format!("{address:#x} of {section}: {mine} | {theirs}"));
        }
        compared += 1;
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(compared > 60, "{compared}");
    let _ = std::fs::remove_dir_all(&directory);
}
