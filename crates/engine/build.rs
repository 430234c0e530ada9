//! Compiles the runtime that lives in the target (`runtime/main.rs`) with
//! `rustc` directly: no dependencies, no second cargo, one freestanding ELF
//! image that the library carries. On other targets an empty image says that
//! the engine is not available.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    for path in [
        "build.rs",
        "runtime",
        "src/xlate",
        "src/pmu",
        "src/schedule",
        "src/syscall_table",
        "src/calls.rs",
        "src/heap.rs",
        "src/inputs.rs",
        "src/layout.rs",
        "src/option.rs",
        "src/regions.rs",
        "src/limits.rs",
        "src/log.rs",
        "src/shown.rs",
        "src/snapshot.rs",
    ] {
        println!("cargo:rerun-if-changed={path}");
    }
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let image = PathBuf::from(variable("OUT_DIR")).join("runtime.elf");
    let supported = variable("CARGO_CFG_TARGET_ARCH") == "x86_64"
        && variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_POINTER_WIDTH") == "64";
    if !supported {
        if let Err(error) = std::fs::write(&image, b"") {
            fail(&format!("{}: {error}", image.display()));
        }
        return;
    }
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let script = root.join("runtime/link.ld");
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args(["--edition", "2024", "--crate-name", "truecount_runtime"])
        .args(["--target", &variable("TARGET")])
        .args([
            "-C",
            "panic=abort",
            "-C",
            "opt-level=3",
            "-C",
            "codegen-units=1",
        ])
        .args(["-C", "relocation-model=pic", "-C", "overflow-checks=off"])
        .args(["-C", "force-unwind-tables=no", "-C", "strip=symbols"]);
    // Messages name files: the same bytes wherever the sources lie.
    rustc.arg(format!(
        "--remap-path-prefix={}=crates/engine",
        root.display()
    ));
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        // Rust's own start files and C library for this target.
        rustc.args(["-C", "link-self-contained=no"]);
    }
    for argument in ["-nostdlib", "-nostartfiles", "-static", "-no-pie"] {
        rustc.args(["-C", &format!("link-arg={argument}")]);
    }
    rustc
        .args(["-C", &format!("link-arg=-Wl,-T,{}", script.display())])
        .args([
            "-C",
            "link-arg=-Wl,--build-id=none,-z,norelro,-z,noexecstack",
        ])
        .arg("-o")
        .arg(&image)
        .arg(root.join("runtime/main.rs"));
    match rustc.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("compiling the engine's runtime: {status}")),
        Err(error) => fail(&format!("running rustc for the engine's runtime: {error}")),
    }
}

fn fail(message: &str) -> ! {
    println!("cargo:warning={message}");
    std::process::exit(1)
}
