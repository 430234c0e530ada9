//! Finds the program as `execvp` does (POSIX XBD 8.3, `PATH`) and says why it could not be run.

use std::ffi::{CString, OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};

/// The file that `execve` gets for `program`: itself when it holds a slash, else the first
/// executable file of that name along `PATH`.
///
/// # Errors
/// Status 127 when there is none, 126 when the only one is not executable.
pub fn resolve(program: &OsStr) -> Result<PathBuf, Error> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let path =
        std::env::var_os("PATH").unwrap_or_else(|| OsString::from_vec(b"/bin:/usr/bin".to_vec()));
    let mut denied = None;
    for directory in std::env::split_paths(&path) {
        let directory = if directory.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            directory
        };
        let candidate = directory.join(program);
        if !candidate.is_file() {
            continue;
        }
        if executable(&candidate) {
            return Ok(candidate);
        }
        denied.get_or_insert(candidate);
    }
    match denied {
        Some(file) => Err(exec_failure(&file, libc::EACCES)),
        None if program.is_empty() => Err(Error::new(ErrorKind::Usage, "the command is empty")),
        None => Err(Error::new(
            ErrorKind::NotFound,
            format!("program `{}` not found in PATH", program.to_string_lossy()),
        )
        .hint(instead_of(&program.to_string_lossy()))),
    }
}

/// Commands of the shell that are no programs (POSIX XCU 2.14 and 1.7, and those of bash).
const OF_THE_SHELL: [&str; 32] = [
    "cd", "export", "source", ".", "ulimit", "set", "unset", "alias", "exit", "exec", "eval", "if",
    "for", "while", "until", "case", "function", "trap", "read", "shift", "umask", "wait", "local",
    "declare", "let", "pushd", "popd", "jobs", "fg", "bg", "[[", "return",
];

/// What to do where there is no program of this name.
fn instead_of(program: &str) -> String {
    let shell = "give it to one: sh -c '…' (bench: --shell)";
    let is_name = |name: &str| {
        let other = |letter: char| letter == '-' || letter.is_whitespace();
        !name.is_empty() && !name.contains(other)
    };
    match program.split_once('=') {
        Some((name, value)) if is_name(name) && value.contains(char::is_whitespace) => {
            format!("it is one word with spaces in it: `env {program}` without quotes, or a shell: sh -c '…'")
        }
        Some((name, _)) if is_name(name) => {
            format!("a shell sets variables, or `env {program} CMD`; {shell}")
        }
        _ if OF_THE_SHELL.contains(&program) => {
            format!("it is a command of the shell; {shell}")
        }
        _ if program.contains(char::is_whitespace) => {
            "it is one word with spaces in it: leave the quotes out, or give it to a shell: sh -c '…'"
                .to_owned()
        }
        _ => "check the spelling, or give its path".to_owned(),
    }
}

fn executable(file: &Path) -> bool {
    let Ok(file) = CString::new(file.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: `file` is a NUL-terminated string.
    unsafe { libc::access(file.as_ptr(), libc::X_OK) == 0 }
}

/// Whether the kernel runs such a file by itself: ELF or a script with an interpreter. The C library's `execvp`,
/// which the engines' launchers use, gives anything else to a shell. A file that cannot be read may be either.
pub fn known_format(file: &Path) -> bool {
    if !executable(file) {
        // The attempt says so.
        return true;
    }
    let mut start = Vec::with_capacity(4);
    match std::fs::File::open(file).and_then(|file| file.take(4).read_to_end(&mut start)) {
        Ok(_) => truecount_elf::is_elf(&start) || start.starts_with(b"#!"),
        Err(_) => true,
    }
}

/// The failure for an `execve` of `file` that gave `errno`.
pub fn exec_failure(file: &Path, errno: i32) -> Error {
    let shown = file.display();
    match errno {
        libc::ENOENT if file.exists() => Error::new(
            ErrorKind::NotFound,
            format!("`{shown}` exists, but the interpreter or loader that it names does not"),
        )
        .hint("look at its first line (`#!`) or at `file` of it"),
        libc::ENOENT | libc::ENOTDIR => {
            Error::new(ErrorKind::NotFound, format!("program `{shown}` not found"))
                .hint("check the path")
        }
        libc::EACCES if file.is_dir() => Error::new(
            ErrorKind::NotExecutable,
            format!("`{shown}` is a directory, not a program"),
        ),
        libc::EACCES => Error::new(
            ErrorKind::NotExecutable,
            format!("`{shown}` is not executable"),
        )
        .hint(format!("chmod +x {shown}, if it is a program")),
        libc::ENOEXEC => Error::new(
            ErrorKind::NotExecutable,
            format!("`{shown}` is not a format that this kernel runs"),
        )
        .hint("a script needs a first line such as #!/bin/sh"),
        libc::E2BIG => Error::new(
            ErrorKind::NotExecutable,
            "the arguments and the environment are too long",
        )
        .hint("raise the stack limit (ulimit -s) or shorten them"),
        errno => Error::new(
            ErrorKind::NotExecutable,
            format!(
                "cannot execute `{shown}`: {}",
                std::io::Error::from_raw_os_error(errno)
            ),
        ),
    }
}
