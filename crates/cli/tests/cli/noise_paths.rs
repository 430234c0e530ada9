//! `truecount noise --calls`: which paths of calls make runs differ.

use crate::support::{compiled, fails, json, run, stdout, virtual_pmu};

/// Paths of calls in which runs differ: they make the whole difference, to the instruction.
#[test]
fn the_paths_in_which_runs_differ_are_named() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <sys/auxv.h>\n\
        __attribute__((noinline)) void work(int n) { for (volatile int i = 0; i < n; i++); }\n\
        __attribute__((noinline)) void step(int n) { work(n); work(3); }\n\
        int main(void) { step(*(unsigned short *)getauxval(AT_RANDOM)); return 0; }\n";
    let Some(program) = compiled(directory.path(), source) else {
        return;
    };
    let program = program.to_str().unwrap();
    let arguments = ["noise", "--calls", "--functions", "1000", "-n", "3"];
    let arguments = [&arguments[..], &["--factors", "at-random"]].concat();
    let document = json(&[&arguments[..], &["--json", "--", program]].concat());
    crate::schemas::check("noise.json", &document);
    assert_eq!(document["residual"]["plus_minus"], 0.0, "{document:#}");
    let factor = &document["factors"][0];
    let paths = factor["paths"].as_array().unwrap();
    assert_eq!(factor["diverging_paths"], paths.len());
    let own = |run: &str| -> u64 {
        let each = paths.iter().map(|each| each[run]["self"].as_u64().unwrap());
        each.sum()
    };
    let ends = [&factor["min"], &factor["max"]].map(|end| end.as_u64().unwrap());
    assert_eq!(own("max_run") - own("min_run"), ends[1] - ends[0]);
    let names: Vec<&str> = paths[0]["path"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert!(names.ends_with(&["main", "step", "work"]), "{names:?}");
    assert_eq!(paths[0]["min_run"]["calls"], 2);
    let output = run(&[&arguments[..], &["--", program]].concat());
    let text = stdout(&output);
    assert!(
        text.contains("Paths of calls in which runs differ, at-random"),
        "{text}"
    );
    assert!(text.contains("work ← step ← main"), "{text}");
    fails(
        &["noise", "--calls", "--functions", "0", "true"],
        2,
        &["--calls"],
    );
}
