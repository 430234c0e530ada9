//! Values that stand apart from options which take them with `=` alone.

use crate::support::{code, fails, run};

/// An option whose value is optional takes it with `=` alone: the word behind it is the program, or a file, and what
/// becomes of that says so.
#[test]
fn a_value_that_stands_apart_from_its_option() {
    let mut lines = vec![
        (
            &["stat", "--deterministic", "aslr", "--", "true"][..],
            127,
            "--deterministic=aslr",
        ),
        (
            &["bench", "--json", "no-such.json", "true"],
            127,
            "--json=no-such.json",
        ),
        (
            &["check", "--json", "no-such.json"],
            2,
            "--json=no-such.json",
        ),
        (
            &["report", "--json", "no-such.json"],
            1,
            "--json=no-such.json",
        ),
    ];
    if cfg!(target_arch = "x86_64") {
        lines.push((
            &["run", "--model", "zen4", "--", "true"],
            127,
            "--model=zen4",
        ));
    }
    for (args, status, hint) in lines {
        fails(args, status, &[hint]);
    }
    // A program of that name is one: nothing is wrong with such a line.
    assert_eq!(code(&run(&["stat", "--deterministic", "true"])), 0);
}
