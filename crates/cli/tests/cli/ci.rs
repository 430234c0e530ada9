//! `contrib/ci/gate.sh`, as a CI runs it: in a clean clone of a remote, with nothing in its environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::history::Project;
use crate::support::{code, stderr, stdout, virtual_pmu};

const PROGRAM: &str = "
volatile unsigned long sum;
int main(void) { for (int i = 0; i < TURNS; i++) sum += i; return 0; }
";

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/ci/gate.sh")
}

/// Runs the script in a new clone that has this branch checked out, as a user with an empty home.
fn gate(remote: &Path, branch: &str, directory: &Path) -> Output {
    let home = directory.join(format!("home-{branch}"));
    let clone = home.join("clone");
    std::fs::create_dir_all(&home).unwrap();
    let cloned = Command::new("git")
        .args(["clone", "--quiet", "--branch", branch])
        .arg(remote)
        .arg(&clone)
        .status();
    assert!(cloned.unwrap().success());
    Command::new("sh")
        .arg(script())
        .current_dir(&clone)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", &home)
        .env("TRUECOUNT", env!("CARGO_BIN_EXE_truecount"))
        .env("TRUECOUNT_NO_CACHE", "1")
        .env("TARGET_BRANCH", "main")
        .env("TRUECOUNT_OUT", home.join("out"))
        .output()
        .unwrap()
}

#[test]
fn a_pull_request_is_gated_in_a_clean_clone() {
    if !virtual_pmu() {
        return;
    }
    let Some(project) = Project::new() else {
        return;
    };
    let cc = Command::new("cc").arg("--version").output();
    if !truecount_testing::compiler(cc) {
        return;
    }
    let write = |name: &str, text: &str| std::fs::write(project.path().join(name), text).unwrap();
    let commit = |subject: &str| {
        project.git(&["add", "."]);
        project.git(&["commit", "--quiet", "-m", subject]);
    };
    write("prog.c", PROGRAM);
    write("turns", "1000");
    write(".gitignore", "prog\n");
    write(
        "truecount.toml",
        "suite = 'prog'\nbuild = 'cc -g -DTURNS=$(cat turns) -o prog prog.c'\nfunctions = true\n\
         [[benchmark]]\nname = 'loop'\ncommand = ['./prog']\nlimits = { instructions = '0.1%' }\n",
    );
    commit("the beginning");
    project.git(&["switch", "--quiet", "-c", "words"]);
    write("README", "words");
    commit("only words");
    project.git(&["switch", "--quiet", "-c", "slower", "main"]);
    write("turns", "1200");
    commit("turns more often");
    project.git(&["switch", "--quiet", "-c", "broken", "main"]);
    write("prog.c", "int main(void) {");
    commit("does not build");
    // The target goes on meanwhile: what is compared with is where the branch began.
    project.git(&["switch", "--quiet", "main"]);
    write("turns", "5000");
    commit("main goes on");

    let directory = tempfile::tempdir().unwrap();
    let remote = directory.path().join("remote.git");
    let made = Command::new("git")
        .args(["clone", "--quiet", "--bare"])
        .arg(project.path())
        .arg(&remote)
        .status();
    assert!(made.unwrap().success());
    let text = |output: &Output| format!("{}{}", stdout(output), stderr(output));
    let out = |branch: &str, name: &str| {
        let path = directory
            .path()
            .join(format!("home-{branch}/out"))
            .join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };

    let output = gate(&remote, "words", directory.path());
    assert_eq!(code(&output), 0, "{}", text(&output));
    let comment = out("words", "comment.md");
    assert!(
        comment.contains("✅ passed") && comment.contains("only words"),
        "{comment}"
    );

    let output = gate(&remote, "slower", directory.path());
    assert_eq!(code(&output), 3, "{}", text(&output));
    let comment = out("slower", "comment.md");
    assert!(
        comment.starts_with("<!-- truecount history compare -->"),
        "{comment}"
    );
    assert!(
        comment.contains("❌ regressed") && comment.contains("main (prog)"),
        "{comment}"
    );
    let junit = out("slower", "junit.xml");
    assert!(
        junit.contains("failures=\"1\"") && junit.contains("type=\"regressed\""),
        "{junit}"
    );
    assert!(out("slower", "page.html").contains("turns more often"));

    let output = gate(&remote, "broken", directory.path());
    assert_eq!(code(&output), 1, "{}", text(&output));
    assert!(
        text(&output).contains("does not build"),
        "{}",
        text(&output)
    );
}

#[test]
fn what_is_missing_is_undecided() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("a");
    let output = Command::new("sh")
        .arg(script())
        .current_dir(project.path())
        .output()
        .unwrap();
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("no truecount.toml"),
        "{}",
        stderr(&output)
    );
}

/// Reads the YAML of `contrib/ci` with a YAML library; what it says is checked as GitHub and GitLab read it, and every
/// script in it by `bash -n`.
const YAML: &str = r#"
import re, subprocess, sys
import yaml
top = sys.argv[1]
def load(name):
    with open(f"{top}/{name}", encoding="utf-8") as file:
        return yaml.safe_load(file)
def shell(text):
    # Expressions are GitHub's, not the shell's: none may be in a script, so that no value of others becomes part of it.
    assert "${{" not in text, text
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)

action = load("github/action.yml")
assert action["runs"]["using"] == "composite" and action["name"] and action["description"]
for kind in ("inputs", "outputs"):
    for name, about in action[kind].items():
        assert isinstance(about["description"], str), name
steps = action["runs"]["steps"]
for step in steps:
    assert ("uses" in step) != ("run" in step), step
    if "run" in step:
        assert step["shell"] == "bash", step
        shell(step["run"])
with open(f"{top}/github/action.yml", encoding="utf-8") as file:
    text = file.read()
assert set(re.findall(r"inputs\.(\w+)", text)) == set(action["inputs"])
assert set(re.findall(r"steps\.(\w+)\.", text)) <= {step.get("id") for step in steps}

example = load("github/example.yml")
# YAML 1.1 takes the key `on` for a truth value.
assert example.get("on", example.get(True)) == "pull_request"
checkout, gate = example["jobs"]["cost"]["steps"]
assert checkout["with"]["fetch-depth"] == 0 and gate["uses"] == "./contrib/ci/github"
assert example["permissions"] == {"contents": "read", "pull-requests": "write"}

job = load("gitlab/truecount.yml")["truecount"]
assert set(job) <= {"stage", "rules", "variables", "cache", "before_script", "script", "after_script", "artifacts"}
for part in ("before_script", "script", "after_script"):
    for line in job[part]:
        assert isinstance(line, str), line
        shell(line)
assert job["script"] == ["contrib/ci/gate.sh"] and job["artifacts"]["reports"] == {"junit": "truecount-out/junit.xml"}
assert all(isinstance(value, (str, int)) for value in job["variables"].values())
"#;

#[test]
fn the_yaml_of_the_workflows_is_what_it_is_meant_to_be() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/ci");
    let library = Command::new("python3").args(["-c", "import yaml"]).output();
    if !library.is_ok_and(|output| output.status.success()) {
        truecount_testing::skip!("pyyaml", "python3 has no module yaml");
        return;
    }
    let output = Command::new("python3")
        .args(["-c", YAML])
        .arg(top)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
