//! Clippy over the engine's runtime, which `build.rs` compiles outside of cargo
//! (`crates/engine/runtime`), so that `cargo clippy` does not see it. The lints are the workspace's.

use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;

/// Compiles it with `clippy-driver`; warnings are errors.
pub fn check(root: &Path) -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        println!("skipped: clippy of the engine's runtime: it is for x86-64 Linux");
        return Ok(());
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = Command::new(&rustc)
        .args(["--print", "sysroot"])
        .output()
        .context("running rustc")?;
    let sysroot = Path::new(std::str::from_utf8(&sysroot.stdout)?.trim()).to_owned();
    let driver = sysroot.join("bin/clippy-driver");
    if !driver.is_file() {
        println!(
            "skipped: clippy of the engine's runtime: no {}",
            driver.display()
        );
        return Ok(());
    }
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let output =
        std::env::temp_dir().join(format!("truecount-runtime-{}.rmeta", std::process::id()));
    let status = Command::new(&driver)
        .arg(sysroot.join("bin/rustc"))
        .arg("--sysroot")
        .arg(&sysroot)
        .args(["--edition", "2024", "--crate-name", "truecount_runtime"])
        .args([
            "-C",
            "panic=abort",
            "-C",
            "overflow-checks=off",
            "--emit=metadata",
            "-D",
            "warnings",
        ])
        .args(lints(&manifest))
        .arg("-o")
        .arg(&output)
        .arg(root.join("crates/engine/runtime/main.rs"))
        .env("CLIPPY_CONF_DIR", root)
        .status()
        .context("running clippy-driver")?;
    // Not there after an error.
    let _ = std::fs::remove_file(&output);
    if !status.success() {
        bail!("clippy: findings in the engine's runtime");
    }
    Ok(())
}

/// The workspace's lints as arguments, those of low priority first. Lints that ask for documentation
/// are for public items, and a program has none.
fn lints(manifest: &str) -> Vec<String> {
    let mut found: Vec<(i32, [String; 2])> = Vec::new();
    let mut prefix = None;
    for line in manifest.lines() {
        if line.starts_with('[') {
            prefix = match line.trim() {
                "[workspace.lints.rust]" => Some(""),
                "[workspace.lints.clippy]" => Some("clippy::"),
                _ => None,
            };
            continue;
        }
        let (Some(prefix), Some((name, value))) = (prefix, line.split_once('=')) else {
            continue;
        };
        let level = match value.split('"').nth(1) {
            Some("deny" | "forbid") => "-D",
            Some("warn") => "-W",
            _ => continue,
        };
        let priority = value
            .split_once("priority")
            .and_then(|(_, rest)| rest.trim_matches([' ', '=', '}']).parse().ok())
            .unwrap_or(0);
        if name.trim() != "missing_docs" {
            let name = format!("{prefix}{}", name.trim());
            found.push((priority, [level.to_owned(), name]));
        }
    }
    found.sort_by_key(|(priority, _)| *priority);
    found.into_iter().flat_map(|(_, words)| words).collect()
}

#[cfg(test)]
mod tests {
    use super::lints;

    #[test]
    fn groups_come_before_single_lints() {
        let manifest = "[workspace.lints.rust]\nmissing_docs = \"warn\"\nunused = \"deny\"\n\
            [workspace.lints.clippy]\nunwrap_used = \"warn\"\n\
            all = { level = \"warn\", priority = -1 }\nx = \"allow\"\n[other]\ny = \"deny\"\n";
        let words = [
            "-W",
            "clippy::all",
            "-D",
            "unused",
            "-W",
            "clippy::unwrap_used",
        ];
        assert_eq!(lints(manifest), words);
    }
}
