//! The program itself, and the pages that it prints of itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Arch, Entry};

/// This machine's architecture.
pub(super) fn host() -> Result<Arch> {
    let here = std::env::consts::ARCH;
    Arch::ALL
        .into_iter()
        .find(|arch| arch.name() == here)
        .with_context(|| format!("packages are made on x86_64 and aarch64, not on {here}"))
}

/// What the store of history does not use of SQLite: searched text, r-trees, statistics of its pages.
const WITHOUT: [&str; 8] = [
    "-USQLITE_ENABLE_FTS3",
    "-USQLITE_ENABLE_FTS3_PARENTHESIS",
    "-USQLITE_ENABLE_FTS5",
    "-USQLITE_ENABLE_RTREE",
    "-USQLITE_ENABLE_DBSTAT_VTAB",
    "-USQLITE_SOUNDEX",
    "-USQLITE_ENABLE_STAT4",
    "-DSQLITE_OMIT_LOAD_EXTENSION",
];

/// What makes the linker's result small: functions with the same code are one (most of them are types' destructors), and
/// relocations take bits. Both are lld's, which comes with Rust; only later Rusts take it unasked.
fn linking(through_compiler: bool) -> Result<String> {
    const SMALL: [&str; 2] = ["--icf=all", "--pack-dyn-relocs=relr"];
    if !through_compiler {
        return Ok(SMALL.map(|flag| format!("-Clink-arg={flag}")).join(" "));
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output();
    let output = output.context("cannot start rustc")?;
    let sysroot = String::from_utf8_lossy(&output.stdout);
    let of_rust = format!(
        "{}/lib/rustlib/{}-unknown-linux-gnu/bin/gcc-ld",
        sysroot.trim_end(),
        std::env::consts::ARCH
    );
    if !Path::new(&of_rust).is_dir() {
        bail!("Rust's own linker is not in {of_rust}: install Rust with rustup");
    }
    let flags = SMALL.map(|flag| format!("-Clink-arg=-Wl,{flag}")).join(" ");
    Ok(format!(
        "-Clink-arg=-B{of_rust} -Clink-arg=-fuse-ld=lld {flags}"
    ))
}

/// Flags that keep paths of this machine out: the same bytes wherever the sources lie.
pub(super) fn unnamed_paths(root: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo"),
        PathBuf::from,
    );
    format!(
        "--remap-path-prefix={}=/truecount --remap-path-prefix={}=/cargo",
        root.display(),
        home.display()
    )
}

/// Whether Rust's library for `target` is installed.
pub(super) fn has_library(target: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", target])
        .output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// Builds the program for `arch`, static: it runs with every C library, and with none.
pub(super) fn program(root: &Path, arch: Arch) -> Result<PathBuf> {
    let own = host()? == arch;
    // Another architecture's C library comes with Rust's target.
    let library = if own { "gnu" } else { "musl" };
    let target = format!("{}-unknown-linux-{library}", arch.name());
    let flags = format!(
        "-Ctarget-feature=+crt-static {} {}",
        unnamed_paths(root),
        linking(own)?
    );
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root)
        .args(["build", "--locked", "--profile", "dist"])
        .args(["--package", "truecount-cli", "--bin", "truecount"])
        .args(["--target", &target])
        .env("RUSTFLAGS", flags)
        .env("LIBSQLITE3_FLAGS", WITHOUT.join(" "));
    if !own {
        let variable = target.to_uppercase().replace('-', "_");
        command.env(format!("CARGO_TARGET_{variable}_LINKER"), "rust-lld");
        // SQLite is C: Debian's cross compiler has the headers, and musl, which comes with Rust's target, the functions
        // (all of them for large files, under their plain names).
        let (compiler, flags) = (format!("CC_{target}"), format!("CFLAGS_{target}"));
        if std::env::var_os(&compiler).is_none() {
            command
                .env(compiler, format!("{}-linux-gnu-gcc", arch.name()))
                .env(
                    flags,
                    "-mno-outline-atomics -U_FORTIFY_SOURCE -DSQLITE_DISABLE_LFS",
                );
        }
    }
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!(
            "cargo build failed for {target} (is it installed? rustup target add {target}; it needs a C compiler, too: \
             Debian's gcc-{}-linux-gnu, or CC_{target}); --arch {} makes packages for this machine only",
            arch.name().replace('_', "-"),
            host()?.name()
        );
    }
    let target_directory = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root
        .join(target_directory)
        .join(target)
        .join("dist/truecount"))
}

/// What the program prints of itself: manual pages and completions, with their places.
pub(super) fn pages(program: &Path) -> Result<Vec<Entry>> {
    let print = |arguments: &[&str]| -> Result<Vec<u8>> {
        let output = Command::new(program).args(arguments).output();
        let output = output.with_context(|| format!("cannot start {}", program.display()))?;
        if !output.status.success() || output.stdout.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{} {}: {said}", program.display(), arguments.join(" "));
        }
        Ok(output.stdout)
    };
    let mut pages = vec![
        Entry::new("share/man/man1/truecount.1", print(&["man"])?),
        Entry::new(
            "share/bash-completion/completions/truecount",
            print(&["completions", "bash"])?,
        ),
        Entry::new(
            "share/zsh/site-functions/_truecount",
            print(&["completions", "zsh"])?,
        ),
        Entry::new(
            "share/fish/vendor_completions.d/truecount.fish",
            print(&["completions", "fish"])?,
        ),
    ];
    // Subcommands, and those below them (`history add`).
    let mut open = vec![Vec::<String>::new()];
    while let Some(above) = open.pop() {
        let mut help: Vec<&str> = above.iter().map(String::as_str).collect();
        help.push("--help");
        for name in subcommands(&String::from_utf8_lossy(&print(&help)?)) {
            let page = [&above[..], &[name]].concat();
            let mut line = vec!["man"];
            line.extend(page.iter().map(String::as_str));
            let path = format!("share/man/man1/truecount-{}.1", page.join("-"));
            pages.push(Entry::new(&path, print(&line)?));
            open.push(page);
        }
    }
    Ok(pages)
}

/// The names below `Commands:` in a help text.
pub(super) fn subcommands(help: &str) -> Vec<String> {
    let below = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"));
    below
        .skip(1)
        .take_while(|line| !line.is_empty() && line.starts_with(' '))
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// All files of a package.
pub(super) fn entries(root: &Path, program: &Path, pages: &[Entry]) -> Result<Vec<Entry>> {
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut entries = pages.to_vec();
    entries.push(Entry::program("bin/truecount", read(program)?));
    for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        let path = format!("share/doc/truecount/{name}");
        entries.push(Entry::new(&path, read(&root.join(name))?));
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}
