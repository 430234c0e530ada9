//! `cargo xtask dist`: everything that people install truecount from, made from this tree.
//!
//! One static program an architecture, with its manual pages and completions, goes into a tarball, a Debian package, an
//! RPM, an npm package, Python's wheel and an OCI image; `SHA256SUMS` and a list of what is inside (SPDX) stand beside them, and the
//! Homebrew formula and the Nix expression with the sums in them. Archives have no time of their own: the same sources
//! and compiler give the same bytes (`SOURCE_DATE_EPOCH`, else the time of the last commit).

mod archive;
mod build;
mod deb;
mod formulas;
mod image;
mod sbom;
mod wheel;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

const USAGE: &str = "\
usage: cargo xtask dist [--arch x86_64|aarch64]… [--out DIRECTORY] [--program FILE]
  --arch ARCH      only for this architecture (default: both that can be built here)
  --out DIRECTORY  where the packages go (default: target/packages)
  --program FILE   packs this program (with one --arch) instead of building one";

/// The first line of every package's description.
const SUMMARY: &str = "What code costs in the CPU's own counters, exactly";

const DESCRIPTION: &str = "Counts instructions, branches, loads and more of unmodified programs: with the CPU's \
performance counters where there are any, and exactly, with a virtual PMU, where there are none. Compares commands, \
gates changes in CI, and explains what makes runs differ.";

/// The tarball's name without `.tar.gz`, and the directory that it holds.
fn stem(version: &str, arch: Arch) -> String {
    format!("truecount-{version}-{}-linux", arch.name())
}

/// An architecture, by the names that each packager has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arch {
    X86,
    Arm,
}

impl Arch {
    const ALL: [Self; 2] = [Self::X86, Self::Arm];

    /// As the kernel, RPM and tarballs call it.
    fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// As Debian and OCI call it.
    fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// As Node calls it.
    fn node(self) -> &'static str {
        match self {
            Self::X86 => "x64",
            Self::Arm => "arm64",
        }
    }
}

/// One file of a package, below its prefix (`bin/truecount`).
#[derive(Clone, Debug)]
struct Entry {
    path: String,
    mode: u32,
    content: Vec<u8>,
}

impl Entry {
    fn new(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o644,
            content: content.into(),
        }
    }

    fn program(path: &str, content: Vec<u8>) -> Self {
        Self {
            mode: 0o755,
            ..Self::new(path, content)
        }
    }
}

/// What is packed: the same in all packages.
struct Release {
    version: String,
    arch: Arch,
    /// Sorted by path.
    entries: Vec<Entry>,
    /// Seconds since the epoch that archives carry.
    time: u64,
}

/// The task.
pub fn main(root: &Path, arguments: &[String]) -> Result<()> {
    let wanted = Wanted::parse(root, arguments)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let time = time(root)?;
    std::fs::create_dir_all(&wanted.out)
        .with_context(|| format!("cannot make {}", wanted.out.display()))?;
    let mut made = Vec::new();
    let mut layers = Vec::new();
    // Pages and completions are printed by the program that runs here.
    let host = match &wanted.program {
        Some(file) if wanted.archs == [build::host()?] => file.clone(),
        _ => build::program(root, build::host()?)?,
    };
    let pages = build::pages(&host)?;
    for arch in wanted.archs {
        let program = match (&wanted.program, arch == build::host()?) {
            (Some(file), _) => file.clone(),
            (None, true) => host.clone(),
            (None, false) => build::program(root, arch)?,
        };
        let release = Release {
            version: version.clone(),
            arch,
            entries: build::entries(root, &program, &pages)?,
            time,
        };
        let mut put = |name: String, bytes: Vec<u8>| -> Result<()> {
            let path = wanted.out.join(&name);
            std::fs::write(&path, &bytes)
                .with_context(|| format!("cannot write {}", path.display()))?;
            said(&name, &bytes)?;
            made.push((name, sum(&bytes)));
            Ok(())
        };
        let stem = stem(&version, arch);
        put(format!("{stem}.tar.gz"), archive::tarball(&release, &stem)?)?;
        put(
            format!("truecount_{version}_{}.deb", arch.debian()),
            deb::package(&release)?,
        )?;
        put(
            format!("truecount-{version}-1.{}.rpm", arch.name()),
            archive::rpm(&release)?,
        )?;
        put(
            format!("truecount-npm-{}-{version}.tgz", arch.node()),
            archive::npm(&release)?,
        )?;
        layers.push(image::Layer::new(&release)?);
        match wheel::wheel(root, &wanted.out, arch, &program, time)? {
            Ok(path) => {
                let bytes = std::fs::read(&path)?;
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                said(&name, &bytes)?;
                made.push((name.into_owned(), sum(&bytes)));
            }
            Err(why) => println!("skipped: the wheel for {}: {why}", arch.name()),
        }
    }
    let image = image::image(&version, &layers, time)?;
    let bill = sbom::document(root, &version, time)?;
    for (name, bytes) in [
        (format!("truecount-{version}-oci.tar"), image),
        (format!("truecount-{version}.spdx.json"), bill),
    ] {
        std::fs::write(wanted.out.join(&name), &bytes)?;
        println!("{name}");
        made.push((name, sum(&bytes)));
    }
    for (name, text) in formulas::all(&version, &made) {
        std::fs::write(wanted.out.join(&name), text)?;
        println!("{name}");
    }
    made.sort();
    let mut sums = std::fs::File::create(wanted.out.join("SHA256SUMS"))?;
    for (name, sum) in &made {
        writeln!(sums, "{sum}  {name}")?;
    }
    println!("in {}", wanted.out.display());
    Ok(())
}

/// A line about a file that was made.
fn said(name: &str, bytes: &[u8]) -> Result<()> {
    let size = f64::from(u32::try_from(bytes.len())?);
    println!("{name}: {:.1} MiB", size / f64::from(1 << 20));
    Ok(())
}

/// The arguments.
struct Wanted {
    archs: Vec<Arch>,
    out: PathBuf,
    program: Option<PathBuf>,
}

impl Wanted {
    fn parse(root: &Path, arguments: &[String]) -> Result<Self> {
        let mut wanted = Self {
            archs: Vec::new(),
            out: root.join("target/packages"),
            program: None,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().context(USAGE);
            match argument.as_str() {
                "--arch" => {
                    let name = value()?;
                    let arch = Arch::ALL.into_iter().find(|arch| arch.name() == name);
                    wanted.archs.push(arch.context(USAGE)?);
                }
                "--out" => wanted.out = value()?.into(),
                "--program" => wanted.program = Some(value()?.into()),
                _ => bail!("{USAGE}"),
            }
        }
        if wanted.program.is_some() && wanted.archs.len() != 1 {
            bail!("--program needs one --arch\n{USAGE}");
        }
        if wanted.archs.is_empty() {
            wanted.archs = Arch::ALL.to_vec();
        }
        Ok(wanted)
    }
}

/// The time that archives carry.
fn time(root: &Path) -> Result<u64> {
    if let Some(set) = std::env::var_os("SOURCE_DATE_EPOCH") {
        let text = set.to_string_lossy();
        return text
            .parse()
            .with_context(|| format!("SOURCE_DATE_EPOCH={text} is not a number of seconds"));
    }
    let output = Command::new("git")
        .current_dir(root)
        .args(["log", "-1", "--format=%ct"])
        .output()
        .context("cannot start git (or set SOURCE_DATE_EPOCH)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let time = text.trim().parse();
    time.context("git log gives no time; set SOURCE_DATE_EPOCH")
}

/// SHA-256 in hexadecimal digits.
fn sum(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests;
