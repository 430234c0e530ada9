//! Directories of kept translations that cannot be executed from, written to, or hold enough: output and count are the
//! same, and what can be kept is.

use std::process::Command;

use crate::support::{code, stderr, stdout, truecount, virtual_pmu};

/// Three runs, the first without kept translations, on a file system that is mounted as the first argument says and
/// before the last run again as the second one does.
const RUNS: &str = r#"
    mount -t tmpfs -o "$1" cache cache || exit 99
    export XDG_CACHE_HOME=$PWD/cache
    run() { "$TRUECOUNT" run --deterministic --json="$@" -- env expr 1 = 2 || echo "status $?"; }
    run none --no-cache
    run first
    test -z "$2" || mount -o "$2" cache cache || exit 99
    run second
"#;

/// How it is mounted first and later, and whether the last run finds translations of the first one.
const MOUNTED: &[(&str, &str, bool)] = &[
    ("mode=700,noexec", "", true),
    ("mode=700,nosuid,nodev,noexec", "remount,ro,noexec", true),
    ("mode=700,size=64k", "", false),
    ("mode=700,nr_inodes=2", "", false),
    ("mode=700,ro", "", false),
];

#[test]
fn the_file_system_of_kept_translations_is_in_no_count() {
    if !virtual_pmu() {
        return;
    }
    for (first, later, kept) in MOUNTED {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("cache")).unwrap();
        let output = Command::new("unshare")
            .args(["-Urm", "sh", "-c", RUNS, "sh", first, later])
            .current_dir(directory.path())
            .env("TRUECOUNT", truecount(&[]).get_program())
            .env_remove("TRUECOUNT_NO_CACHE")
            .output();
        let output = match output {
            Ok(output) if code(&output) == 0 => output,
            Ok(output) => {
                truecount_testing::skip!("remedies", "{}", stderr(&output));
                return;
            }
            Err(error) => {
                truecount_testing::skip!("remedies", "unshare: {error}");
                return;
            }
        };
        assert_eq!(stdout(&output), "0\nstatus 1\n".repeat(3), "{first}");
        assert_eq!(stderr(&output), "", "{first}");
        let [none, before, after] = ["none", "first", "second"].map(|name| {
            let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap()
        });
        for document in [&none, &before, &after] {
            assert_eq!(document["counters"][0]["precision"], "exact", "{first}");
            let value = |of: &serde_json::Value| of["counters"][0]["value"].as_u64();
            assert_eq!(value(document), value(&none), "{first}");
        }
        let cached = after["cached_blocks"].as_u64().unwrap();
        assert_eq!(cached > 0, *kept, "{first}: {cached} blocks");
        // Where the directory cannot be made it is said.
        let notes = before["notes"].to_string();
        let said = notes.contains("translations are not kept");
        assert_eq!(said, first.contains("ro"), "{first}: {notes}");
    }
}
