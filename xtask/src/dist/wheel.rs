//! Python's wheel: the module and the program, by maturin. It is made where maturin is; where the compiler of
//! `pip install ziglang` is, too, it is for every glibc from 2.17 on, and for the other architecture as well.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::{Arch, build};

/// The wheel for `arch` in `out`, or why there is none. `program` goes in.
pub(super) fn wheel(
    root: &Path,
    out: &Path,
    arch: Arch,
    program: &Path,
    time: u64,
) -> Result<Result<PathBuf, String>> {
    let works = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null());
        let status = command.stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if !works("maturin", &["--version"]) {
        return Ok(Err("no maturin (pip install maturin ziglang)".to_owned()));
    }
    if arch != build::host()? && !works("python3", &["-c", "import ziglang"]) {
        return Ok(Err("no compiler for it (pip install ziglang)".to_owned()));
    }
    let target = format!("{}-unknown-linux-gnu", arch.name());
    if !build::has_library(&target) {
        return Ok(Err(format!(
            "Rust's library for it is missing (rustup target add {target})"
        )));
    }
    // Alone in a directory: maturin names the file.
    let made = out.join(format!(".wheel-{}", arch.name()));
    let _ = std::fs::remove_dir_all(&made);
    let status = Command::new(root.join("bindings/python/wheel.sh"))
        .arg("--command")
        .arg(program)
        .arg("--out")
        .arg(&made)
        .args(["--target", &target])
        .env("SOURCE_DATE_EPOCH", time.to_string())
        .env("RUSTFLAGS", build::unnamed_paths(root))
        .status()
        .context("cannot start bindings/python/wheel.sh")?;
    if !status.success() {
        bail!("bindings/python/wheel.sh failed for {}", arch.name());
    }
    let mut found = std::fs::read_dir(&made)?.filter_map(|entry| Some(entry.ok()?.path()));
    let built = found.next().context("maturin made no wheel")?;
    let name = built.file_name().context("a wheel has a name")?;
    let path = out.join(name);
    std::fs::rename(&built, &path).with_context(|| format!("cannot write {}", path.display()))?;
    std::fs::remove_dir(&made)?;
    Ok(Ok(path))
}
