//! What makes identical runs differ, and the remedies that truecount applies to the child: the
//! factors of `truecount noise` and of `--deterministic`.
//!
//! Addresses: `personality(2)`. Random bytes: `AT_RANDOM` of `getauxval(3)` and `getrandom(2)`. The
//! environment lies above the stack, so its size moves every stack address (Mytkowicz and others,
//! "Producing wrong data without doing anything obviously wrong", ASPLOS 2009). Allocators:
//! `GLIBC_TUNABLES` (glibc manual, Memory Allocation Tunables), `MALLOC_CONF` (`jemalloc(3)`).

mod descriptor;
mod dirents;
mod exec;
mod files;
mod filter;
pub mod mount_ns;
mod notification;
pub mod pid;
mod random;
mod seccomp_supervisor;
pub mod threads;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

pub use crate::affinity::allowed_cpus;
use crate::env_record::Environment;
use crate::error::{Error, ErrorKind};
pub use crate::factor::{Factor, List, Missing, parse_list, parse_remedies};
use dirents::Order;
pub use dirents::reordered;
use exec::AtExec;
pub use exec::start_of_stack;
pub use filter::{Calls, Filter};
use mount_ns::Directory;
pub use seccomp_supervisor::{Answers, Supervised};
pub use truecount_engine::machine::Machine;

/// What `noise` varies, beyond not holding it constant: what would be the same in runs of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Varied {
    /// Bytes more of environment.
    pub environment: usize,
    /// Another name of the working directory.
    pub directory: Option<Directory>,
    /// The PID to have.
    pub pid: Option<i32>,
    /// Seed of the order in which directories are listed.
    pub files: Option<u64>,
}

/// Bytes to which the environment is padded: strings, terminators and pointers. More goes to the
/// next multiple.
const ENVIRONMENT: usize = 16 << 10;
/// The variable that fills up.
const PAD: &str = "TRUECOUNT_PAD";
/// Any seed is as good; it is in the record.
const SEED: u64 = 0x7472_7565;

/// Which remedies are applied to a program, and with which values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    factors: Vec<Factor>,
    varied: Varied,
    cpus: Vec<usize>,
    /// What programs get instead of the variables of truecount's own.
    environment: Option<Vec<(OsString, OsString)>>,
    /// What programs are shown instead of this machine.
    machine: Option<Machine>,
    /// The kernel lets threads execute in turn, under the virtual PMU, too.
    kernel_turns: bool,
}

impl Fixed {
    /// Holds these factors constant.
    pub fn new(factors: &[Factor]) -> Self {
        let cpus = if factors.contains(&Factor::Cpu) {
            allowed_cpus().last().copied().into_iter().collect()
        } else {
            Vec::new()
        };
        Self {
            factors: factors.to_vec(),
            varied: Varied::default(),
            cpus,
            environment: None,
            machine: None,
            kernel_turns: false,
        }
    }

    /// With a reference machine shown.
    #[must_use]
    pub fn with_machine(mut self, machine: Option<Machine>) -> Self {
        self.machine = machine;
        self
    }

    /// Whether the kernel lets threads execute in turn under the virtual PMU, too, not its own scheduler, which has a
    /// clock of its own.
    #[must_use]
    pub fn with_kernel_turns(mut self, kernel_turns: bool) -> Self {
        self.kernel_turns = kernel_turns;
        self
    }

    /// See [`Self::with_kernel_turns`].
    pub(crate) fn kernel_turns(&self) -> bool {
        self.kernel_turns
    }

    /// The reference machine that is shown.
    pub fn machine(&self) -> Option<Machine> {
        self.machine
    }

    /// With these variables instead of truecount's own.
    #[must_use]
    pub fn with_environment(mut self, variables: Vec<(OsString, OsString)>) -> Self {
        self.environment = Some(variables);
        self
    }

    /// The variables that programs get, before remedies change them.
    fn handed_down(&self) -> Vec<(OsString, OsString)> {
        let own = || std::env::vars_os().collect();
        self.environment.clone().unwrap_or_else(own)
    }

    /// With something varied.
    pub fn varied(mut self, varied: Varied) -> Self {
        self.varied = varied;
        self
    }

    /// Whether this factor is held constant.
    pub fn has(&self, factor: Factor) -> bool {
        self.factors.contains(&factor)
    }

    /// The CPU to bind to, if that is a factor.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// In which order directories are listed.
    fn files(&self) -> Option<Order> {
        let varied = self.varied.files.map(Order::Shuffled);
        varied.or(self.has(Factor::Files).then_some(Order::Sorted))
    }

    /// The random bytes of every program.
    pub fn at_random(&self) -> Option<[u8; 16]> {
        self.has(Factor::AtRandom).then_some(*b"truecount fixed!")
    }

    /// What the thread that answers does.
    pub fn wanted(&self) -> Supervised {
        Supervised {
            getrandom: self.has(Factor::Getrandom).then_some(SEED),
            files: self.files(),
            at_exec: AtExec {
                random: self.at_random(),
                hide_vdso: self.has(Factor::Clock),
            },
        }
    }

    /// The working directory's other name.
    pub fn directory(&self) -> Option<&Directory> {
        self.varied.directory.as_ref()
    }

    /// What only the virtual PMU can hold constant, for the other sources.
    pub fn only_virtual(&self) -> impl Iterator<Item = Missing> {
        [
            (
                self.has(Factor::Time),
                Factor::Time,
                "only the virtual PMU has a clock of its own (--source virtual)",
            ),
            (
                self.has(Factor::Random),
                Factor::Random,
                "only the virtual PMU answers random devices and instructions (--source virtual)",
            ),
            (
                self.machine.is_some(),
                Factor::Machine,
                "only the virtual PMU shows another machine (--source virtual)",
            ),
        ]
        .into_iter()
        .filter(|(wanted, ..)| *wanted)
        .map(|(_, factor, reason)| Missing::new(factor, reason))
    }

    /// The number that the program is to have, if any.
    pub fn pid(&self) -> Option<i32> {
        let held = self.has(Factor::Pid).then(pid::held);
        self.varied.pid.or(held)
    }

    /// Whether threads run in turn, or why that is not available.
    pub fn in_turn(&self) -> Result<bool, Missing> {
        if !self.has(Factor::Threads) {
            return Ok(false);
        }
        threads::refused().map_or(Ok(true), Err)
    }

    /// Every variable of the program, in the order of their names.
    pub fn environment(&self, program: &Path, argv: &[OsString]) -> Vec<(OsString, OsString)> {
        let mut all: BTreeMap<OsString, OsString> = self.handed_down().into_iter().collect();
        all.extend(self.variables(program, argv));
        all.into_iter().collect()
    }

    /// Variables to set, on top of those that are handed down.
    pub fn variables(&self, program: &Path, argv: &[OsString]) -> Vec<(OsString, OsString)> {
        let mut set: Vec<(OsString, OsString)> = Vec::new();
        let handed_down = self.handed_down();
        let get = |name: &str| handed_down.iter().find(|(n, _)| n == name).map(|(_, v)| v);
        let appended =
            |name: &str, setting: &str, between: &str| appended(name, get(name), setting, between);
        if self.has(Factor::Malloc) {
            let jemalloc = "narenas:1,background_thread:false,dirty_decay_ms:-1,muzzy_decay_ms:-1";
            set.push(appended("GLIBC_TUNABLES", "glibc.malloc.arena_max=1", ":"));
            set.push(appended("MALLOC_CONF", jemalloc, ","));
            set.push(appended("_RJEM_MALLOC_CONF", jemalloc, ","));
        }
        if let (Some(directory), Some(_)) = (self.directory(), get("PWD")) {
            let [_, inside] = directory.words();
            set.push(("PWD".into(), OsStr::from_bytes(inside.to_bytes()).into()));
        }
        let (env, path, more) = (
            self.has(Factor::Env),
            self.has(Factor::Path),
            self.varied.environment,
        );
        if env || path || more > 0 {
            let kept = handed_down.iter().filter(|(name, _)| {
                name.as_os_str() != OsStr::new(PAD) && set.iter().all(|(other, _)| other != name)
            });
            let variables: usize = kept
                .map(|(name, value)| entry(name, value))
                .chain(set.iter().map(|(name, value)| entry(name, value)))
                .sum::<usize>()
                + entry(OsStr::new(PAD), OsStr::new(""));
            // The path lies above the environment, the arguments below it (`create_elf_tables` in fs/binfmt_elf.c).
            let words: usize = argv
                .iter()
                .map(|word| word.as_bytes().len() + 1 + size_of::<usize>())
                .sum();
            let path_and_words = program.as_os_str().as_bytes().len() + 1 + words;
            let used = usize::from(env) * variables + usize::from(path) * path_and_words;
            let fill = used.next_multiple_of(ENVIRONMENT).saturating_sub(used);
            set.push((PAD.into(), "x".repeat(fill.saturating_add(more)).into()));
        }
        set
    }

    /// The warning, where random bytes are not random.
    pub fn warning(&self) -> Option<String> {
        let any = [Factor::Getrandom, Factor::AtRandom, Factor::Random];
        any.into_iter()
            .any(|factor| self.has(factor))
            .then(|| WARNING.to_owned())
    }

    /// Writes what was applied and what was not into the record; the notes for the reader.
    pub fn record(&self, missing: &[Missing], environment: &mut Environment) -> Vec<String> {
        let is_missing = |factor: Factor| missing.iter().any(|each| each.factor == factor);
        environment.deterministic = self
            .factors
            .iter()
            .filter(|&&factor| !is_missing(factor))
            .map(|factor| factor.name().to_owned())
            .collect();
        environment.not_deterministic = missing.to_vec();
        let shown = self.machine.filter(|_| !is_missing(Factor::Machine));
        environment.reference = shown.map(|machine| machine.id());
        let refused = missing.iter().map(|each| {
            format!(
                "Not held constant: {}: {}.",
                each.factor.title(),
                each.reason
            )
        });
        self.warning().into_iter().chain(refused).collect()
    }
}

/// Adds what one run could not hold constant to what others could not.
pub fn merge(all: &mut Vec<Missing>, more: Vec<Missing>) {
    for each in more {
        if !all.iter().any(|known| known.factor == each.factor) {
            all.push(each);
        }
    }
    all.sort_by_key(|each| each.factor);
}

/// Bytes of a variable above the stack.
fn entry(name: &OsStr, value: &OsStr) -> usize {
    name.as_bytes().len() + value.as_bytes().len() + 2 + size_of::<usize>()
}

/// A variable with a setting more than it has; the last setting of a name wins.
fn appended(
    name: &str,
    value: Option<&OsString>,
    setting: &str,
    between: &str,
) -> (OsString, OsString) {
    let mut value = value.cloned().unwrap_or_default();
    if !value.is_empty() {
        value.push(between);
    }
    value.push(setting);
    (name.into(), value)
}

/// What `--clean-env` hands down: enough for programs to be found and to speak plainly, and the same on every machine
/// and in every directory. More is given by name, from truecount's own environment or with a value (`NAME=VALUE`).
///
/// # Errors
/// [`ErrorKind::Usage`]: a variable that is not set.
pub fn clean_environment(more: &[OsString]) -> Result<Vec<(OsString, OsString)>, Error> {
    let mut all: BTreeMap<OsString, OsString> = CLEAN
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .collect();
    for each in more {
        let bytes = each.as_bytes();
        let (name, value) = match bytes.iter().position(|&byte| byte == b'=') {
            Some(at) => {
                let (name, rest) = bytes.split_at(at);
                let value = rest.get(1..).unwrap_or_default();
                (name, Some(OsStr::from_bytes(value).to_owned()))
            }
            None => (bytes, std::env::var_os(each)),
        };
        let shown = each.to_string_lossy();
        let value = value.filter(|_| !name.is_empty()).ok_or_else(|| {
            Error::new(
                ErrorKind::Usage,
                format!("--env {shown}: this variable is not set"),
            )
            .hint("write NAME of a variable that is, or NAME=VALUE")
        })?;
        all.insert(OsStr::from_bytes(name).to_owned(), value);
    }
    Ok(all.into_iter().collect())
}

/// The path is the one that POSIX systems use where none is set.
const CLEAN: [(&str, &str); 2] = [
    ("LANG", "C"),
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
];

/// What the user has to know before random numbers stop being random.
const WARNING: &str = "getrandom and AT_RANDOM are not random in this run: keys, tokens \
    and nonces that the program makes are predictable. Use it for measurements only.";

/// To be called just before the program starts, when so many `threads` start first (as for [`pid::choose`]): chooses its
/// PID, if it is to have one, and keeps others from choosing until the result is dropped. What could not be done is added
/// to `missing`.
pub fn choose_pid(
    fixed: Option<&Fixed>,
    threads: Option<i32>,
    missing: &mut Vec<Missing>,
) -> Option<pid::Chosen> {
    let chosen = pid::choose(fixed?.pid()?, threads);
    let refused = |error| missing.push(Missing::new(Factor::Pid, pid::reason(&error)));
    chosen.map_err(refused).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of strings and pointers that a program would get.
    fn size(factors: &[Factor], more: usize, argv: &[&str]) -> (usize, usize) {
        let varied = Varied {
            environment: more,
            ..Varied::default()
        };
        let argv: Vec<OsString> = argv.iter().map(Into::into).collect();
        let fixed = Fixed::new(factors).varied(varied);
        let all = fixed.environment(Path::new("/bin/prog"), &argv);
        let words: usize = argv.iter().map(|word| word.len() + 9).sum();
        (
            all.iter().map(|(name, value)| entry(name, value)).sum(),
            words + "/bin/prog".len() + 1,
        )
    }

    #[test]
    fn the_environment_has_the_same_size_whatever_else_is_set() {
        let of = |factors: &[Factor], more| size(factors, more, &["a"]).0;
        let plain = of(&[Factor::Env], 0);
        assert_eq!(plain % ENVIRONMENT, 0);
        assert_eq!(of(&[Factor::Env, Factor::Malloc], 0), plain);
        assert_eq!(of(&[Factor::Env], 77), plain + 77);
        let none = Fixed::new(&[Factor::Aslr]).variables(Path::new("a"), &[]);
        assert!(none.is_empty());
    }

    #[test]
    fn longer_arguments_leave_the_stack_where_it_was() {
        for words in [&["a"][..], &["a", "bcd"], &["/a/long/path/to/it", "b"]] {
            let (environment, words) = size(&[Factor::Env, Factor::Path], 0, words);
            assert_eq!((environment + words) % ENVIRONMENT, 0);
        }
    }

    #[test]
    fn what_was_not_applied_is_not_in_the_list_of_what_was() {
        let mut missing = vec![Missing::new(Factor::Pid, "not root")];
        merge(
            &mut missing,
            vec![Missing::new(Factor::Clock, "old kernel")],
        );
        merge(&mut missing, vec![Missing::new(Factor::Pid, "again")]);
        let mut environment = Environment::default();
        let fixed = Fixed::new(&[Factor::Aslr, Factor::Clock, Factor::Pid]);
        let notes = fixed.record(&missing, &mut environment);
        assert_eq!(environment.deterministic, ["aslr"]);
        let factors: Vec<Factor> = missing.iter().map(|each| each.factor).collect();
        assert_eq!(factors, [Factor::Clock, Factor::Pid]);
        assert_eq!(environment.not_deterministic, missing);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[1].contains("PID length") && notes[1].contains("not root"));
    }
}
