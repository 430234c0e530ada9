//! A home directory that does not exist is never made (`nobody`'s would be somebody's), whatever the command keeps or
//! remembers; what it would keep there is simply not kept.

use std::path::Path;

use crate::support::{code, stderr, truecount, virtual_pmu};

/// What remembers something: kept translations, verdicts of counters; and what does not.
const COMMANDS: &[(&str, bool)] = &[
    ("check", false),
    ("events cycles --cpu skl", false),
    ("stat --source software -e page-faults -- true", false),
    ("bench --source software -n 2 -- true", false),
    ("exactness --seconds 0.1 -e page-faults:u", false),
    ("run -- true", true),
    ("run --functions -- true", true),
    ("stat --source virtual -- true", true),
    ("bench --source virtual -n 2 -- true", true),
    (
        "exactness --source virtual --seconds 0.1 -e instructions:u",
        true,
    ),
];

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn a_home_that_does_not_exist_is_not_made() {
    let virtual_pmu = virtual_pmu();
    let directory = tempfile::tempdir().unwrap();
    // The directory above it may be written to: nothing but the command's own restraint keeps it from being made.
    let home = directory.path().join("home");
    for (line, needs_virtual) in COMMANDS {
        if *needs_virtual && !virtual_pmu {
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = truecount(&words);
        command
            .current_dir(directory.path())
            .env("HOME", &home)
            .env_remove("TRUECOUNT_NO_CACHE");
        for variable in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        assert!(!is_there(&home), "{line} makes {}", home.display());
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{line} leaves {left:?}");
    }
    // Where there is one, they do keep something: else the above would say nothing.
    if virtual_pmu {
        std::fs::create_dir(&home).unwrap();
        let output = truecount(&["run", "--", "true"])
            .env("HOME", &home)
            .env_remove("TRUECOUNT_NO_CACHE")
            .env_remove("XDG_CACHE_HOME")
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(is_there(&home.join(".cache/truecount")));
    }
}
