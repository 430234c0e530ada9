//! What a program sees of its own mappings under the engine: what it sees natively.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use truecount_engine::virt::{self, LaunchError, Options};

/// Without address randomisation.
fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdout(Stdio::piped());
    // SAFETY: one system call without memory arguments.
    unsafe {
        command.pre_exec(|| {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        });
    }
    command
}

#[test]
fn the_engine_is_not_in_the_list() {
    // Read by the shell itself, which maps nothing between opening and reading.
    let read = "while read -r line; do echo \"$line\"; done";
    for path in ["/proc/self/maps", "/proc/$$/maps"] {
        let script = format!("{read} < {path}");
        let words = &["sh", "-c", script.as_str()];
        let native = command(words).output().unwrap();
        let mut running = match virt::launch(&mut command(words), &Options::default()) {
            Ok(running) => running,
            Err(LaunchError::PtraceForbidden { error }) => {
                println!("skipped: ptrace is not permitted: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let mut text = Vec::new();
        let mut pipe = running.child_mut().stdout.take().unwrap();
        std::io::Read::read_to_end(&mut pipe, &mut text).unwrap();
        assert!(running.wait().unwrap().status.success());
        let [seen, expected] =
            [&text, &native.stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(expected.contains("[stack]"));
        assert_eq!(seen, expected);
    }
}
