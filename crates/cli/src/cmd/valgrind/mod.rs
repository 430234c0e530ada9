//! `truecount valgrind`, and the same by the name `valgrind`: the command line, the log and the files of Valgrind's
//! tools callgrind, cachegrind and none, served by the virtual PMU. For harnesses that start Valgrind.

mod chosen;
mod elsewhere;
mod files;
mod heap;
mod known;
mod log;
mod options;
mod said;
mod summary;

use std::ffi::OsString;
use std::io::Write as _;
use std::mem::ManuallyDrop;

use truecount_engine::virt::CallOptions;
use truecount_run::determinism::Fixed;
use truecount_run::factor::Factor;
use truecount_run::functions::{Detail, Names, line_costs};
use truecount_run::references::Memory;
use truecount_run::runner::{Launch, Signals, resolve};
use truecount_run::source::virtual_pmu;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::program_args::CacheArgs;
use chosen::Chosen;
use files::Process;
use options::{Asked, Options, Tool};

/// The Valgrind whose interfaces these are.
const SERVED: &str = "valgrind-3.19.0";

const HELP: &str = "\
For harnesses that start Valgrind (gungraun, iai-callgrind, CodSpeed's): truecount valgrind ARGS
takes the arguments of `valgrind ARGS`, and so does truecount itself by the name `valgrind` (a link
or a copy). The program runs under the virtual PMU: at near native speed, the same number every run.

TOOLS
  --tool=callgrind   exact costs and calls by function and line, in Callgrind's format
  --tool=cachegrind  the same in Cachegrind's format
  --tool=none        the program alone
  any other          is left to the next valgrind in PATH, or to the one in TRUECOUNT_VALGRIND

OPTIONS THAT ARE SERVED
  --callgrind-out-file=FILE, --cachegrind-out-file=FILE
  --log-file=FILE, --log-fd=N, -q    in names of files %p is the process, %q{NAME} a variable
  --trace-children=yes               follow execve; each process has its own files
  --dump-instr=yes, --dump-line=no   positions by address, by line
  --compress-strings=no, --compress-pos=no, --combine-dumps=yes, --separate-threads=yes
  --toggle-collect=FUNCTION          collect inside only; * and ? stand for text, for a character
  --dump-before=, --dump-after=, --zero-before=FUNCTION      parts of the profile
  --collect-atstart=no, --instr-atstart=no                   until a request of the program
  --cache-sim=yes, --branch-sim=yes  Cachegrind's caches and branch predictors, for each thread
  --I1=, --D1=, --LL=BYTES,WAYS,LINE sizes of the caches (default: this CPU's)
  --machine=valgrind                 show the program the CPU that Valgrind 3.19 shows, or another
                                     of truecount run --machine (Valgrind has no such option)
  --version, --help
Options that change nothing here are accepted; where something would be missed the log says so.
Unknown ones end with status 1, before anything is run. VALGRIND_OPTS is read, .valgrindrc is not.

EXIT STATUS
  that of the program, which ends truecount by the same signal; 1 for what is wrong with the options
  or the files, 126 and 127 when the program cannot be executed or found, 123 when an internal check
  of the virtual PMU failed.

EXAMPLES
  truecount valgrind --tool=callgrind --callgrind-out-file=out.%p -- ./prog
  callgrind_annotate out.1234
  GUNGRAUN_VALGRIND_BIN=/path/to/a/link/named/valgrind cargo bench";

/// Stand in for Valgrind (callgrind, cachegrind, none), for harnesses that start it
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Valgrind's options, the program and its arguments
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

/// Runs `truecount valgrind`.
pub(crate) fn run(args: &Args) -> CmdResult {
    front(&args.words)
}

/// Runs what the words behind `valgrind` say.
pub(crate) fn front(words: &[OsString]) -> CmdResult {
    let environment = std::env::var("VALGRIND_OPTS").ok();
    match options::parse(environment.as_deref(), words)? {
        Asked::Version => {
            let mut out = Output::stdout();
            match std::env::var("TRUECOUNT_VALGRIND_VERSION") {
                Ok(wanted) => writeln!(out, "{wanted}")?,
                Err(_) => writeln!(out, "{SERVED} (truecount {})", env!("CARGO_PKG_VERSION"))?,
            }
            out.flush()?;
            Ok(Outcome::OK)
        }
        Asked::Help => {
            let mut out = Output::stdout();
            writeln!(
                out,
                "Usage: truecount valgrind [OPTIONS] PROGRAM [ARGS]...\n\n{HELP}"
            )?;
            out.flush()?;
            Ok(Outcome::OK)
        }
        Asked::Elsewhere(tool) => Err(elsewhere::run(tool, words)),
        Asked::Run(options) => profile(&options),
    }
}

fn profile(options: &Options) -> CmdResult {
    heap::grow_in_large_steps();
    virtual_pmu::available().map_err(|reason| Failure::new(1, reason.to_string()))?;
    CacheArgs::apply_default();
    let Some(first) = options.command.first() else {
        return Err(Failure::new(1, "valgrind: no program specified"));
    };
    let program = resolve(first)?;
    // Before the run: a wrong path must not cost one.
    let log = log::Log::open(options)?;
    if options.tool != Tool::None {
        files::can_be_written(options)?;
    }
    let signals = Signals::block()
        .map_err(|error| Failure::new(125, format!("cannot block signals: {error}")))?;
    // As under Valgrind there is no vDSO, addresses are the same each time; and a program that starts twice starts the
    // same way, with the same seeds of its hash tables.
    let fixed = [
        Factor::Aslr,
        Factor::AtRandom,
        Factor::Getrandom,
        Factor::Clock,
    ];
    let fixed = Fixed::new(&fixed).with_machine(options.machine);
    let launch = Launch {
        argv: &options.command,
        fixed: Some(&fixed),
        ..Launch::default()
    };
    let chosen = Chosen::new(options, &program)?;
    let regions = chosen.regions(options);
    let counts = options.tool != Tool::None;
    let calls = CallOptions::default().sites(true);
    let calls = (options.tool == Tool::Callgrind).then_some(calls);
    let simulated = options.simulated();
    let ran = virtual_pmu::execute_regions(
        &signals, &program, &launch, counts, regions, calls, simulated,
    )?;
    // This process ends behind this: piece by piece its memory is not given back.
    let ran = ManuallyDrop::new(ran);
    let detail = Detail {
        instructions: options.form.instructions && options.tool == Tool::Callgrind,
        lines: options.form.lines,
        inlined: false,
        threads: options.separate_threads,
    };
    let mut processes = ManuallyDrop::new(Process::all(&ran, options));
    if let Some(blocks) = &ran.executed.blocks {
        let wanted = |image| processes.iter().any(|process| process.image == image);
        let mut costs = line_costs(&ran, &mut Names::default(), detail, &wanted);
        for process in processes.iter_mut() {
            process.take_parts(options, blocks, &mut costs);
        }
    }
    let mut notes = ran.virtual_notes();
    notes.extend(chosen.notes());
    notes.extend(ran.executed.memory.as_ref().and_then(Memory::lack));
    truecount_run::calls::check(&ran).map_err(|cause| Failure::new(123, cause))?;
    if let Some(calls) = ran.executed.calls.as_ref().filter(|calls| calls.folded > 0) {
        notes.push(format!(
            "{} times a path of calls was met for which there was no room any more: its calls are in the files as calls of \
             [other], costs of functions are whole",
            calls.folded
        ));
    }
    if ran.executed.unprinted > 0 {
        notes.push(format!(
            "{} bytes of what programs printed by client requests are not here: there was no room for them",
            ran.executed.unprinted
        ));
    }
    let said = said::of(&ran);
    let mut problems = Vec::new();
    for process in processes.iter() {
        if counts {
            problems.push(process.check());
            problems.push(process.write(options));
        }
    }
    problems.push(log.write(options, &processes, &notes, &said));
    Failure::of_all(problems)?;
    match ran.exit().signal {
        Some(signal) => Ok(end_by(signal)),
        None => Ok(Outcome(ran.exit().shell_code())),
    }
}

/// Ends truecount as the program was ended, by a signal; without a core file, which would be truecount's.
fn end_by(signal: i32) -> Outcome {
    // SAFETY: system calls on locals; the signal's default action ends the process, or nothing happens.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
    Outcome(u8::try_from(128 + signal).unwrap_or(255))
}
