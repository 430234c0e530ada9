//! Gates of benchmarks that a branch renames, leaves out, or measures otherwise: none is lost in silence.

use serde_json::{Value, json};

use crate::history::{Project, exact, one, result};
use crate::support::unwrapped;

/// The file with these benchmarks, each with its limits.
fn suite(project: &Project, benchmarks: &[(&str, &str)]) {
    let mut text = String::new();
    for (name, limits) in benchmarks {
        text +=
            &format!("[[benchmark]]\nname = '{name}'\ncommand = 'true'\nlimits = {{ {limits} }}\n");
    }
    std::fs::write(project.path().join("truecount.toml"), text).unwrap();
    project.git(&["add", "truecount.toml"]);
}

const LIMIT: &str = "instructions = '1%'";

/// What a command says, where a table's last column may go over several lines.
fn told(project: &Project, status: i32, args: &[&str]) -> String {
    unwrapped(&project.expect(status, args))
}

fn counts(name: &str, value: u64) -> (&str, Value) {
    (name, json!({"instructions:u": exact(value)}))
}

#[test]
fn a_renamed_benchmark_does_not_lose_its_gate() {
    let Some(project) = Project::new() else {
        return;
    };
    suite(&project, &[("sort", LIMIT), ("find", LIMIT)]);
    project.commit("First");
    project.add(&result(&[counts("sort", 1000), counts("find", 500)]));
    suite(&project, &[("sorted", LIMIT), ("find", LIMIT)]);
    let renamed = project.commit("Another name");
    project.add(&result(&[counts("sorted", 9000), counts("find", 500)]));
    let gate = ["compare", "--limits"];
    let text = told(&project, 4, &gate);
    assert!(
        text.contains("gone: the new commit has no benchmark of this name"),
        "{text}"
    );
    assert!(
        text.contains("1 gone") && text.contains("--accept gone"),
        "{text}"
    );
    let document: Value =
        serde_json::from_str(&project.expect(4, &["compare", "--limits", "--json"])).unwrap();
    let row = |name: &str| {
        let mut rows = document["rows"].as_array().unwrap().iter();
        rows.find(|row| row["benchmark"] == name).unwrap().clone()
    };
    assert_eq!(row("sort")["gate"], "undecided");
    assert_eq!(
        (&row("sort")["limit"], &row("sort")["base"]),
        (&json!(0.01), &json!(1000.0))
    );
    assert_eq!(
        (&row("sorted")["gate"], &row("find")["gate"]),
        (&json!("passed"), &json!("passed"))
    );
    // The same by a limit for all, and in the two forms that a CI shows.
    project.expect(4, &["compare", "--fail-above", "instructions=1%"]);
    let junit = project.path().join("junit.xml");
    let comment = project.expect(
        4,
        &[
            "compare",
            "--limits",
            "--markdown",
            "--junit",
            junit.to_str().unwrap(),
        ],
    );
    assert!(
        comment.contains("undecided") && comment.contains("gone: "),
        "{comment}"
    );
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(
        xml.contains("failures=\"1\"") && xml.contains("gone: "),
        "{xml}"
    );
    // Somebody says that it may be gone: for this once, or with a reason that is kept.
    project.expect(0, &["compare", "--limits", "--accept", "gone"]);
    project.expect(4, &["compare", "--limits", "--accept", "all"]);
    project.expect(
        0,
        &[
            "bless",
            "HEAD",
            "--benchmark",
            "find",
            "--reason",
            "another one",
        ],
    );
    project.expect(4, &gate);
    project.expect(
        0,
        &[
            "bless",
            "HEAD",
            "--benchmark",
            "sort",
            "--reason",
            "it is called sorted",
        ],
    );
    let text = told(&project, 0, &gate);
    assert!(
        text.contains(&format!(
            "accepted at {}: it is called sorted",
            &renamed[..12]
        )),
        "{text}"
    );
}

/// CI measures the base by the branch's file: then no record has a benchmark that the branch took out of it.
#[test]
fn what_neither_record_has_is_known_from_the_bases_file() {
    let Some(project) = Project::new() else {
        return;
    };
    suite(&project, &[("sort", LIMIT), ("find", LIMIT)]);
    project.commit("First");
    project.add(&one(1000));
    suite(&project, &[("sort", LIMIT)]);
    project.commit("Without find");
    project.add(&one(1000));
    let text = told(&project, 4, &["compare", "--limits"]);
    assert!(text.contains("find instructions"), "{text}");
    assert!(text.contains("it had a limit at the base"), "{text}");
    project.expect(0, &["compare", "--limits", "--accept", "gone"]);
    // What never had a limit may go.
    project.expect(0, &["compare", "--fail-above", "instructions=1%"]);
    // A file that the base does not have, or cannot be read there, changes nothing, and the latter is said.
    suite(&project, &[("sort", LIMIT)]);
    std::fs::write(project.path().join("truecount.toml"), "suite = [").unwrap();
    project.git(&["add", "truecount.toml"]);
    project.commit("A slip");
    project.add(&one(1000));
    suite(&project, &[("sort", LIMIT)]);
    project.commit("Right again");
    project.add(&one(1000));
    let text = told(&project, 0, &["compare", "--limits"]);
    assert!(text.contains("The limits at"), "{text}");
}

#[test]
fn a_limit_without_a_number_is_undecided() {
    let Some(project) = Project::new() else {
        return;
    };
    let both = "instructions = '1%', branches = 10";
    suite(&project, &[("sort", both)]);
    project.commit("First");
    let two = json!({"branches:u": exact(100), "instructions:u": exact(1000)});
    project.add(&result(&[("sort", two)]));
    project.commit("One metric less");
    project.add(&one(1000));
    let text = told(&project, 4, &["compare", "--limits"]);
    assert!(
        text.contains("branches:u") && text.contains("the new commit did not measure this metric"),
        "{text}"
    );
    // Neither has it.
    project.commit("Third");
    project.add(&one(1000));
    let text = told(&project, 4, &["compare", "--limits"]);
    assert!(
        text.contains("not measured: it has a limit and no number"),
        "{text}"
    );
    // A limit that is taken back is told, and is nobody's gate any more.
    suite(&project, &[("sort", "branches = 10")]);
    project.commit("A limit less");
    let counts = |value: u64| json!({"branches:u": exact(100), "instructions:u": exact(value)});
    project.add(&result(&[("sort", counts(1000))]));
    let text = told(&project, 0, &["compare", "--limits"]);
    assert!(
        text.contains("These had a limit at the base and have none now: sort instructions:u."),
        "{text}"
    );
    // Only the second metric of a benchmark that is gone has a gate.
    project.commit("Gone");
    project.add(&result(&[("other", counts(1000))]));
    project.expect(4, &["compare", "--fail-above", "instructions=1%"]);
    project.expect(4, &["compare", "--limits"]);
}
