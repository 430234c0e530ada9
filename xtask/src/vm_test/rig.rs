//! Starts a rig with a test executable and collects what comes out.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::plan::{Arch, Privilege};

/// Host seconds after which a machine is given up.
const LIMIT: &str = "900";

/// A program shipped along, and the variable that tells tests where it is in the guest.
pub struct Extra {
    pub variable: &'static str,
    pub source: PathBuf,
    pub destination: String,
}

/// What a run gave.
pub struct Run {
    pub output: String,
    /// The rig's exit status: the test runner's own, 124 time limit, 125 rig failed, 126 unsuitable.
    pub status: Option<i32>,
}

/// The rig's command line.
fn arguments(
    arch: Arch,
    test: &Path,
    extras: &[Extra],
    privilege: Privilege,
    filters: &[String],
) -> Vec<OsString> {
    let mut line: Vec<OsString> = ["-t", LIMIT].map(OsString::from).into();
    if arch == Arch::Arm64 {
        line.push("-q".into());
    }
    let mut variables = vec![
        "TRUECOUNT_REQUIRE=pmu,known-pmu".to_owned(),
        "RUST_BACKTRACE=0".to_owned(),
    ];
    if let Privilege::Paranoid(level) = privilege {
        // The two rigs call it differently.
        let option = if arch == Arch::Arm64 { "-p" } else { "-P" };
        line.extend(["-u".into(), option.into(), level.to_string().into()]);
        variables.push(format!("TRUECOUNT_EXPECT_PARANOID={level}"));
    }
    if let Privilege::In(setting) = privilege {
        let options = setting.options(arch).unwrap_or_default();
        line.extend(options.iter().map(OsString::from));
        variables.push(format!("TRUECOUNT_RIG_SETTING={}", setting.name));
    }
    for extra in extras {
        let mut file = extra.source.as_os_str().to_owned();
        file.push(format!(":{}", extra.destination));
        line.extend(["-f".into(), file]);
        variables.push(format!("{}={}", extra.variable, extra.destination));
    }
    for variable in variables {
        line.extend(["-e".into(), variable.into()]);
    }
    line.push(test.into());
    line.extend(["--test-threads=1", "--show-output"].map(OsString::from));
    line.extend(filters.iter().map(OsString::from));
    line
}

/// Runs a test executable in the rig; `echo` prints its output as it comes.
pub fn run(
    script: &Path,
    arch: Arch,
    test: &Path,
    extras: &[Extra],
    privilege: Privilege,
    filters: &[String],
    echo: bool,
) -> Result<Run> {
    let mut child = Command::new(script)
        .args(arguments(arch, test, extras, privilege, filters))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", script.display()))?;
    let mut output = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context("cannot read the rig's output")?;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches('\r');
            if echo {
                println!("{line}");
            }
            output.push_str(line);
            output.push('\n');
        }
    }
    let status = child.wait().context("cannot wait for the rig")?;
    Ok(Run {
        output,
        status: status.code(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rigs_take_different_options() {
        let extra = Extra {
            variable: "TRUECOUNT_BIN",
            source: PathBuf::from("t/truecount"),
            destination: "/tmp/truecount".to_owned(),
        };
        let line = |arch, privilege| {
            let words = arguments(
                arch,
                Path::new("t/hardware"),
                std::slice::from_ref(&extra),
                privilege,
                &["x".to_owned()],
            );
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            line(Arch::X86, Privilege::Paranoid(3)),
            "-t 900 -u -P 3 -f t/truecount:/tmp/truecount -e TRUECOUNT_REQUIRE=pmu,known-pmu -e RUST_BACKTRACE=0 \
             -e TRUECOUNT_EXPECT_PARANOID=3 -e TRUECOUNT_BIN=/tmp/truecount t/hardware --test-threads=1 --show-output x"
        );
        let arm = line(Arch::Arm64, Privilege::Paranoid(2));
        assert!(arm.starts_with("-t 900 -q -u -p 2 "), "{arm}");
        let off = line(Arch::X86, Privilege::In(&super::super::plan::NO_OVERCOUNT));
        assert!(off.starts_with("-t 900 -c pmu-irq-overcount=off "), "{off}");
        let root = line(Arch::X86, Privilege::Root);
        assert!(!root.contains("-u") && !root.contains("PARANOID"), "{root}");
    }
}
