//! `truecount run --toggle`, `--from`, `--to`, `--diff`, `--html`: a part of a run, and what became of it.

use std::path::Path;

use serde_json::Value;

use crate::call_edges::tree;
use crate::support::{code, fails, run, stderr, stdout, virtual_pmu};

/// The program of 53 instructions; at depth 3 its `f` takes 30, its two `g` 16 with what they call.
fn program(depth: u32) -> Option<(tempfile::TempDir, String)> {
    if !virtual_pmu() {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = tree(directory.path(), "p", depth)?;
    Some((directory, program.to_str().unwrap().to_owned()))
}

fn document(words: &[&str]) -> Value {
    let output = run(&[&["run", "--json", "--no-cache"], words].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    crate::schemas::check("run.json", &document);
    document
}

#[test]
fn a_part_of_a_run_is_counted_to_the_instruction() {
    let Some((_directory, program)) = program(3) else {
        return;
    };
    for (options, entered, inside) in [
        (&["--toggle", "leaf"][..], 7, 21),
        (&["--toggle", "l?af"], 7, 21),
        (&["--toggle", "f"], 1, 30),
        (&["--toggle", "f", "--toggle", "g"], 3, 46),
        (&["--from", "f", "--to", "g"], 1, 31),
        (&["--from", "f+0x2", "--to", "g"], 1, 30),
        (&["--to", "g"], 0, 33),
    ] {
        let document = document(&[options, &["--", &program]].concat());
        let region = &document["region"];
        assert_eq!(region["entered"], entered, "{options:?}: {region}");
        assert_eq!(region["instructions"], inside, "{options:?}: {region}");
        assert_eq!(region["run"], 53, "{options:?}: {region}");
        assert_eq!(document["counters"][0]["value"], inside, "{options:?}");
    }
    let tree = document(&["--calls", "--toggle", "g", "--", &program]);
    assert_eq!(tree["calls"]["total"], 16);
    let shown = run(&["run", "--toggle", "leaf", "--", &program]);
    let said = stderr(&shown);
    assert!(
        said.contains("21 of the run's 53 instructions (39.62 %), reached 7 times."),
        "{said}"
    );
}

/// A call is over where it returns to, however many such places there are: 30,000 calls of 2 instructions each.
#[test]
fn a_function_that_is_called_from_very_many_places() {
    const SOURCE: &str = r#"    .globl _start, f
    .type _start, @function
_start:
    .rept 30000
    call f
    nop
    .endr
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
    .type f, @function
f:  nop
    ret
    .size f, . - f
    .section .note.GNU-stack, "", @progbits
"#;
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = crate::lines::bare(directory.path(), "p.s", SOURCE) else {
        return;
    };
    let region = &document(&["--toggle", "f", "--", &program])["region"];
    assert_eq!(region["entered"], 30_000, "{region}");
    assert_eq!(region["instructions"], 60_000, "{region}");
    assert_eq!(region["run"], 120_003, "{region}");
}

#[test]
fn a_region_that_is_never_reached_is_no_result() {
    let Some((directory, program)) = program(3) else {
        return;
    };
    fails(
        &["run", "--toggle", "no_such_function", "--", &program],
        1,
        &["never reached"],
    );
    fails(
        &["run", "--from", "0x1", "--", &program],
        1,
        &["--from 0x1: never reached"],
    );
    for wrong in [
        &["run", "--toggle", "f", "--from", "g", "--", &program][..],
        &["run", "--toggle", "f", "--memory", "--", &program],
    ] {
        assert_eq!(code(&run(wrong)), 2, "{wrong:?}");
    }
    // Less than a thousandth of the run: likely not what is meant.
    let deep = tree(directory.path(), "deep", 9000).unwrap();
    let deep = deep.to_str().unwrap();
    let output = run(&["run", "--toggle", "g", "--", deep]);
    assert!(
        stderr(&output).contains("less than 0.1 % of the run"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_paths_gained_and_lost() {
    let Some((directory, program)) = program(3) else {
        return;
    };
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::create_dir(at("other")).unwrap();
    let longer = tree(Path::new(&at("other")), "p", 5).unwrap();
    let longer = longer.to_str().unwrap();
    let (old, new, picture) = (at("old.json"), at("new.json"), at("diff.svg"));
    for (file, program) in [(&old, &*program), (&new, longer)] {
        let json = format!("--json={file}");
        assert_eq!(code(&run(&["run", "--calls", &json, "--", program])), 0);
    }
    let same = run(&["run", "--diff", &old, "--", &program]);
    assert!(
        stderr(&same).contains("no path changed"),
        "{}",
        stderr(&same)
    );
    let document = document(&["--diff", &old, "--flamegraph", &picture, "--", longer]);
    let diff = &document["calls_diff"];
    assert_eq!(
        (&diff["old_total"], &diff["new_total"]),
        (&53.into(), &71.into())
    );
    let sums = diff["sums"].as_array().unwrap();
    let sum = |name: &str| {
        let named = |sum: &&Value| {
            let function = sum["function"].as_u64().unwrap() as usize;
            diff["functions"][function]["name"] == name
        };
        let found = sums.iter().find(named).unwrap();
        let of = |when: &str, what: &str| found[when][what].as_i64().unwrap();
        ["calls", "self", "inclusive"].map(|what| of("new", what) - of("old", what))
    };
    assert_eq!(sum("f"), [2, 12, 18]);
    assert_eq!(sum("leaf"), [2, 6, 6]);
    assert_eq!(sum("g"), [0, 0, 0]);
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.contains("f: +18 instructions:u"), "{svg}");
    // Two saved results, nothing run.
    let saved = run(&["run", "--diff", &old, "--saved", &new, "--json"]);
    let saved: Value = serde_json::from_str(&stdout(&saved)).unwrap();
    crate::schemas::check("run-diff.json", &saved);
    assert_eq!(&saved["calls_diff"]["sums"], &diff["sums"]);
    let text = run(&["run", "--diff", &old, "--saved", &new]);
    assert!(
        stdout(&text).contains("53 before, 71 now: +18"),
        "{}",
        stdout(&text)
    );
    std::fs::write(at("none.json"), "{}").unwrap();
    fails(
        &["run", "--diff", &at("none.json"), "--", &program],
        2,
        &["not a result of truecount run"],
    );
    assert_eq!(code(&run(&["run", "--saved", &new])), 2);
}

#[test]
fn the_page_has_the_whole_tree_and_the_code() {
    let Some((directory, program)) = program(3) else {
        return;
    };
    let page = directory.path().join("calls.html").display().to_string();
    assert_eq!(code(&run(&["run", "--html", &page, "--", &program])), 0);
    let html = std::fs::read_to_string(&page).unwrap();
    let data = html.split("id=\"data\">").nth(1).unwrap();
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let own = data["own"].as_array().unwrap().iter();
    assert_eq!(own.map(|own| own.as_u64().unwrap()).sum::<u64>(), 53);
    let leaf = data["code"].as_object().unwrap().iter();
    let (_, leaf) = leaf
        .clone()
        .find(|(name, _)| name.starts_with("leaf\0"))
        .unwrap();
    let listed: Vec<(u64, &str)> = leaf["instructions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line[1].as_u64().unwrap(), line[2].as_str().unwrap()))
        .collect();
    assert_eq!(listed, [(7, "nop"), (7, "nop"), (7, "ret")]);
}
