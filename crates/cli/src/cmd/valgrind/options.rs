//! Valgrind's command line, as far as its tools callgrind, cachegrind and none have it
//! (<https://valgrind.org/docs/manual/manual-core.html>, and the chapters of the tools).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use truecount_engine::virt::Action;
use truecount_memory::{Cpu, Geometry, GeometryError, Machine as Caches, Replacement};
use truecount_profile::export::CallgrindForm;
use truecount_run::determinism::Machine;
use truecount_run::references::{Wanted, Without};

use super::known::{CACHES, CALLGRIND, CORE, Fate, Row, Value};
use crate::failure::Failure;

/// What takes Valgrind's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tool {
    #[default]
    Callgrind,
    Cachegrind,
    None,
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Callgrind => "callgrind",
            Self::Cachegrind => "cachegrind",
            Self::None => "none",
        }
    }
}

/// What the command line asks for.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Asked {
    /// `--version`.
    Version,
    /// `--help`.
    #[default]
    Help,
    /// Another tool, which only Valgrind has.
    Elsewhere(&'static str),
    /// A program is to be run.
    Run(Box<Options>),
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    pub(super) tool: Tool,
    pub(super) quiet: bool,
    pub(super) trace_children: bool,
    /// `--trace-children-skip`, `--trace-children-skip-by-arg`: patterns of files and of arguments.
    pub(super) skip_files: Vec<String>,
    pub(super) skip_words: Vec<String>,
    pub(super) log_file: Option<String>,
    pub(super) log_fd: i32,
    /// `--callgrind-out-file`, `--cachegrind-out-file`.
    pub(super) out_file: String,
    pub(super) form: CallgrindForm,
    pub(super) combine_dumps: bool,
    pub(super) separate_threads: bool,
    pub(super) collect_atstart: bool,
    pub(super) instr_atstart: bool,
    /// Functions by their patterns, and what happens there.
    pub(super) functions: Vec<(String, Action)>,
    pub(super) cache_sim: bool,
    pub(super) branch_sim: bool,
    /// Sizes of caches: I1, D1, LL.
    pub(super) caches: [Option<Geometry>; 3],
    /// The machine that the program is shown; Valgrind has no such option.
    pub(super) machine: Option<Machine>,
    /// Options that change nothing here, as they were given, each with the reason.
    pub(super) noted: Vec<(String, &'static str)>,
    /// All options, as given.
    pub(super) given: Vec<String>,
    pub(super) command: Vec<OsString>,
}

impl Options {
    fn new(tool: Tool) -> Self {
        Self {
            tool,
            quiet: false,
            trace_children: false,
            skip_files: Vec::new(),
            skip_words: Vec::new(),
            log_file: None,
            log_fd: 2,
            out_file: format!("{}.out.%p", tool.name()),
            form: CallgrindForm::default(),
            combine_dumps: false,
            separate_threads: false,
            collect_atstart: true,
            instr_atstart: true,
            functions: Vec::new(),
            cache_sim: tool == Tool::Cachegrind,
            branch_sim: false,
            caches: [None; 3],
            machine: None,
            noted: Vec::new(),
            given: Vec::new(),
            command: Vec::new(),
        }
    }

    /// Sizes of I1, D1 and LL: this CPU's, where the options do not say others.
    pub(super) fn simulated_caches(&self) -> Caches {
        let [i1, d1, ll] = self.caches;
        let base = Cpu::this().unwrap_or(Cpu::FIXED).machine;
        Caches {
            i1: i1.unwrap_or(base.i1),
            d1: d1.unwrap_or(base.d1),
            ll: ll.unwrap_or(base.ll),
        }
    }

    /// What is to be simulated, if anything.
    pub(super) fn simulated(&self) -> Option<Wanted> {
        let simulates = self.tool != Tool::None && (self.cache_sim || self.branch_sim);
        simulates.then(|| Wanted {
            // A process that shares its parent's memory (`vfork`) is one of its own.
            threads: true,
            model: Some(self.simulated_caches()),
            without: Without {
                data: !self.cache_sim,
                instructions: !self.cache_sim,
                branches: !self.branch_sim,
                ..Without::default()
            },
            paths: self.tool == Tool::Callgrind,
            emptied: self.tool == Tool::Callgrind,
            off_at_first: !self.instr_atstart,
            modifies_as_store: self.tool == Tool::Callgrind,
            ..Wanted::default()
        })
    }
}

const HINT: &str = "truecount valgrind --help lists what is served";

fn unknown(word: &str) -> Failure {
    Failure::new(1, format!("unknown option of valgrind: {word}")).hint(HINT)
}

fn bad(word: &str, why: &str) -> Failure {
    Failure::new(1, format!("bad option of valgrind: {word}: {why}"))
}

/// Parses the words behind `valgrind`; `from_environment`: those of `VALGRIND_OPTS`, which come first.
pub(super) fn parse(from_environment: Option<&str>, words: &[OsString]) -> Result<Asked, Failure> {
    let mut own: Vec<String> = from_environment
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let mut rest = words.iter();
    let mut command = Vec::new();
    while let Some(word) = rest.next() {
        if word == "--" {
            command.extend(rest.by_ref().cloned());
        } else if word.as_bytes().starts_with(b"-") {
            let text = word.to_str();
            own.push(
                text.map(str::to_owned)
                    .ok_or_else(|| unknown(&word.to_string_lossy()))?,
            );
        } else {
            command.push(word.clone());
            command.extend(rest.by_ref().cloned());
        }
    }
    for word in &own {
        match word.as_str() {
            "--version" => return Ok(Asked::Version),
            "-h" | "--help" | "--help-debug" | "--help-dyn-options" => return Ok(Asked::Help),
            _ => {}
        }
    }
    let tool = match tool(&own)? {
        Ok(tool) => tool,
        Err(other) => return Ok(Asked::Elsewhere(other)),
    };
    let mut options = Options::new(tool);
    options.given = own.clone();
    for word in &own {
        set(&mut options, word)?;
    }
    if command.is_empty() {
        return Err(Failure::new(1, "valgrind: no program specified").hint(
            "write it behind the options, as in: truecount valgrind --tool=callgrind ls -l",
        ));
    }
    options.command = command;
    Ok(Asked::Run(Box::new(options)))
}

/// Tools that only Valgrind has.
const OTHERS: [&str; 7] = [
    "memcheck", "helgrind", "drd", "massif", "dhat", "lackey", "exp-bbv",
];

/// The tool that is asked for (Valgrind's own default is memcheck), or the name of one that is not served.
fn tool(own: &[String]) -> Result<Result<Tool, &'static str>, Failure> {
    let named = own
        .iter()
        .rev()
        .find_map(|word| word.strip_prefix("--tool="));
    match named.unwrap_or("memcheck") {
        "callgrind" => Ok(Ok(Tool::Callgrind)),
        "cachegrind" => Ok(Ok(Tool::Cachegrind)),
        "none" => Ok(Ok(Tool::None)),
        other => match OTHERS.iter().find(|known| **known == other) {
            Some(known) => Ok(Err(known)),
            None => Err(Failure::new(1, format!("there is no tool `{other}`"))
                .hint("truecount serves callgrind, cachegrind and none")),
        },
    }
}

fn boolean(word: &str, value: Option<&str>) -> Result<bool, Failure> {
    match value {
        Some("yes") => Ok(true),
        Some("no") => Ok(false),
        _ => Err(bad(word, "yes or no is wanted")),
    }
}

/// The machine of that name, where this CPU has what it has.
fn machine(word: &str, value: Option<&str>) -> Result<Option<Machine>, Failure> {
    let named = match value {
        Some("host") => return Ok(None),
        Some(name) => Machine::named(name).map_err(|why| bad(word, &why))?,
        None => return Err(bad(word, "the name of a machine is wanted")),
    };
    match named.lacking() {
        Some(feature) => Err(bad(
            word,
            &format!("this CPU lacks {feature}: features can only be hidden"),
        )),
        None => Ok(Some(named)),
    }
}

fn set(options: &mut Options, word: &str) -> Result<(), Failure> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let yes = || boolean(word, value);
    let text = || match value {
        Some(value) if !value.is_empty() => Ok(value.to_owned()),
        _ => Err(bad(word, "a value is wanted")),
    };
    let (callgrind, cachegrind) = (
        options.tool == Tool::Callgrind,
        options.tool == Tool::Cachegrind,
    );
    match name {
        "--tool" => {}
        "--machine" => options.machine = machine(word, value)?,
        "-q" | "--quiet" if value.is_none() => options.quiet = true,
        "--trace-children" => options.trace_children = yes()?,
        "--trace-children-skip" => options.skip_files = patterns(&text()?),
        "--trace-children-skip-by-arg" => options.skip_words = patterns(&text()?),
        "--log-file" => options.log_file = Some(text()?),
        "--log-fd" => {
            let number = value
                .and_then(|value| value.parse().ok())
                .filter(|&fd| fd >= 0);
            options.log_fd =
                number.ok_or_else(|| bad(word, "the number of a descriptor is wanted"))?;
            options.log_file = None;
        }
        "--xml" => {
            if yes()? {
                return Err(refused(
                    word,
                    "these tools report no errors, so there is no XML",
                ));
            }
        }
        "--callgrind-out-file" if callgrind => options.out_file = text()?,
        "--cachegrind-out-file" if cachegrind => options.out_file = text()?,
        "--dump-line" if callgrind => options.form.lines = yes()?,
        "--dump-instr" if callgrind => options.form.instructions = yes()?,
        "--compress-strings" if callgrind => options.form.compress_names = yes()?,
        "--compress-pos" if callgrind => options.form.compress_positions = yes()?,
        "--combine-dumps" if callgrind => options.combine_dumps = yes()?,
        "--separate-threads" if callgrind => options.separate_threads = yes()?,
        "--collect-atstart" if callgrind => options.collect_atstart = yes()?,
        "--instr-atstart" if callgrind => options.instr_atstart = yes()?,
        // Cachegrind's from 3.22 on.
        "--instr-at-start" if cachegrind => options.instr_atstart = yes()?,
        "--toggle-collect" if callgrind => {
            options.functions.push((text()?, Action::Toggle));
            // As Callgrind has it: collecting begins with the first of them.
            options.collect_atstart = false;
        }
        "--dump-before" if callgrind => options.functions.push((text()?, Action::DumpBefore)),
        "--zero-before" if callgrind => options.functions.push((text()?, Action::ZeroBefore)),
        "--dump-after" if callgrind => options.functions.push((text()?, Action::DumpAfter)),
        "--cache-sim" | "--simulate-cache" if callgrind || cachegrind => {
            options.cache_sim = yes()?;
        }
        "--I1" | "--D1" | "--LL" if callgrind || cachegrind => {
            let size: Geometry = text()?
                .parse()
                .map_err(|error: GeometryError| bad(word, &error.to_string()))?;
            if size.replacement != Replacement::Lru {
                return Err(bad(word, "Valgrind's caches are lru"));
            }
            let [i1, d1, ll] = &mut options.caches;
            match name {
                "--I1" => *i1 = Some(size),
                "--D1" => *d1 = Some(size),
                _ => *ll = Some(size),
            }
        }
        "--branch-sim" if callgrind || cachegrind => {
            options.branch_sim = yes()?;
        }
        _ => return other(options, word, name, value),
    }
    Ok(())
}

/// Patterns with commas between them.
fn patterns(text: &str) -> Vec<String> {
    let patterns = text.split(',').filter(|pattern| !pattern.is_empty());
    patterns.map(str::to_owned).collect()
}

fn refused(word: &str, why: &str) -> Failure {
    Failure::new(
        1,
        format!("option of valgrind that is not available: {word}"),
    )
    .hint(why)
}

fn note(options: &mut Options, word: &str, fate: Fate) {
    if let Fate::Noted(why) = fate {
        options.noted.push((word.to_owned(), why));
    }
}

/// An option that sets nothing: known, or not.
fn other(
    options: &mut Options,
    word: &str,
    name: &str,
    value: Option<&str>,
) -> Result<(), Failure> {
    let tables: &[&[Row]] = match options.tool {
        Tool::Callgrind => &[CORE, CACHES, CALLGRIND],
        Tool::Cachegrind => &[CORE, CACHES],
        Tool::None => &[CORE],
    };
    // `--separate-callers3=f` has a number in its name.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let numbered = plain != name && plain.starts_with("--separate-");
    let wanted = if numbered { plain } else { name };
    let known = tables
        .iter()
        .flat_map(|table| table.iter())
        .find(|row| row.0 == wanted);
    let Some(&(_, kind, fate)) = known else {
        // How Valgrind translates: some thirty of them.
        return match name.starts_with("--vex-") && value.is_some() {
            true => Ok(()),
            false => Err(unknown(word)),
        };
    };
    match (kind, value) {
        (Value::Nothing, None) => {}
        (Value::Boolean, _) => drop(boolean(word, value)?),
        (Value::Number, Some(value)) if numbered || value.parse::<i64>().is_ok() => {}
        (Value::Number, _) => return Err(bad(word, "a number is wanted")),
        (Value::Word(words), Some(value)) if words.contains(&value) => {}
        (Value::Word(words), _) => {
            return Err(bad(word, &format!("one of {} is wanted", words.join(", "))));
        }
        (Value::Text, Some(_)) => {}
        (Value::Text, None) => return Err(bad(word, "a value is wanted")),
        (Value::Nothing, Some(_)) => return Err(unknown(word)),
    }
    match fate {
        Fate::Refused(why) => Err(refused(word, why)),
        // What is asked not to be done is not done.
        _ if matches!(value, Some("no" | "none" | "0")) => Ok(()),
        fate => {
            note(options, word, fate);
            Ok(())
        }
    }
}

/// A file name with `%p` (process), `%n` (a number that counts up), `%q{NAME}` (environment) and `%%` filled in.
pub(super) fn expand(
    option: &str,
    pattern: &str,
    pid: u32,
    number: u32,
) -> Result<OsString, Failure> {
    let failed = |why: &str| {
        Failure::new(
            1,
            format!("bad option of valgrind: {option}={pattern}: {why}"),
        )
    };
    let mut name = OsString::new();
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('%') {
        name.push(before);
        rest = behind.get(1..).unwrap_or("");
        match behind.chars().next() {
            Some('p') => name.push(pid.to_string()),
            Some('n') => name.push(number.to_string()),
            Some('%') => name.push("%"),
            Some('q') => {
                let variable = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let Some((variable, behind)) = variable else {
                    return Err(failed("%q wants the name of a variable, as in %q{HOME}"));
                };
                let value = std::env::var_os(variable)
                    .ok_or_else(|| failed(&format!("the variable {variable} is not set")))?;
                name.push(value);
                rest = behind;
            }
            _ => return Err(failed("only %p, %n, %q{NAME} and %% stand for something")),
        }
    }
    name.push(rest);
    if name.as_bytes().contains(&0) {
        return Err(failed("a file name has no zero byte"));
    }
    Ok(OsString::from_vec(name.into_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Asked, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        parse(None, &words).map_err(|failure| {
            assert_eq!(failure.code, 1);
            failure.to_string()
        })
    }

    fn options(words: &[&str]) -> Options {
        match parsed(words) {
            Ok(Asked::Run(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    /// The command line of gungraun 0.20 and iai-callgrind.
    #[test]
    fn a_harness_is_understood() {
        let options = options(&[
            "--tool=callgrind",
            "--I1=32768,8,64",
            "--D1=32768,8,64",
            "--LL=8388608,16,64",
            "--cache-sim=no",
            "--compress-strings=no",
            "--compress-pos=no",
            "--dump-line=yes",
            "--dump-instr=no",
            "--combine-dumps=no",
            "--separate-threads=yes",
            "--error-exitcode=201",
            "--trace-children=yes",
            "--fair-sched=try",
            "--vgdb=no",
            "--callgrind-out-file=d/x#%p.out",
            "--log-file=d/x#%p.log",
            "./prog",
            "--tool=memcheck",
            "-x",
        ]);
        assert_eq!(options.command, ["./prog", "--tool=memcheck", "-x"]);
        assert!(options.trace_children && options.separate_threads && options.noted.is_empty());
        assert_eq!(options.out_file, "d/x#%p.out");
        let form = CallgrindForm {
            instructions: false,
            lines: true,
            compress_names: false,
            compress_positions: false,
        };
        assert_eq!(options.form, form);
        let caches = [&options.caches[..1], &options.caches[2..]].concat();
        let sizes = caches.iter().flatten().map(Geometry::to_string);
        assert_eq!(sizes.collect::<Vec<_>>(), ["32768,8,64", "8388608,16,64"]);
        assert!(options.simulated().is_none());
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        for (words, said) in [
            (&["--tool=callgrind", "--foo", "ls"][..], "--foo"),
            (&["--tool=callgrind", "--cache-sim=x", "ls"], "yes or no"),
            (&["--tool=callgrind", "--D1=9,9,9", "ls"], "--D1=9,9,9"),
            (&["--tool=cachegrind", "--LL=much", "ls"], "no geometry"),
            (&["--tool=callgrind", "--xml=yes", "ls"], "--xml=yes"),
            (&["--tool=foo", "ls"], "`foo`"),
            (
                &["--tool=none", "--dump-instr=yes", "ls"],
                "--dump-instr=yes",
            ),
            (
                &["--tool=cachegrind", "--callgrind-out-file=x", "ls"],
                "--callgrind-out-file",
            ),
            (
                &["--tool=callgrind", "--error-exitcode=x", "ls"],
                "a number",
            ),
            (&["--tool=callgrind", "--log-fd=-1", "ls"], "descriptor"),
            (
                &["--tool=callgrind", "--fair-sched=maybe", "ls"],
                "no, yes, try",
            ),
            (
                &["--tool=callgrind", "--callgrind-out-file=", "ls"],
                "a value",
            ),
            (&["--tool=callgrind"], "no program"),
            (&["--tool=none", "--machine=z80", "ls"], "--machine=z80"),
            (&["--tool=none", "--machine", "ls"], "the name of a machine"),
            (&["--tool=none", "-", "ls"], "unknown option"),
        ] {
            let failure = parsed(words).expect_err(said);
            assert!(
                failure.contains(said) && !failure.contains('\n'),
                "{words:?}: {failure}"
            );
        }
    }

    #[test]
    fn other_tools_are_valgrinds() {
        for (words, tool) in [
            (&["ls"][..], "memcheck"),
            (&["--tool=dhat", "--any=option", "ls"], "dhat"),
            (&["--tool=callgrind", "--tool=drd"], "drd"),
        ] {
            assert_eq!(parsed(words), Ok(Asked::Elsewhere(tool)));
        }
    }

    #[test]
    fn what_changes_nothing_is_accepted_and_noted() {
        let options = options(&[
            "--tool=callgrind",
            "--cache-sim=yes",
            "--collect-jumps=yes",
            "--collect-bus=no",
            "--dump-every-bb=0",
            "--dump-every-bb=100000",
            "ls",
        ]);
        let noted: Vec<&str> = options
            .noted
            .iter()
            .map(|(word, _)| word.as_str())
            .collect();
        assert_eq!(noted, ["--collect-jumps=yes", "--dump-every-bb=100000"]);
        assert_eq!(
            parsed(&["--tool=callgrind", "--version", "--foo"]),
            Ok(Asked::Version)
        );
        assert_eq!(parsed(&["--help"]), Ok(Asked::Help));
        let from_environment = parse(Some(" --tool=none  -q "), &["ls".into()]).expect("options");
        assert!(matches!(from_environment, Asked::Run(o) if o.quiet && o.tool == Tool::None));
    }

    #[test]
    fn names_of_files_are_filled_in() {
        let of = |pattern: &str| expand("--log-file", pattern, 7, 2).map_err(|f| f.to_string());
        assert_eq!(of("a.%p-%n%%"), Ok("a.7-2%".into()));
        let home = std::env::var_os("PATH").expect("PATH");
        assert_eq!(of("%q{PATH}"), Ok(home));
        for wrong in ["%x", "%", "%q", "%qHOME", "%q{NO_SUCH_VARIABLE_HERE}"] {
            assert!(of(wrong).expect_err(wrong).contains(wrong), "{wrong}");
        }
    }
}
