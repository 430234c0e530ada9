//! Programs in C, C++ and Go for a rig. C and C++: linked with the static library, by the host's compiler, or for Arm by
//! clang with the C library that comes with rustc's target. Go: its own linker's static programs.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{Builder, toolchain_tool};
use super::plan::{Arch, Program};

/// Builds a program; the inner error says why this machine cannot.
pub fn built(builder: &Builder, program: &Program) -> Result<Result<PathBuf, String>> {
    let source = builder.root().join(program.source);
    if program.source.ends_with(".go") {
        return in_go(builder, program, &source);
    }
    let cpp = program.source.ends_with(".cpp");
    let arm = builder.arch() == Arch::Arm64;
    if arm && cpp {
        return Ok(Err("no C++ library for Arm here".to_owned()));
    }
    let compiler = match (arm, cpp) {
        (true, _) => "clang",
        (false, true) => "c++",
        (false, false) => "cc",
    };
    let works = Command::new(compiler).arg("--version").output();
    if !works.is_ok_and(|works| works.status.success()) {
        return Ok(Err(format!("no {compiler}")));
    }
    let archive = builder.archive("truecount-capi", "libtruecount_c.a")?;
    let directory = archive.parent().context("a library without a directory")?;
    let out = directory.join(program.variable.to_lowercase());
    let include = builder.root().join("crates/capi/include");
    if arm {
        return for_arm(&source, &include, &archive, &out);
    }
    let mut command = Command::new(compiler);
    command
        .arg("-O2")
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&out);
    command.arg(&source).arg(&archive).arg("-static-libgcc");
    if cpp {
        command.arg("-static-libstdc++");
    }
    // In the guest nothing is looked up at the first call, and there are not all libraries.
    command.args([
        "-s",
        "-Wl,-z,now",
        "-pthread",
        "-lutil",
        "-lrt",
        "-lm",
        "-ldl",
    ]);
    Ok(run(&mut command).map(|()| out))
}

fn for_arm(
    source: &Path,
    include: &Path,
    archive: &Path,
    out: &Path,
) -> Result<Result<PathBuf, String>> {
    let target = Arch::Arm64.target().context("no target for Arm")?;
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .output()
        .context("cannot start rustc")?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&libraries.stdout).trim());
    let own = |file: &str| OsString::from(libraries.join("self-contained").join(file));
    let Some(linker) = toolchain_tool("rust-lld") else {
        return Ok(Err("no rust-lld".to_owned()));
    };
    let object = out.with_extension("o");
    let mut clang = Command::new("clang");
    clang.args(["--target=aarch64-linux-musl", "-O2", "-ffreestanding"]);
    clang.args(["-nostdlibinc", "-c", "-I"]).arg(include);
    clang.arg("-o").arg(&object).arg(source);
    if let Err(why) = run(&mut clang) {
        return Ok(Err(why));
    }
    let mut lld = Command::new(linker);
    lld.args(["-flavor", "gnu", "-static", "--gc-sections", "-s", "-o"]);
    lld.arg(out).args([own("crt1.o"), own("crti.o")]);
    lld.arg(object).arg(archive);
    lld.args([own("libunwind.a"), own("libc.a"), own("crtn.o")]);
    Ok(run(&mut lld).map(|()| out.to_path_buf()))
}

/// A module of somebody else's, which has the Go module by `replace`.
fn in_go(builder: &Builder, program: &Program, source: &Path) -> Result<Result<PathBuf, String>> {
    let works = Command::new("go").arg("version").output();
    if !works.is_ok_and(|works| works.status.success()) {
        return Ok(Err("no go".to_owned()));
    }
    let name = program.variable.to_lowercase();
    let directory = builder
        .target_directory()?
        .join(format!("vm-test-{name}-{}", builder.arch().name()));
    std::fs::create_dir_all(&directory).context("cannot make a directory for Go's program")?;
    let module = builder.root().join("bindings/go").canonicalize()?;
    let text = format!(
        "module example\n\ngo 1.21\n\nrequire truecount v0.0.0\n\nreplace truecount => {}\n",
        module.display()
    );
    std::fs::write(directory.join("go.mod"), text)?;
    std::fs::copy(source, directory.join("main.go"))?;
    let out = directory.join(&name);
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-ldflags=-s -w", "-o"]);
    go.arg(&out).arg(".").current_dir(&directory);
    go.envs([("GOFLAGS", "-mod=mod"), ("GOPROXY", "off")]);
    go.envs([("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0")]);
    go.envs([("GOOS", "linux"), ("GOARCH", builder.arch().go())]);
    Ok(run(&mut go).map(|()| out))
}

/// Runs a compiler; the error is what it said.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
