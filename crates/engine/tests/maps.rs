//! What a program sees of its own mappings under the virtual PMU: what it sees natively.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch};
use truecount_engine::virt::Options;

/// Without address randomisation.
fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdout(Stdio::piped());
    fixed_layout(&mut command);
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
        let Some(mut running) = launch(&mut command(words), &Options::default()) else {
            return;
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

/// The kernel writes the list when it is read: a mapping made after the `open` is in it, and in it
/// again after a return to the start. The program ends with the errors it saw.
#[test]
fn a_mapping_made_after_the_open_is_in_the_list() {
    let source = r#"#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char text[1 << 16];
static int listed(int fd, const void *at) {
    char line[32];
    long n = 0, got;
    while ((got = read(fd, text + n, sizeof text - 1 - n)) > 0) n += got;
    text[n] = 0;
    snprintf(line, sizeof line, "%lx-", (unsigned long)at);
    return strstr(text, line) != 0;
}
int main(void) {
    int fd = open("/proc/self/maps", O_RDONLY);
    void *a = mmap((void *)0x10000000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    int result = !listed(fd, a);
    void *b = mmap((void *)0x20000000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    munmap(a, 4096);
    lseek(fd, 0, SEEK_SET);
    result |= listed(fd, a) << 1;
    lseek(fd, 0, SEEK_SET);
    result |= !listed(fd, b) << 2;
    close(fd);
    return result | (open("/dev/null", O_RDONLY) != fd) << 4;
}
"#;
    let Some(program) = built("maps-reader.c", source, &["-O1"]) else {
        return;
    };
    let words = [program.to_str().unwrap()];
    // As the kernel does it, without the virtual PMU.
    assert_eq!(command(&words).status().unwrap().code(), Some(0));
    let Some(running) = launch(&mut command(&words), &Options::default()) else {
        return;
    };
    assert_eq!(running.wait().unwrap().status.code(), Some(0));
}
