//! `history` where repositories and stores are not the usual ones: shallow clones, linked work trees, two at once, stores
//! that are none; and results that bring a tree of calls along.

use std::process::Stdio;

use serde_json::json;

use crate::history::{Project, functions, one};
use crate::support::{code, stderr, truecount, until};

/// A result of `run --calls` explains a change by its paths, and by the functions of its tree where no others are there.
#[test]
fn the_paths_of_calls_that_moved_are_named() {
    let Some(project) = Project::new() else {
        return;
    };
    // main calls sort, which costs so much.
    let add = |calls: u64, own: u64| {
        project.add(&one(100 + own));
        let mut run = functions(&[]);
        run["counters"][0]["value"] = json!(100 + own);
        let node = |parent: Option<u64>, function: u64, calls: u64, own: u64, inclusive: u64| json!({"parent": parent, "function": function, "kind": "function", "calls": calls, "self": own, "inclusive": inclusive});
        run["calls"] = json!({
            "functions": [{"name": "main", "module": "/a/b/prog"}, {"name": "sort", "module": "/a/b/prog"}],
            "nodes": [node(None, 0, 1, 100, 100 + own), node(Some(0), 1, calls, own, own)],
            "total": 100 + own, "folded": 0, "too_deep": 0, "sums": [],
        });
        let path = project.write("run.json", &run);
        project.expect(0, &["add", "--name", "sort", path.to_str().unwrap()]);
        std::fs::remove_file(path).unwrap();
    };
    project.commit("First");
    add(3, 900);
    project.commit("Second");
    add(4, 1200);
    for command in ["compare", "changes"] {
        let text = project.expect(0, &[command]);
        for line in [
            "+300  sort (prog): 900 → 1,200",
            "+300  sort ← main: 900 → 1,200, 3 → 4 calls",
        ] {
            assert!(text.contains(line), "{command}: no `{line}` in {text}");
        }
    }
}

/// What a shallow clone has first is not the first commit.
#[test]
fn a_shallow_clone_is_told_what_it_lacks() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("First");
    project.commit("Second");
    let address = format!("file://{}", project.path().display());
    project.git(&["clone", "--quiet", "--depth", "1", &address, "shallow"]);
    project.add(&one(1));
    let store = project.path().join(".truecount/history.db");
    let shallow = project.path().join("shallow");
    let place = [
        "--store",
        store.to_str().unwrap(),
        "--repository",
        shallow.to_str().unwrap(),
    ];
    for (status, gate) in [(1, &[][..]), (4, &["--fail-above", "instructions=0"])] {
        let text = project.expect(status, &[&["compare"], &place[..], gate].concat());
        assert!(
            text.contains("shallow clone")
                && text.contains("--unshallow")
                && text.lines().count() == 1,
            "{text}"
        );
    }
}

/// The store is the repository's: one for all its work trees.
#[test]
fn linked_work_trees_have_one_store() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("First");
    project.add(&one(1));
    let own = project.path();
    project.git(&["worktree", "add", "--quiet", "linked"]);
    std::fs::create_dir(own.join("linked/below")).unwrap();
    std::fs::create_dir(own.join("below")).unwrap();
    for place in ["linked", "linked/below", "below", "."] {
        let directory = own.join(place);
        let text = project.expect(0, &["show", "--repository", directory.to_str().unwrap()]);
        assert!(text.contains("First"), "{place}: {text}");
    }
}

#[test]
fn what_is_no_store_or_no_pair_of_commits_gets_one_line() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("First");
    project.add(&one(1));
    project.commit("Second");
    project.add(&one(2));
    for (status, args, part) in [
        (2, &["show", "--store", "mysql://x/y"][..], "mysql://"),
        (1, &["show", "--store", "."], "is a directory"),
        (2, &["compare", "HEAD", "HEAD"], "the same commit"),
        (2, &["backfill", "..HEAD", "--", "true"], "A..B"),
    ] {
        let output = project.run(args);
        let text = stderr(&output);
        assert_eq!(
            (code(&output), text.lines().count()),
            (status, 1),
            "{args:?}: {text}"
        );
        assert!(text.contains(part), "{args:?}: no `{part}` in {text}");
    }
}

/// Commits are built in one directory: one process at a time has it, whatever it is called, until it ends, however it ends.
#[test]
fn two_at_once_do_not_build_in_one_directory() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("First");
    let own = project.path();
    let other = own.join("another-name");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_truecount"), &other).unwrap();
    let mut first = std::process::Command::new(&other)
        .args([
            "history",
            "backfill",
            "--build",
            "echo $$ > ../../pid; exec sleep 600",
            "HEAD",
            "--",
            "true",
        ])
        .current_dir(own)
        .env_remove("TRUECOUNT_STORE")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut built = 0;
    until("the build", || {
        let text = std::fs::read_to_string(own.join("pid")).unwrap_or_default();
        built = text.trim().parse().unwrap_or(0);
        built > 0 && text.ends_with('\n')
    });
    let second = || {
        let mut command = truecount(&[
            "history", "backfill", "--build", "false", "HEAD", "--", "true",
        ]);
        command.current_dir(own).env_remove("TRUECOUNT_STORE");
        let output = command.output().unwrap();
        (
            code(&output),
            format!("{}{}", crate::support::stdout(&output), stderr(&output)),
        )
    };
    let (status, text) = second();
    assert_eq!(status, 1, "{text}");
    assert!(
        text.contains("is in use by another backfill or bisect"),
        "{text}"
    );
    first.kill().unwrap();
    first.wait().unwrap();
    // SAFETY: the group of the build, which nobody but this test ends.
    unsafe { libc::kill(-built, libc::SIGKILL) };
    let (status, text) = second();
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("does not build"), "{text}");
}
