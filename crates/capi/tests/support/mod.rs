//! What the tests of the C interface share: the built library, installed as a user would, and a compiler.
#![allow(dead_code, reason = "not every test uses all")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A file of the library that cargo built beside this test; a skip where this target has none.
pub fn library(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let deps = own.parent().unwrap();
    let found = [deps, deps.parent().unwrap()]
        .iter()
        .map(|directory| directory.join(name))
        .find(|path| path.exists());
    if found.is_none() {
        truecount_testing::skip!("cc", "this target has no {name}");
    }
    found
}

/// Go that takes nothing from outside; `scratch` holds its cache for a user who has no home of their own.
pub fn go(scratch: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local");
    let home = std::env::var_os("HOME").is_some_and(|home| Path::new(&home).is_dir());
    if !home && std::env::var_os("GOCACHE").is_none() {
        command
            .env("GOCACHE", scratch.join("gocache"))
            .env("GOPATH", scratch.join("gopath"));
    }
    command
}

/// Where the library is installed for a test.
pub struct Prefix {
    pub directory: tempfile::TempDir,
}

impl Prefix {
    /// Installs the headers and libraries; `None`, said as a skip, where there is no library or no compiler.
    pub fn install() -> Option<Self> {
        // Cargo's own shared library: linking one takes half a second.
        Self::installed(&["--unversioned"])
    }

    /// As [`install`](Self::install), with symbol versions, as users have it.
    pub fn versioned() -> Option<Self> {
        Self::installed(&[])
    }

    fn installed(options: &[&str]) -> Option<Self> {
        let from = library("libtruecount_c.so")?;
        let version = Command::new("cc").arg("--version").output();
        if !truecount_testing::compiler(version) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
        let output = Command::new("sh")
            .arg(script)
            .arg("--prefix")
            .arg(directory.path())
            .arg("--from")
            .arg(from.parent().unwrap())
            .args(options)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        Some(Self { directory })
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.directory.path().join(inside)
    }

    /// Compiles a program of `tests/programs`, linked with the shared library.
    pub fn compile(&self, compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
        self.built(compiler, source, flags)
            .unwrap_or_else(|said| panic!("{compiler} {flags:?} {source}: {said}"))
    }

    /// As [`compile`](Self::compile); gives what the compiler said where it fails.
    pub fn built(&self, compiler: &str, source: &str, flags: &[&str]) -> Result<PathBuf, String> {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let name = format!("{source}{}.out", flags.concat()).replace(['/', '=', '-', '.'], "_");
        let program = self.path(&name);
        let linking: Vec<String> = if flags.contains(&"-c") {
            Vec::new()
        } else if flags.contains(&"-static-truecount") {
            vec![
                self.path("lib/libtruecount.a").display().to_string(),
                "-lgcc_s".into(),
                "-lutil".into(),
                "-lrt".into(),
                "-lm".into(),
                "-ldl".into(),
            ]
        } else {
            vec![
                format!("-L{}", self.path("lib").display()),
                format!("-Wl,-rpath,{}", self.path("lib").display()),
                "-ltruecount".into(),
                // Else the first call of each function looks up its name.
                "-Wl,-z,now".into(),
            ]
        };
        let output = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Werror", "-pthread"])
            .args(
                flags
                    .iter()
                    .filter(|flag| **flag != "-static-truecount" && !flag.starts_with("-l")),
            )
            .arg(format!("-I{}", self.path("include").display()))
            .arg("-o")
            .arg(&program)
            .arg(programs.join(source))
            .args(flags.iter().filter(|flag| flag.starts_with("-l")))
            .args(linking)
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(program)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

/// Runs a program as it is.
pub fn native(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

/// Runs a program under the virtual PMU; `None`, said as a skip, where that cannot be.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn inside(program: &Path, arguments: &[&str]) -> Option<Output> {
    inside_of(Command::new(program).args(arguments))
}

/// As [`inside`], for a command with more to it.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn inside_of(command: &mut Command) -> Option<Output> {
    use std::io::Read as _;
    use truecount_engine::virt;
    command.stdout(Stdio::piped());
    let mut running = match virt::launch(command, &virt::Options::default()) {
        Ok(running) => running,
        Err(virt::LaunchError::PtraceForbidden { error }) => {
            truecount_testing::skip!("virtual", "ptrace is not permitted: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut stdout = Vec::new();
    let pipe = running.child_mut().stdout.as_mut().unwrap();
    pipe.read_to_end(&mut stdout).unwrap();
    let outcome = running.wait().unwrap();
    Some(Output {
        status: outcome.status,
        stdout,
        stderr: Vec::new(),
    })
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub fn inside(_: &Path, _: &[&str]) -> Option<Output> {
    let _ = Stdio::null();
    truecount_testing::skip!("virtual", "no virtual PMU on this architecture");
    None
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
