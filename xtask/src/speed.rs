//! `cargo xtask speed [--rounds N] [--valgrind] [--calls|--memory|--model|--reproducible|--events=LIST] [FILTER…]`: what does the
//! virtual PMU cost?
//!
//! A case is `tests/speed/NAME.sh`, run by bash natively, below `truecount run` (with `--calls`: that keeps the tree of
//! calls; with `--memory`, `--model`: that notes references, and models caches; with `--events`: that counts these), and,
//! if asked for, below `valgrind --tool=none`, in turn, round after round. Printed: the CPU time (user + system, children
//! included) of each, and the median of the per-round ratios to native (with `--reproducible`: to `truecount run`
//! without it, since what it adds is the question). `bound:` in a case is the ratio that the project promises; nothing
//! here fails when it is missed, it is said. `mean: no`: the case is not a part of the geometric mean.

use crate::conformance::{on_path, release_build};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Clone, Copy)]
enum How<'a> {
    Native,
    Engine,
    /// With this option of `truecount run`.
    With(&'a str),
    Valgrind,
}

/// Runs the cases whose names contain one of the filters (all, without filters).
pub(crate) fn main(root: &Path, arguments: &[String]) -> Result<()> {
    let truecount = release_build(root)?;
    let (mut rounds, mut filters, mut hows) = (5, Vec::new(), vec![How::Native, How::Engine]);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => {
                let n = arguments.next().context("--rounds needs a number")?;
                rounds = n
                    .parse()
                    .with_context(|| format!("--rounds {n}: not a number"))?;
            }
            "--calls" => hows[1] = How::With("--calls"),
            "--memory" => hows[1] = How::With("--memory"),
            "--model" => hows[1] = How::With("--model=cachegrind"),
            "--reproducible" => hows = vec![How::Engine, How::With("--reproducible")],
            "--valgrind" => hows.push(How::Valgrind),
            other if other.starts_with("--events=") => hows[1] = How::With(other),
            other if other.starts_with('-') => bail!("unknown option {other}"),
            other => filters.push(other.to_owned()),
        }
    }
    let (first, second) = match hows[0] {
        How::Native => ("native s", "engine s"),
        _ => ("engine s", "option s"),
    };
    println!(
        "{:<12} {first:>9} {second:>9} {:>7} {:>7} {:>9}",
        "program", "ratio", "bound", "valgrind"
    );
    let mut logs = Vec::new();
    let mut names: Vec<_> = fs::read_dir(root.join("tests/speed"))?
        .filter_map(|e| {
            Some(
                e.ok()?
                    .file_name()
                    .to_str()?
                    .strip_suffix(".sh")?
                    .to_owned(),
            )
        })
        .filter(|n| !n.ends_with(".setup"))
        .collect();
    names.sort();
    for name in names {
        if !filters.is_empty() && !filters.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        if let Some(ratio) = case(root, &truecount, &name, rounds, &hows)? {
            logs.push(ratio.ln());
        }
    }
    if !logs.is_empty() {
        let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        println!("geometric mean of {} programs: {mean:.2}", logs.len());
    }
    Ok(())
}

fn case(
    root: &Path,
    truecount: &Path,
    name: &str,
    rounds: usize,
    hows: &[How<'_>],
) -> Result<Option<f64>> {
    let script = root.join(format!("tests/speed/{name}.sh"));
    let setup = root.join(format!("tests/speed/{name}.setup.sh"));
    let text = fs::read_to_string(&script)?;
    let header = |key: &str| {
        text.lines()
            .find_map(|l| l.strip_prefix(key))
            .unwrap_or("")
            .trim()
            .to_owned()
    };
    if let Some(missing) = header("# needs:").split_whitespace().find(|p| !on_path(p)) {
        println!("skipped: {name}: {missing} is not installed");
        return Ok(None);
    }
    let directory =
        std::env::temp_dir().join(format!("truecount-speed-{}-{name}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let bash = |how: How<'_>, script: &Path| {
        let mut command = match how {
            How::Native => Command::new("bash"),
            How::Engine | How::With(_) => {
                let mut c = Command::new(truecount);
                c.args(["run", "--output", "/dev/null"]);
                if let How::With(option) = how {
                    c.arg(option);
                }
                c.args(["--", "bash"]);
                c
            }
            How::Valgrind => {
                let mut c = Command::new("valgrind");
                c.args(["--tool=none", "-q", "--trace-children=yes", "bash"]);
                c
            }
        };
        command
            .arg(script)
            .current_dir(&directory)
            .env("PROGRAMS", root.join("tests/programs"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let mut result = None;
    if setup.is_file() && !bash(How::Native, &setup).status()?.success() {
        println!("skipped: {name}: its setup failed");
    } else {
        let mut seconds = vec![Vec::new(); hows.len()];
        // The first round warms the file cache and is not counted.
        for round in 0..=rounds {
            for (i, how) in hows.iter().enumerate() {
                if round == 0 && matches!(how, How::Valgrind) {
                    continue;
                }
                let before = children_seconds()?;
                let status = bash(*how, &script).status()?;
                let spent = children_seconds()? - before;
                if !status.success() {
                    println!("{name}: run {round} ended with {status}");
                }
                if round > 0 {
                    seconds[i].push(spent);
                }
            }
        }
        let ratio = |i: usize| {
            median(
                seconds[i]
                    .iter()
                    .zip(&seconds[0])
                    .map(|(a, b)| a / b)
                    .collect(),
            )
        };
        let engine = ratio(1);
        let valgrind = if hows.len() > 2 {
            format!("{:.2}", ratio(2))
        } else {
            "-".to_owned()
        };
        println!(
            "{name:<12} {:>9.2} {:>9.2} {engine:>7.2} {:>7} {valgrind:>9}",
            median(seconds[0].clone()),
            median(seconds[1].clone()),
            // What is promised is a ratio to native.
            if matches!(hows[0], How::Native) {
                header("# bound:")
            } else {
                "-".to_owned()
            },
        );
        // Workloads made to be hard are no part of the mean.
        result = (header("# mean:") != "no").then_some(engine);
    }
    fs::remove_dir_all(&directory)?;
    Ok(result)
}

/// User and system seconds of all children that have ended.
fn children_seconds() -> Result<f64> {
    // SAFETY: an all-zero rusage is a valid value, and getrusage only writes into it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        bail!("getrusage: {}", std::io::Error::last_os_error());
    }
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}
