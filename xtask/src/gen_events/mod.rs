//! `gen-events`: writes `crates/events/data/events.bin` from Linux' `tools/perf/pmu-events/arch`, as Debian's package
//! `linux-source-6.12` has it. Names and codes only.
//!
//! ```text
//! apt-get download linux-source-6.12 && dpkg-deb -x linux-source-6.12_*.deb x
//! tar -xJf x/usr/src/linux-source-6.12.tar.xz --wildcards '*/tools/perf/pmu-events/*'
//! cargo xtask gen-events --source linux-source-6.12/tools/perf/pmu-events/arch --version 6.12.117-1~deb12u1 \
//!     --perfmon perfmon --arm data --apple linux/drivers/perf/apple_m1_cpu_pmu.c
//! ```
//!
//! What Linux 6.12 does not have yet comes from where later versions have it from: Intel's perfmon
//! (<https://github.com/intel/perfmon>, BSD-3-Clause) and Arm's data (<https://github.com/ARM-software/data>,
//! Apache-2.0), and from the enumeration in Linux' driver of Apple's PMU. `--source FILE` begins with the tables of an
//! earlier `events.bin`.

mod encode;
mod more;
pub(crate) mod oracle;

use anyhow::{Context, Result, bail};
use more::More;
use std::path::{Path, PathBuf};
use truecount_events::tables::Tables;

const USAGE: &str = "usage: cargo xtask gen-events --source DIR|FILE [--version TEXT] [--perfmon DIR] [--arm DIR] [--apple FILE] [--output FILE] [--check]";

/// Runs the task.
pub(crate) fn main(root: &Path, arguments: &[String]) -> Result<()> {
    let mut source = None;
    let mut version = "unknown version".to_owned();
    let mut output = root.join("crates/events/data/events.bin");
    let mut check = false;
    let mut more = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().cloned().context(USAGE);
        match argument.as_str() {
            "--source" => source = Some(PathBuf::from(value()?)),
            "--version" => version = value()?,
            "--perfmon" => more.push(More::Perfmon(value()?.into())),
            "--arm" => more.push(More::Arm(value()?.into())),
            "--apple" => more.push(More::Apple(value()?.into())),
            "--output" => output = PathBuf::from(value()?),
            "--check" => check = true,
            _ => bail!("{USAGE}"),
        }
    }
    let source = source.context(USAGE)?;
    let mut tables = if source.is_file() {
        let bytes = std::fs::read(&source).with_context(|| source.display().to_string())?;
        Tables::decode(&bytes).with_context(|| source.display().to_string())?
    } else {
        linux(&source, &version)?
    };
    for source in more {
        tables = source.add_to(tables)?;
    }
    let bytes = encode::encode(&tables)?;
    if Tables::decode(&bytes)? != tables {
        bail!("what was encoded does not decode to the same tables");
    }
    println!(
        "{} models, {} distinct events ({} in all), {} bytes",
        tables.models().count(),
        tables.distinct().len(),
        tables.models().map(|m| m.rows().len()).sum::<usize>(),
        bytes.len()
    );
    if check {
        let old = std::fs::read(&output).with_context(|| output.display().to_string())?;
        if old != bytes {
            bail!("{} differs from what --source gives", output.display());
        }
        return Ok(());
    }
    std::fs::write(&output, bytes).with_context(|| output.display().to_string())
}

/// What Linux' `tools/perf/pmu-events/arch` has.
fn linux(source: &Path, version: &str) -> Result<Tables> {
    let mut tables = Tables::default();
    for arch in ["x86", "arm64"] {
        let dir = source.join(arch);
        if !dir.join("mapfile.csv").is_file() {
            bail!(
                "{} has no mapfile.csv: --source takes tools/perf/pmu-events/arch",
                dir.display()
            );
        }
        tables = tables.join(Tables::from_dir(&dir)?);
    }
    Ok(tables.with_source(&format!(
        "Debian linux-source-6.12 {version}, tools/perf/pmu-events/arch"
    )))
}
