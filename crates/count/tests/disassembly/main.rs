//! How many instructions an inlined read is: builds `probes.rs` in release mode, as a program of its own that depends on
//! this library, runs it (it prints its own machine code) and disassembles what it printed.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, Mnemonic,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes the package, with the workspace's locked versions, and gives its directory.
fn package() -> PathBuf {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("probes");
    fs::create_dir_all(directory.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = \"probes\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\ntruecount = {{ path = {library:?} }}\n\n[profile.release]\ncodegen-units = 1\n"
    );
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    fs::write(directory.join("src/main.rs"), include_str!("probes.rs")).unwrap();
    fs::copy(
        library.join("../../Cargo.lock"),
        directory.join("Cargo.lock"),
    )
    .unwrap();
    directory
}

/// The probes' instructions up to and without `ret`.
fn probes() -> Option<BTreeMap<String, Vec<Instruction>>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    if !Path::new(&cargo).exists() {
        truecount_testing::skip!(
            "rustc",
            "cargo is not here (the tests run on another machine than they were built on)"
        );
        return None;
    }
    let run = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "--release",
            "--offline",
            "--target-dir",
            "target",
        ])
        .current_dir(package())
        .env_remove("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let mut found = BTreeMap::new();
    for line in String::from_utf8(run.stdout).unwrap().lines() {
        let (name, hex) = line.split_once(' ').unwrap();
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
            .collect();
        let code: Vec<Instruction> = Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE)
            .into_iter()
            .take_while(|i| i.flow_control() != FlowControl::Return)
            .collect();
        assert!(
            code.iter().all(|i| i.code() != Code::INVALID),
            "{name}: no return in {} bytes",
            bytes.len()
        );
        found.insert(name.to_owned(), code);
    }
    Some(found)
}

fn text(code: &[Instruction]) -> String {
    let mut formatter = GasFormatter::new();
    let mut all = String::new();
    for instruction in code {
        formatter.format(instruction, &mut all);
        all.push('\n');
    }
    all
}

fn count(code: &[Instruction], mnemonic: Mnemonic) -> usize {
    code.iter().filter(|i| i.mnemonic() == mnemonic).count()
}

#[test]
fn reads_are_a_few_instructions() {
    let Some(probes) = probes() else { return };
    assert_eq!(probes.len(), 8);
    for (name, code) in &probes {
        let limit = match name.as_str() {
            "single_unordered" => 5,
            // What the library promises for its default policy.
            "single_fence" => 6,
            "difference_fence" => 13,
            // The promise for a difference leaves room; this is what it is, the load of the state's address and the
            // result's move included.
            "difference_unordered" => 12,
            // One more than with a fence at most; saving rbx around cpuid costs three and an index register one.
            "single_serialize" => 6,
            "difference_serialize" => 16,
            "single_cpuid" => 10,
            "difference_cpuid" => 19,
            other => panic!("unknown probe {other}"),
        };
        println!("{name}: {} instructions\n{}", code.len(), text(code));
        assert!(
            code.len() <= limit,
            "{name}: {} instructions, at most {limit}:\n{}",
            code.len(),
            text(code)
        );
        let registers = if name.starts_with("single") { 1 } else { 2 };
        assert_eq!(count(code, Mnemonic::Rdpmc), registers, "{name}");
        assert_eq!(count(code, Mnemonic::Call), 0, "{name}");
        assert_eq!(
            count(code, Mnemonic::Lfence),
            usize::from(name.ends_with("fence")),
            "{name}"
        );
        // One branch only, to the part out of line, and only for a difference.
        let branches = code
            .iter()
            .filter(|i| i.flow_control() != FlowControl::Next)
            .count();
        assert_eq!(branches, registers - 1, "{name}");
    }
    // The fence stands directly before the load of the index and the read: nothing measured slips behind it.
    let fenced = &probes["difference_fence"];
    let fence = fenced
        .iter()
        .position(|i| i.mnemonic() == Mnemonic::Lfence)
        .unwrap();
    let read = fenced
        .iter()
        .position(|i| i.mnemonic() == Mnemonic::Rdpmc)
        .unwrap();
    assert_eq!(read - fence, 2);
}
