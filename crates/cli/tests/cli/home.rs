//! A home directory that does not exist is never made (`nobody`'s would be somebody's), whatever the command keeps or
//! remembers; what it would keep there is simply not kept.

use std::path::Path;
use std::process::Command;

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

/// Two runs without an environment, as gungraun starts its tools; the list of users is the file beside.
const WITHOUT: &str = r#"
    mount --bind users /etc/passwd || exit 99
    for run in 1 2; do env -i "$TRUECOUNT" valgrind -q --tool=none /bin/true || exit 98; done
"#;

#[test]
fn without_the_variable_the_list_of_users_tells_the_home() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let users = format!("root:x:0:0::{}:/bin/sh\n", home.display());
    std::fs::write(directory.path().join("users"), users).unwrap();
    let output = Command::new("unshare")
        .args(["-Urm", "sh", "-c", WITHOUT])
        .current_dir(directory.path())
        .env("TRUECOUNT", truecount(&[]).get_program())
        .output();
    match output {
        Ok(output) if code(&output) == 0 => {}
        Ok(output) if code(&output) == 98 => panic!("{}", stderr(&output)),
        Ok(output) => {
            truecount_testing::skip!("remedies", "{}", stderr(&output));
            return;
        }
        Err(error) => {
            truecount_testing::skip!("remedies", "unshare: {error}");
            return;
        }
    }
    let kept = std::fs::read_dir(home.join(".cache/truecount")).unwrap();
    let names = kept.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.collect();
    let is_translation = |name: &String| name.starts_with("translation-");
    assert!(names.iter().any(is_translation), "{names:?}");
}
