//! Builds test executables and programs for a rig, and strips them: 7 MB a second go into the guest.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::plan::Arch;

/// Cargo, set up for one architecture.
pub struct Builder {
    root: PathBuf,
    arch: Arch,
    release: bool,
}

impl Builder {
    /// Makes sure that the target is there, too.
    pub fn new(root: &Path, arch: Arch, release: bool) -> Result<Self> {
        if let Some(target) = arch.target() {
            install(target)?;
        }
        Ok(Self {
            root: root.to_path_buf(),
            arch,
            release,
        })
    }

    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// The executable of a package's `tests/hardware.rs`.
    pub fn hardware_test(&self, package: &str) -> Result<PathBuf> {
        // Tests that sample themselves look for their functions.
        self.build(&self.tests(package), package, "hardware", Keep::Symbols)
    }

    /// A program of a package: cargo builds it with the package's tests.
    pub fn binary(&self, package: &str, name: &str) -> Result<PathBuf> {
        self.build(&self.tests(package), package, name, Keep::Nothing)
    }

    /// Cargo's arguments for the hardware tests. For this machine it is those of all packages: the same features as in
    /// `cargo test --workspace`, so that what it built serves.
    fn tests<'a>(&self, package: &'a str) -> Vec<&'a str> {
        let mut arguments = vec!["test", "--no-run", "--test", "hardware"];
        match self.arch.target() {
            None => arguments.push("--workspace"),
            Some(_) => arguments.extend(["--package", package]),
        }
        arguments
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where cargo builds.
    pub fn target_directory(&self) -> Result<PathBuf> {
        let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let directory = given.unwrap_or_else(|| "target".into());
        std::path::absolute(self.root.join(directory)).context("no directory to build in")
    }

    /// The static library of a package.
    pub fn archive(&self, package: &str, file: &str) -> Result<PathBuf> {
        let messages = self.cargo(&["build", "--package", package, "--lib"])?;
        messages
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|message| message["filenames"].as_array().cloned())
            .flatten()
            .filter_map(|name| name.as_str().map(PathBuf::from))
            .find(|path| path.ends_with(file))
            .with_context(|| format!("cargo built no {file}"))
    }

    fn build(&self, arguments: &[&str], package: &str, name: &str, keep: Keep) -> Result<PathBuf> {
        let messages = self.cargo(arguments)?;
        let built = executable(&messages, package, name)
            .with_context(|| format!("cargo {} built no {name}", arguments.join(" ")))?;
        Ok(stripped(&built, keep))
    }

    /// What cargo says of a build that works.
    fn cargo(&self, arguments: &[&str]) -> Result<String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .current_dir(&self.root)
            .args(arguments)
            .args(["--quiet", "--message-format=json"]);
        if self.release {
            command.arg("--release");
        }
        if let Some(target) = self.arch.target() {
            command.args(["--target", target]);
            // What needs a C compiler for the target (SQLite) is left out: there is none.
            if arguments.contains(&"truecount-cli") {
                command.arg("--no-default-features");
            }
            let variable = target.to_uppercase().replace('-', "_");
            command.env(format!("CARGO_TARGET_{variable}_LINKER"), "rust-lld");
        }
        let output = command
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo")?;
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            for text in diagnostics(&messages) {
                eprint!("{text}");
            }
            bail!(
                "cargo {} failed for {}",
                arguments.join(" "),
                self.arch.name()
            );
        }
        Ok(messages)
    }
}

/// The path of a package's executable called `name` in cargo's messages.
fn executable(messages: &str, package: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name && is_of(message, package))
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
}

/// Whether a message is about a package: its identifier ends in `NAME@VERSION`, or in `#VERSION` where its directory is
/// called as it is.
fn is_of(message: &Value, package: &str) -> bool {
    let id = message["package_id"].as_str().unwrap_or_default();
    let (place, last) = id.rsplit_once('#').unwrap_or_default();
    last.split_once('@').map_or_else(
        || place.rsplit('/').next() == Some(package),
        |(name, _)| name == package,
    )
}

/// What the compiler had to say.
fn diagnostics(messages: &str) -> Vec<String> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| message["message"]["rendered"].as_str().map(str::to_owned))
        .collect()
}

/// What stripping leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Nothing,
    /// The symbol table, without debug information.
    Symbols,
}

/// A stripped copy beside the executable; where no tool can strip it, the executable itself.
fn stripped(executable: &Path, keep: Keep) -> PathBuf {
    let mut copy = executable.as_os_str().to_owned();
    copy.push(".stripped");
    let copy = PathBuf::from(copy);
    // The toolchain's own tool knows all architectures; the host's only its own.
    let tools = [toolchain_tool("rust-objcopy"), Some(PathBuf::from("strip"))];
    for tool in tools.into_iter().flatten() {
        let mut command = Command::new(&tool);
        if tool.ends_with("strip") {
            command.args((keep == Keep::Symbols).then_some("-g"));
            command.arg("-o").arg(&copy).arg(executable);
        } else {
            let option = match keep {
                Keep::Nothing => "--strip-all",
                Keep::Symbols => "--strip-debug",
            };
            command.arg(option).arg(executable).arg(&copy);
        }
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if status.is_ok_and(|status| status.success()) {
            return copy;
        }
    }
    executable.to_path_buf()
}

/// A tool that comes with rustc, in `lib/rustlib/HOST/bin`.
pub fn toolchain_tool(name: &str) -> Option<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output()
        .ok()?;
    let libraries = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let tool = libraries.parent()?.join("bin").join(name);
    tool.is_file().then_some(tool)
}

/// Installs a target where it is missing.
fn install(target: &str) -> Result<()> {
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .output();
    let present = libraries
        .is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir());
    if present {
        return Ok(());
    }
    println!("vm-test: installing the target {target}");
    let status = Command::new("rustup")
        .args(["target", "add", target])
        .status();
    if status.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    bail!(
        "the target {target} is missing and `rustup target add {target}` failed; \
         install it, or leave arm64 out with --only x86"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_messages() {
        let messages = r#"{"package_id":"index+there#libc@0.2.1","target":{"name":"libc"},"executable":null}
not json
{"package_id":"path+file:///t/crates/cli#truecount-cli@0.1.0","target":{"name":"hardware"},"executable":"/t/cli"}
{"package_id":"path+file:///t/crates/truecount#0.1.0","target":{"name":"hardware"},"executable":"/t/count"}
{"reason":"compiler-message","message":{"rendered":"error: no\n"}}
{"reason":"build-finished","success":true}"#;
        let found = |package, name| executable(messages, package, name);
        assert_eq!(found("truecount-cli", "hardware"), Some("/t/cli".into()));
        assert_eq!(found("truecount", "hardware"), Some("/t/count".into()));
        assert_eq!(found("truecount", "truecount"), None);
        assert_eq!(diagnostics(messages), ["error: no\n"]);
    }

    #[test]
    fn a_file_that_cannot_be_stripped_is_shipped_as_it_is() {
        let path = Path::new("/nowhere/at/all");
        assert_eq!(stripped(path, Keep::Nothing), path);
    }
}
