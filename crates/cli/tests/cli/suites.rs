//! `bench --suite`, `history backfill` and `history bisect`: a small C program in a repository with a merge, a commit that
//! does not build, and a change of 0.1 % in the middle of the merged branch.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::history::Project;
use crate::support::{code, compiled, stderr, stdout, truecount, virtual_pmu};
use truecount_testing::schemas::schema;

/// Two functions; `EXTRA` turns of the second cost two or three instructions each.
const PROGRAM: &str = r"
#include <stdlib.h>
__attribute__((noinline)) static unsigned long work(unsigned long n) {
  unsigned long s = 0;
  for (unsigned long i = 0; i < n; i++) s += (i * i) ^ s;
  return s;
}
__attribute__((noinline)) static unsigned long extra(unsigned long n) {
  volatile unsigned long s = 1;
  for (unsigned long i = 0; i < n; i++) s ^= i;
  return s;
}
int main(int c, char **v) {
  return work(c > 1 ? strtoul(v[1], 0, 10) : 100000) + extra(EXTRA) == 42;
}
";

const SUITE: &str = r#"
suite = "prog"
build = "cc -O1 -g -DEXTRA=$(cat extra) -o prog prog.c"
functions = true
[defaults]
limits = { instructions = "0.01%" }
[[benchmark]]
name = "work"
command = "./prog {n}"
parameters = { n = ["100000", "150000"] }
[[benchmark]]
name = "short"
command = ["./prog", "5000"]
limits = { instructions = "90%" }
"#;

const ONE: &str = r#"
suite = "prog"
build = "cc -O1 -g -DEXTRA=$(cat extra) -o prog prog.c"
functions = true
defaults = { runs = 1 }
[[benchmark]]
name = "work"
command = ["./prog", "100000"]
"#;

/// A repository with the program; `None` where something is missing.
fn project() -> Option<Project> {
    if !virtual_pmu() {
        return None;
    }
    let project = Project::new()?;
    compiled(project.path(), "int main(void) { return 0; }")?;
    write(&project, "prog.c", PROGRAM);
    write(&project, "truecount.toml", SUITE);
    write(&project, ".gitignore", "prog\nprogram*\n*.json\n");
    commit(&project, "extra", "10", "the beginning");
    Some(project)
}

fn write(project: &Project, name: &str, text: &str) {
    std::fs::write(project.path().join(name), text).unwrap();
}

fn commit(project: &Project, file: &str, text: &str, subject: &str) -> String {
    write(project, file, text);
    project.git(&["add", "."]);
    project.git(&["commit", "--quiet", "-m", subject]);
    project.git(&["rev-parse", "HEAD"])
}

fn here(project: &Project, args: &[&str]) -> Output {
    let mut command = truecount(args);
    command
        .current_dir(project.path())
        .env_remove("TRUECOUNT_STORE");
    command.output().unwrap()
}

fn build(project: &Project) {
    let built = Command::new("sh")
        .args(["-c", "cc -O1 -g -DEXTRA=$(cat extra) -o prog prog.c"])
        .current_dir(project.path())
        .status();
    assert!(built.unwrap().success());
}

#[test]
fn a_suite_is_measured_kept_and_gated_by_its_limits() {
    let Some(project) = project() else { return };
    build(&project);
    let output = here(&project, &["bench", "--suite", "--save", "base.json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let saved = std::fs::read_to_string(project.path().join("base.json")).unwrap();
    let document: Value = serde_json::from_str(&saved).unwrap();
    let validator = jsonschema::validator_for(&schema("bench.json")).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    let names: Vec<&str> = document["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["work n=100000", "work n=150000", "short"]);
    assert_eq!(document["suite"], "prog");
    // Each is something else: nothing is said about one against the other.
    assert_eq!(document["comparisons"], json!([]));
    let profile = &document["profiles"][0];
    let functions = profile["functions"].as_array().unwrap();
    assert!(
        functions.iter().any(|f| f["function"] == "work"),
        "{profile}"
    );
    let text = project.expect(0, &["add", "base.json"]);
    assert!(text.contains("added 3 benchmarks"), "{text}");
    // The same suite again: nothing changed, and each gate is asked.
    let again = ["bench", "--suite", "--baseline", "base.json", "--json"];
    let output = here(&project, &again);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    // A thousand turns more: beyond 0.01 % of one, within 90 % of the other.
    write(&project, "extra", "200");
    build(&project);
    let output = here(&project, &again);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let gates = document["gates"].as_array().unwrap();
    let outcomes: Vec<(&str, &str)> = gates
        .iter()
        .map(|gate| {
            (
                gate["other"].as_str().unwrap(),
                gate["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("short", "passed"),
        ("work n=100000", "regressed"),
        ("work n=150000", "regressed"),
    ];
    assert_eq!(outcomes, expected);
    // One of them by its name; one that is not there.
    let output = here(&project, &["bench", "--suite", "--filter", "sh*", "--csv"]);
    assert_eq!(stdout(&output).lines().count(), 2, "{}", stdout(&output));
    let output = here(&project, &["bench", "--suite", "--filter", "nothing"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("there are work, short"),
        "{}",
        stderr(&output)
    );
    // What only the baseline has is gone, and its gate undecided; what a filter leaves out is not asked for.
    let short = [
        "bench",
        "--suite",
        "--baseline",
        "base.json",
        "--filter",
        "short",
    ];
    let output = here(&project, &short);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let (start, end) = (SUITE.find("[[").unwrap(), SUITE.rfind("[[").unwrap());
    write(
        &project,
        "truecount.toml",
        &[&SUITE[..start], &SUITE[end..]].concat(),
    );
    let output = here(&project, &short[..4]);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let gone = "gate of work n=100000: undecided (gone: only the baseline has it";
    assert!(stdout(&output).contains(gone), "{}", stdout(&output));
}

#[test]
fn the_commit_of_a_planted_change_is_found_on_a_merged_branch() {
    let Some(project) = project() else { return };
    write(&project, "truecount.toml", ONE);
    project.git(&["commit", "--quiet", "--amend", "-a", "--no-edit"]);
    let first = project.git(&["rev-parse", "HEAD"]);
    commit(&project, "README", "1", "words");
    project.git(&["switch", "--quiet", "-c", "side"]);
    commit(&project, "README.side", "1", "side: words");
    let planted = commit(&project, "extra", "200", "side: costs 0.1 %");
    commit(&project, "README.side", "2", "side: more words");
    project.git(&["switch", "--quiet", "main"]);
    commit(&project, "README", "2", "more words");
    project.git(&["merge", "--quiet", "--no-ff", "-m", "merges side", "side"]);
    let broken = commit(
        &project,
        "prog.c",
        "int main(void) { return",
        "does not build",
    );
    commit(&project, "prog.c", PROGRAM, "builds again");
    commit(&project, "README", "3", "last words");
    let output = project.run(&["bisect", "--benchmark", "work", "--json", &first]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let validator = jsonschema::validator_for(&schema("history-bisect.json")).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&found)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(found["commit"]["hash"], planted.as_str(), "{found}");
    let (base, other) = (&found["change"]["base"], &found["change"]["other"]);
    let share = other.as_f64().unwrap() / base.as_f64().unwrap() - 1.0;
    assert!(share > 0.0002 && share < 0.002, "{share}");
    assert_eq!(found["change"]["moved"][0]["function"], "extra", "{found}");
    // As few commits as there are halves, and the ends.
    assert!(found["measured"].as_u64().unwrap() <= 10, "{found}");
    // What was measured is kept; the others are measured now, one does not build, and that is said.
    let range = format!("{first}..HEAD");
    let text = project.expect(0, &["backfill", &range, "--all-parents"]);
    let line = text
        .lines()
        .find(|line| line.contains("skipped: it does not build"));
    assert!(
        line.is_some_and(|line| line.starts_with(&broken[..12])),
        "{text}"
    );
    let last = text.lines().last().unwrap();
    assert!(last.contains("1 skipped"), "{text}");
    let text = project.expect(0, &["backfill", &range, "--all-parents"]);
    assert!(text.contains("0 commits measured"), "{text}");
    // Every first parent has a record: the merge is what changed them, and nothing else did.
    let changes: Value = serde_json::from_str(&project.expect(0, &["changes", "--json"])).unwrap();
    let changes = changes["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:#?}");
    for change in changes {
        assert_eq!(change["subject"], "merges side");
    }
    // No work tree is left.
    assert!(!project.path().join(".truecount/work").exists());
    assert_eq!(project.git(&["worktree", "list"]).lines().count(), 1);
}

/// `calls = true`: the paths of calls that a change came by are told, wherever the functions are.
#[test]
fn the_paths_that_a_change_came_by_are_named() {
    let Some(project) = project() else { return };
    write(
        &project,
        "truecount.toml",
        &ONE.replace("functions = true", "calls = true"),
    );
    let program = |wrapper: &str| {
        PROGRAM
            .replace("int main", &format!("{wrapper}\nint main"))
            .replace("+ extra(EXTRA)", "+ outer(EXTRA)")
    };
    let outer = "__attribute__((noinline)) static unsigned long outer(unsigned long n) { return";
    commit(
        &project,
        "prog.c",
        &program(&format!("{outer} extra(n) + 1; }}")),
        "once",
    );
    commit(
        &project,
        "prog.c",
        &program(&format!("{outer} extra(n) + extra(n); }}")),
        "twice",
    );
    project.expect(0, &["backfill", "HEAD~2..HEAD"]);
    let text = project.expect(0, &["changes"]);
    let called = |text: &str| {
        text.lines()
            .any(|line| line.contains("extra ← outer ← main ←") && line.ends_with("1 → 2 calls"))
    };
    assert!(called(&text), "{text}");
    for args in [&["compare"][..], &["compare", "--markdown"]] {
        let text = project.expect(0, args);
        assert!(called(&text), "{text}");
    }
    for (name, args) in [
        ("history-changes.json", &["changes", "--json"][..]),
        ("history-compare.json", &["compare", "--json"]),
        ("history-bisect.json", &["bisect", "--json", "HEAD~1"]),
    ] {
        let document: Value = serde_json::from_slice(&project.run(args).stdout).unwrap();
        let validator = jsonschema::validator_for(&schema(name)).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        assert!(
            document.to_string().contains("\"other_calls\":2"),
            "{name}: {document}"
        );
    }
}

#[test]
fn what_cannot_be_searched_is_said() {
    let Some(project) = Project::new() else {
        return;
    };
    let (first, second) = (project.commit("a"), project.commit("b"));
    let text = project.expect(2, &["bisect", &second, &first, "--", "true"]);
    assert!(text.contains("is not before"), "{text}");
    let text = project.expect(1, &["bisect", &first]);
    assert!(text.contains("there is no truecount.toml"), "{text}");
    let text = project.expect(2, &["backfill", "HEAD..HEAD", "--", "true"]);
    assert!(text.contains("there is no commit in"), "{text}");
    write(
        &project,
        "truecount.toml",
        "[[benchmark]]\nname = 'a'\ncomand = 'x'\n",
    );
    let text = project.expect(2, &["backfill", "HEAD~1..HEAD"]);
    assert!(text.contains("truecount.toml: line 1"), "{text}");
}
