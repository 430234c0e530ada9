//! What is held constant and what is varied in one run, and what cannot be varied here at all.
//!
//! Where the machine itself gives identical runs the same (the environment, the path, the working directory, process
//! numbers after a while), varying means to change it at random: that is what another user's shell, another directory
//! or another day does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use truecount_stats::Rng;

use super::Condition;
use truecount_run::determinism::mount_ns::Directory;
use truecount_run::determinism::{Factor, Fixed, Machine, Missing, Varied, allowed_cpus, pid};
use truecount_run::{Error, ErrorKind};

/// Largest growth of the environment, bytes.
const GROWTH: u64 = 4096;
/// Most times that `./` is put into the path.
const DOTS: u64 = 100;
/// Longest name of the directory below which the tree is bound.
const NAME: u64 = 200;

/// Something that is not varied, and why.
#[derive(Debug, Clone, Serialize)]
pub struct NotTested {
    /// A factor's name, or that of what truecount cannot hold constant at all.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// Why.
    pub reason: String,
}

impl NotTested {
    pub(super) fn factor(missing: &Missing) -> Self {
        Self {
            name: missing.factor.name(),
            title: missing.factor.title(),
            reason: missing.reason.clone(),
        }
    }
}

/// Why a factor cannot be varied on this machine.
pub(super) fn refusal(factor: Factor, directory: &Path) -> Option<String> {
    match factor {
        Factor::Aslr => {
            let path = "/proc/sys/kernel/randomize_va_space";
            let off = std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0");
            // SAFETY: asks only.
            let mine = unsafe { libc::personality(0xffff_ffff) };
            if off {
                return Some(
                    "the kernel randomises no addresses (kernel.randomize_va_space = 0)".into(),
                );
            }
            (mine & libc::ADDR_NO_RANDOMIZE != 0)
                .then(|| "truecount was itself started without it (setarch -R)".into())
        }
        Factor::Cwd => {
            let error = match Directory::below(directory) {
                Ok(directory) => directory.refused()?,
                Err(error) => error,
            };
            Some(format!(
                "another name for the same directory needs a mount namespace: {error}"
            ))
        }
        Factor::Cpu => {
            (allowed_cpus().len() < 2).then(|| "there is only one CPU to run on".to_owned())
        }
        Factor::Pid => pid::choose(pid::held(), None)
            .err()
            .map(|error| pid::reason(&error)),
        _ => None,
    }
}

/// A directory for other names of the working directory, removed at the end.
pub(super) struct ScratchDir(PathBuf);

impl ScratchDir {
    pub(super) fn make() -> Result<Self, Error> {
        let name = format!("truecount-noise-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Fails where there is anything of that name: nobody else can have put it there.
        let made = std::fs::DirBuilder::new().mode(0o711).create(&path);
        made.map_err(|error| {
            Error::new(
                ErrorKind::Setup,
                format!("cannot make the directory {}: {error}", path.display()),
            )
            .hint("name another place for it in TMPDIR")
        })?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // Only if it is empty, as it should be.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// One run to be made.
pub(super) struct Setup {
    pub(super) fixed: Fixed,
    pub(super) keep_aslr: bool,
    pub(super) program: PathBuf,
    pub(super) argv: Vec<OsString>,
    /// Made for the run, to be removed after it.
    directory: Option<PathBuf>,
}

impl Drop for Setup {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // What was bound there was so for the program alone: it is an empty directory.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// `./` `dots` times before the last part of a path that has more than one.
fn longer(path: &OsStr, dots: usize) -> OsString {
    let bytes = path.as_bytes();
    let Some(slash) = bytes.iter().rposition(|&byte| byte == b'/') else {
        return path.to_owned();
    };
    let (directory, name) = bytes.split_at(slash.saturating_add(1));
    OsString::from_vec([directory, &b"./".repeat(dots), name].concat())
}

/// The machine that programs are shown: the highest level that this CPU has, up to that of `--reproducible`; varied, any
/// that it has, with one CPU or more, or this one as it is.
fn shown(varied: bool, rng: &mut Rng) -> Option<Machine> {
    const MOST: u64 = 4;
    let names: Vec<&str> = Machine::names().collect();
    let all = names.iter().filter_map(|name| Machine::named(name).ok());
    let mut can: Vec<Machine> = all.filter(|machine| machine.lacking().is_none()).collect();
    if !varied {
        can.retain(|machine| {
            machine.name().starts_with("x86-64-v") && machine.name().as_str() <= "x86-64-v3"
        });
        return can.pop();
    }
    let at = usize::try_from(rng.below(can.len() as u64 + 1)).ok()?;
    let name = can.get(at)?.name();
    Machine::named(&format!("{name},cpus={}", rng.below(MOST) + 1)).ok()
}

impl Setup {
    /// A run with `released` of `factors` varied; `below` is a directory of truecount's, `shows` the machine that programs
    /// are shown where it is not varied.
    pub(super) fn new(
        released: Condition,
        factors: &[Factor],
        rng: &mut Rng,
        program: &Path,
        argv: &[OsString],
        below: &Path,
        shows: Option<Machine>,
    ) -> Result<Self, Error> {
        let free = |factor: Factor| match released {
            Condition::Nothing => false,
            Condition::One(one) => one == factor,
            Condition::Everything => factors.contains(&factor),
        };
        // The vDSO reads the real clock: with it there, the time cannot be held constant.
        let free = |factor| free(factor) || factor == Factor::Time && free(Factor::Clock);
        // The environment is padded and grows by what is drawn: left as it is, it would be constant.
        let held: Vec<Factor> = Factor::remedies()
            .into_iter()
            .filter(|&factor| factor == Factor::Env || !free(factor))
            .collect();
        let mut draw = |below: u64| usize::try_from(rng.below(below)).unwrap_or(0);
        let mut setup = Self {
            fixed: Fixed::new(&[]),
            keep_aslr: free(Factor::Aslr),
            program: program.to_owned(),
            argv: argv.to_vec(),
            directory: None,
        };
        let mut loose = Varied::default();
        if free(Factor::Env) {
            loose.environment = draw(GROWTH);
        }
        if free(Factor::Path) {
            let dots = draw(DOTS);
            setup.program = longer(program.as_os_str(), dots).into();
            if let Some(first) = setup.argv.first_mut() {
                *first = longer(first, dots);
            }
        }
        if free(Factor::Cwd) {
            let directory = below.join("d".repeat(draw(NAME).saturating_add(1)));
            let failed = |error: std::io::Error| {
                Error::new(
                    ErrorKind::Setup,
                    format!("cannot make {}: {error}", directory.display()),
                )
            };
            std::fs::create_dir(&directory).map_err(failed)?;
            setup.directory = Some(directory.clone());
            loose.directory = Some(Directory::below(&directory).map_err(failed)?);
        }
        if free(Factor::Pid) {
            loose.pid = Some(pid::any(|below| rng.below(below)));
        }
        if free(Factor::Files) {
            loose.files = Some(rng.next_u64());
        }
        let machine = if factors.contains(&Factor::Machine) {
            match shows.filter(|_| !free(Factor::Machine)) {
                Some(shows) => Some(shows),
                None => shown(free(Factor::Machine), rng),
            }
        } else {
            shows
        };
        // The virtual PMU's scheduler sets its clock on when all wait: where the time is free it would stand still.
        let scheduler = factors.contains(&Factor::Threads) && !free(Factor::Time);
        setup.fixed = Fixed::new(&held)
            .varied(loose)
            .with_machine(machine)
            .with_kernel_turns(!scheduler);
        Ok(setup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_path_leads_to_the_same_file() {
        assert_eq!(longer("/bin/sh".as_ref(), 2), "/bin/././sh");
        assert_eq!(longer("./a".as_ref(), 1), "././a");
        assert_eq!(longer("sh".as_ref(), 3), "sh");
        let twice = longer("/proc/self/exe".as_ref(), 50);
        assert_eq!(
            std::fs::canonicalize(twice).unwrap(),
            std::env::current_exe().unwrap().canonicalize().unwrap()
        );
    }

    #[test]
    fn only_what_is_varied_changes() {
        let directory = tempfile::tempdir().unwrap();
        let mut rng = Rng::new(3);
        let argv = [OsString::from("/bin/true")];
        let mut of = |released| {
            let program = Path::new("/bin/true");
            Setup::new(
                released,
                &Factor::ALL,
                &mut rng,
                program,
                &argv,
                directory.path(),
                None,
            )
            .unwrap()
        };
        let still = of(Condition::Nothing);
        assert!(!still.keep_aslr && still.fixed.directory().is_none());
        assert!(Factor::remedies().iter().all(|&f| still.fixed.has(f)));
        let aslr = of(Condition::One(Factor::Aslr));
        assert!(aslr.keep_aslr && !aslr.fixed.has(Factor::Aslr) && aslr.fixed.has(Factor::Pid));
        let path = of(Condition::One(Factor::Path));
        assert_eq!(path.argv[0].as_os_str(), path.program.as_os_str());
        let cwd = of(Condition::One(Factor::Cwd));
        let made = cwd.directory.clone().unwrap();
        assert!(made.is_dir() && cwd.fixed.directory().is_some());
        drop(cwd);
        assert!(!made.exists());
        let all = of(Condition::Everything);
        assert!(all.keep_aslr && all.fixed.has(Factor::Env) && !all.fixed.has(Factor::Cpu));
    }
}
