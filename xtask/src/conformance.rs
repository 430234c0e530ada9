//! `cargo xtask conformance [--all|--ci] [--OPTION…] [FILTER…]`: does a program do the same under the virtual PMU as natively?
//!
//! A case is `tests/conformance/NAME.sh`, run by bash in an empty directory, natively and then again below
//! `truecount run`. Standard output, standard error, exit status and the files left behind must be
//! equal. `NAME.setup.sh`, where there is one, runs natively before both. Comment lines at the top
//! of a case: `needs:` programs (else the case is skipped), `package:` where they come from, `time:` seconds,
//! `ignore:` paths whose content is not compared (`.` for all), `count: repeats` where a second run has to count the
//! same, `when: ci` for the few of `--ci`, `when: all` for those that only `--all` and a filter run. Other options, such as `--deterministic=time`, are passed on to `truecount run`.

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: cargo xtask conformance [--all|--ci] [--OPTION…] [FILTER…]
  --all      every case of tests/conformance, the long ones, too
  --ci       the few short ones
  --OPTION   is passed on to `truecount run`
  FILTER     only cases whose name contains it
TRUECOUNT names the program; else it is built.";

struct Case {
    name: String,
    script: PathBuf,
    setup: Option<PathBuf>,
    needs: Vec<String>,
    packages: Vec<String>,
    when: String,
    repeats: bool,
    ignore: Vec<String>,
    limit: Duration,
}

/// What a run left: everything that must not depend on how the program was run.
#[derive(PartialEq)]
struct Left {
    status: String,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    files: BTreeMap<PathBuf, String>,
}

enum Verdict {
    Same,
    Skipped(String),
    Differs(Vec<String>),
}

/// How programs are counted.
struct Engine {
    truecount: PathBuf,
    options: Vec<String>,
}

/// Runs every case whose name contains one of the filters among `words` (all, without filters).
pub(crate) fn main(root: &Path, words: &[String]) -> Result<()> {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return Ok(());
    }
    let (options, filters): (Vec<String>, Vec<String>) = words
        .iter()
        .cloned()
        .partition(|word| word.starts_with("--"));
    let (sets, options): (Vec<String>, Vec<String>) = options
        .into_iter()
        .partition(|option| option == "--all" || option == "--ci");
    let set = sets.first().map_or("", |set| set.trim_start_matches('-'));
    let engine = Engine {
        truecount: release_build(root)?,
        options,
    };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for case in cases(&root.join("tests/conformance"))? {
        let wanted = match (&filters[..], set) {
            ([], "all") => true,
            ([], "ci") => case.when == "ci",
            ([], _) => case.when != "all",
            (some, _) => some.iter().any(|f| case.name.contains(f.as_str())),
        };
        if !wanted {
            continue;
        }
        let start = Instant::now();
        let verdict = run(&case, &engine, &root.join("tests/programs"))?;
        let seconds = start.elapsed().as_secs_f64();
        match verdict {
            Verdict::Same => {
                passed += 1;
                println!("ok       {} ({seconds:.1} s)", case.name);
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                println!("skipped: {}: {why}", case.name);
            }
            Verdict::Differs(what) => {
                failed += 1;
                println!("DIFFERS  {} ({seconds:.1} s)", case.name);
                for line in what.iter().take(30) {
                    println!("         {line}");
                }
            }
        }
    }
    println!("conformance: {passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 {
        bail!("{failed} cases differ from their native run");
    }
    Ok(())
}

fn cases(directory: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for entry in
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?
    {
        let script = entry?.path();
        let Some(name) = script
            .file_name()
            .and_then(|n| n.to_str()?.strip_suffix(".sh"))
        else {
            continue;
        };
        if name.ends_with(".setup") {
            continue;
        }
        let text = fs::read_to_string(&script)?;
        let words = |key: &str| -> Vec<String> {
            text.lines()
                .take_while(|l| l.starts_with('#'))
                .filter_map(|l| l.strip_prefix("# ")?.strip_prefix(key)?.strip_prefix(':'))
                .flat_map(|l| l.split_whitespace().map(str::to_owned))
                .collect()
        };
        let setup = directory.join(format!("{name}.setup.sh"));
        cases.push(Case {
            name: name.to_owned(),
            needs: words("needs"),
            packages: words("package"),
            when: words("when").concat(),
            repeats: words("count").iter().any(|word| word == "repeats"),
            ignore: words("ignore"),
            limit: Duration::from_secs(
                words("time")
                    .first()
                    .and_then(|t| t.parse().ok())
                    .unwrap_or(60),
            ),
            setup: setup.is_file().then_some(setup),
            script,
        });
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

fn run(case: &Case, engine: &Engine, programs: &Path) -> Result<Verdict> {
    for program in &case.needs {
        if !on_path(program) {
            let from = match &case.packages[..] {
                [] => String::new(),
                some => format!(" (apt-get install {})", some.join(" ")),
            };
            return Ok(Verdict::Skipped(format!(
                "{program} is not installed{from}"
            )));
        }
    }
    let base = std::env::temp_dir().join(format!(
        "truecount-conformance-{}-{}",
        std::process::id(),
        case.name
    ));
    let mut left = Vec::new();
    let mut counts = Vec::new();
    let again = case.repeats.then_some(Some(engine));
    for engine in [None, Some(engine)].into_iter().chain(again) {
        // The same path both times: programs write it into what they make.
        let directory = base.join("work");
        fs::create_dir_all(&directory)?;
        if let Some(setup) = &case.setup {
            let status = bash(setup, None, &directory, programs)
                .stdout(Stdio::null())
                .status()?;
            if !status.success() {
                fs::remove_dir_all(&base)?;
                return Ok(Verdict::Skipped(format!("its setup failed: {status}")));
            }
        }
        left.push(observe(case, engine, &directory, &base, programs)?);
        if engine.is_some() && case.repeats {
            counts.push(counted(&base)?);
        }
        fs::remove_dir_all(&directory)?;
    }
    fs::remove_dir_all(&base)?;
    let [native, engine, ..] = &left[..] else {
        bail!("two runs were made");
    };
    Ok(match &counts[..] {
        _ if native != engine => Verdict::Differs(differences(native, engine)),
        [first, second] if first != second => {
            Verdict::Differs(vec![format!("counted {first}, then {second}")])
        }
        _ => Verdict::Same,
    })
}

/// What a run counted, and whether it called that exact.
fn counted(base: &Path) -> Result<String> {
    let text = fs::read_to_string(base.join("count")).context("the result of the run")?;
    let line = text.lines().find(|line| line.contains("instructions:u"));
    let words: Vec<_> = line.unwrap_or("nothing").split_whitespace().collect();
    Ok(words.join(" "))
}

fn bash(script: &Path, engine: Option<&Engine>, directory: &Path, programs: &Path) -> Command {
    // Beside the directory, which is compared.
    let result = directory.with_file_name("count");
    let mut command = match engine {
        None => Command::new("bash"),
        Some(engine) => {
            let mut command = Command::new(&engine.truecount);
            command
                .args(["run", "--output"])
                .arg(result)
                .args(&engine.options)
                .args(["--", "bash"]);
            command
        }
    };
    command
        .arg(script)
        .current_dir(directory)
        .env("PROGRAMS", programs)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    command
}

fn observe(
    case: &Case,
    engine: Option<&Engine>,
    directory: &Path,
    base: &Path,
    programs: &Path,
) -> Result<Left> {
    use std::os::unix::process::CommandExt as _;
    let (out, err) = (base.join("stdout"), base.join("stderr"));
    let mut child = bash(&case.script, engine, directory, programs)
        .stdout(fs::File::create(&out)?)
        .stderr(fs::File::create(&err)?)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {}", case.script.display()))?;
    let deadline = Instant::now() + case.limit;
    let mut late = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            late = true;
            // The whole process group: a case starts children of its own.
            let group = format!("-{}", child.id());
            Command::new("kill")
                .args(["-KILL", "--", &group])
                .status()?;
            break child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut files = BTreeMap::new();
    if !case.ignore.iter().any(|i| i == ".") {
        tree(directory, directory, &case.ignore, &mut files)?;
    }
    Ok(Left {
        status: match (late, status.code(), status.signal()) {
            (true, ..) => format!("not done after {} s", case.limit.as_secs()),
            (_, Some(code), _) => format!("exit {code}"),
            // `truecount run` says it as shells do.
            (_, _, signal) => format!("exit {}", 128 + signal.unwrap_or(0)),
        },
        stdout: fs::read(out)?,
        stderr: fs::read(err)?,
        files,
    })
}

/// Every file below `directory`: its mode, and its content or the target of the link.
fn tree(
    root: &Path,
    directory: &Path,
    ignore: &[String],
    files: &mut BTreeMap<PathBuf, String>,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
        if ignore.iter().any(|i| name == Path::new(i)) {
            continue;
        }
        let meta = fs::symlink_metadata(&path)?;
        let mode = meta.permissions().mode();
        let what = if meta.is_symlink() {
            format!("link to {}", fs::read_link(&path)?.display())
        } else if meta.is_dir() {
            tree(root, &path, ignore, files)?;
            format!("directory {mode:o}")
        } else if meta.is_file() {
            format!(
                "file {mode:o} {} bytes, hash {:016x}",
                meta.len(),
                hash(&fs::read(&path)?)
            )
        } else {
            format!("special {mode:o}")
        };
        files.insert(name, what);
    }
    Ok(())
}

/// FNV-1a: enough to tell two versions of one file apart.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn differences(native: &Left, engine: &Left) -> Vec<String> {
    let mut lines = Vec::new();
    if native.status != engine.status {
        lines.push(format!(
            "status: {} natively, {} here",
            native.status, engine.status
        ));
    }
    for (what, a, b) in [
        ("stdout", &native.stdout, &engine.stdout),
        ("stderr", &native.stderr, &engine.stderr),
    ] {
        let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
        let (mut la, mut lb, mut n) = (a.lines(), b.lines(), 0);
        loop {
            n += 1;
            match (la.next(), lb.next()) {
                (None, None) => break,
                (x, y) if x == y => {}
                (x, y) => {
                    lines.push(format!(
                        "{what} line {n}: {:?} natively, {:?} here",
                        x.unwrap_or("(none)"),
                        y.unwrap_or("(none)")
                    ));
                    if lines.len() > 12 {
                        break;
                    }
                }
            }
        }
    }
    for (path, a) in &native.files {
        match engine.files.get(path) {
            Some(b) if a == b => {}
            Some(b) => lines.push(format!("{}: {a} natively, {b} here", path.display())),
            None => lines.push(format!("{}: missing here", path.display())),
        }
    }
    for path in engine
        .files
        .keys()
        .filter(|p| !native.files.contains_key(*p))
    {
        lines.push(format!("{}: only here", path.display()));
    }
    lines
}

/// The release build to try: `TRUECOUNT`, as in `tests/*.sh`, else where cargo puts it
/// (`CARGO_TARGET_DIR`, relative to the current directory as cargo has it).
pub(crate) fn release_build(root: &Path) -> Result<PathBuf> {
    let truecount = match (
        std::env::var_os("TRUECOUNT"),
        std::env::var_os("CARGO_TARGET_DIR"),
    ) {
        (Some(named), _) => PathBuf::from(named),
        (None, Some(target)) => Path::new(&target).join("release/truecount"),
        (None, None) => root.join("target/release/truecount"),
    };
    // Absolute: cases run in directories of their own.
    std::path::absolute(&truecount)
        .ok()
        .filter(|path| path.is_file())
        .with_context(|| {
            format!(
                "no {}: run `cargo build --release` first",
                truecount.display()
            )
        })
}

pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    })
}
