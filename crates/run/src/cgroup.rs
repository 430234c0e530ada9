//! Control groups to count by: where they are, and whether this kernel counts by them (perf_event_open(2),
//! `PERF_FLAG_PID_CGROUP`; the kernel's `Documentation/admin-guide/cgroup-v2.rst`, "perf_event").

use std::fs::File;
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::{Path, PathBuf};

use truecount_events::generic;
use truecount_model::Reason;
use truecount_perf::{Errno, Event, EventAttr, OpenOptions, SharedKernel, Target, linux};

use crate::error::{Error, ErrorKind};

/// A control group, held open: the kernel wants its directory.
#[derive(Debug)]
pub struct Cgroup {
    /// Its path below the mount point.
    pub name: String,
    directory: File,
}

impl Cgroup {
    /// Opens the group of this name, and sees that the kernel counts by it.
    ///
    /// # Errors
    /// There is no such group, no file system of groups that perf can use, or the kernel refuses.
    pub fn open(name: &str) -> Result<Self, Error> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let Some(root) = mount_point(&mounts) else {
            return Err(Error::unavailable(
                Reason::new("no file system of control groups that perf can use is mounted")
                    .hint("mount -t cgroup2 none /sys/fs/cgroup"),
            ));
        };
        let group = Self::below(&root, name)?;
        group.allowed(&linux())?;
        Ok(group)
    }

    /// As [`Cgroup::open`], below a mount point, without asking the kernel.
    fn below(root: &Path, name: &str) -> Result<Self, Error> {
        let name = name.trim_matches('/');
        let path = root.join(name);
        if !path.join("cgroup.procs").exists() {
            let cause = format!("there is no control group `{name}` in {}", root.display());
            return Err(Error::new(ErrorKind::Unavailable, cause)
                .hint("/proc/PID/cgroup tells the group of a process"));
        }
        let directory = File::open(&path).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("cannot open the control group {}: {error}", path.display()),
            )
        })?;
        let name = name.to_owned();
        Ok(Self { name, directory })
    }

    /// Its descriptor.
    pub fn fd(&self) -> RawFd {
        self.directory.as_raw_fd()
    }

    /// By opening an event that counts nothing (PERF_COUNT_SW_DUMMY).
    fn allowed(&self, kernel: &SharedKernel) -> Result<(), Error> {
        let attr = EventAttr::new(generic::TYPE_SOFTWARE, 9);
        let target = Target::Cgroup {
            fd: self.fd(),
            cpu: 0,
        };
        match Event::open_with(kernel, &attr, target, OpenOptions::default()) {
            Ok(_) => Ok(()),
            Err(error) if error.errno() == Some(Errno::EINVAL) => Err(Error::unavailable(
                Reason::new("this kernel does not count by control group (CONFIG_CGROUP_PERF)")
                    .hint("leave -G out; -p counts a process with its threads"),
            )),
            Err(error) if error.errno() == Some(Errno::ENOENT) => Err(Error::unavailable(
                Reason::new(format!(
                    "control group `{}` is not in the hierarchy by which the kernel counts (controller perf_event)",
                    self.name
                ))
                .hint("/proc/cgroups tells whether there is one, and /proc/mounts where"),
            )),
            Err(error) => Err(Error::unavailable(
                Reason::new(format!("control group `{}`: {}", self.name, error.reason()))
                    .hint(error.hint()),
            )),
        }
    }
}

/// Where the hierarchy is mounted by which perf counts: the one of version 1 that has `perf_event`, else that of
/// version 2, in the form of /proc/self/mounts.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let rows = || {
        mounts.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let (_, at, kind, options) =
                (words.next()?, words.next()?, words.next()?, words.next()?);
            Some((at, kind, options))
        })
    };
    let first = rows()
        .find(|(_, kind, options)| {
            *kind == "cgroup" && options.split(',').any(|o| o == "perf_event")
        })
        .or_else(|| rows().find(|(_, kind, _)| *kind == "cgroup2"))?;
    Some(PathBuf::from(unescaped(first.0)))
}

/// Blanks and the like stand as `\040` there.
fn unescaped(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (code, plain)| {
            text.replace(code, plain)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_hierarchy_is_found_of_both_versions() {
        let both = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                    cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                    cgroup /a\\040b/perf_event cgroup rw,perf_event 0 0\n";
        assert_eq!(mount_point(both), Some(PathBuf::from("/a b/perf_event")));
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(mount_point(second), Some(PathBuf::from("/sys/fs/cgroup")));
        for none in ["", "cgroup /c cgroup rw,cpu 0 0\n", "broken"] {
            assert_eq!(mount_point(none), None);
        }
    }

    #[test]
    fn a_group_that_is_not_there_is_said() {
        let error = Cgroup::below(Path::new("/proc"), "/no/such/").unwrap_err();
        assert_eq!(error.cause, "there is no control group `no/such` in /proc");
        assert!(
            error
                .hint
                .is_some_and(|hint| hint.contains("/proc/PID/cgroup"))
        );
    }
}
