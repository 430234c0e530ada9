//! `truecount latency`: every execution timed, the document, the comparison, what is refused.

use super::support::{code, fails, run, stderr, virtual_pmu};
use truecount_testing::schemas::schema;

const PROGRAM: &str = "
#include <stdlib.h>
__attribute__((noinline)) long work(long n)
{
    long x = 1;
    for (long i = 0; i < n; i++) __asm__ volatile(\"imul $3, %0, %0\" : \"+r\"(x));
    return x;
}
int main(int argc, char **argv)
{
    long n = atol(argv[1]), sum = 0;
    for (int i = 0; i < 5000; i++) sum += work(n);
    return sum == 42;
}
";

#[test]
fn blocks_are_timed_without_a_pmu() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (source, program) = (at("work.c"), at("work"));
    std::fs::write(&source, PROGRAM).unwrap();
    let built = std::process::Command::new("cc")
        .args(["-O1", "-o", &program, &source])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        truecount_testing::skip!("cc", "no working C compiler");
        return;
    }
    let document = |n: &str, more: &[&str]| {
        let file = at("out.json");
        let head = ["latency", "work", "--json", "-o", &file];
        let output = run(&[&head, more, &["--", &program, n]].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = std::fs::read_to_string(&file).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let short = document("10", &[]);
    let kept = at("short.json");
    std::fs::write(&kept, short.to_string()).unwrap();
    let picture = at("chart.svg");
    let long = document("1000", &["--compare", &kept, "--svg", &picture]);
    for document in [&short, &long] {
        assert_eq!(document["intervals"][0]["executions"], 4999);
        assert!(document["cost"]["cycles"].as_u64() > Some(0));
    }
    // 990 dependent multiplications more, each of at least a core cycle; the TSC may be slower.
    let p50 = |d: &serde_json::Value| d["intervals"][0]["cycles"]["p50"].as_u64().unwrap();
    assert!(
        p50(&long) > p50(&short) + 300,
        "{} {}",
        p50(&short),
        p50(&long)
    );
    assert_eq!(long["compared_with"]["intervals"], short["intervals"]);
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(
        [" 10:", " 1000:"]
            .iter()
            .all(|n| svg.contains(&format!("work{n}")) || svg.contains(&format!("work'{n}"))),
        "{svg}"
    );

    let validator = jsonschema::validator_for(&schema("latency.json")).unwrap();
    assert!(validator.is_valid(&long));
    let mut wrong = long.clone();
    wrong["cost"] = 3.into();
    assert!(!validator.is_valid(&wrong));

    // A picture that fails, or that there is nothing for, costs nothing of the result.
    for (symbol, picture, executions, part) in [
        ("work", "/dev/full", 4999, "space"),
        ("main", "/dev/null", 0, "never executed twice"),
    ] {
        let file = at("out.json");
        let head = ["latency", symbol, "--json", "-o", &file];
        let page = [
            "--svg",
            picture,
            "--html",
            "/dev/full",
            "--",
            &program,
            "10",
        ];
        let output = run(&[&head[..], &page].concat());
        let told = stderr(&output);
        assert_eq!(code(&output), 1, "{told}");
        // Of the page, too.
        assert!(
            told.contains(part) && told.contains("cannot write /dev/full"),
            "{told}"
        );
        let document = std::fs::read_to_string(&file).unwrap();
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["intervals"][0]["executions"], executions);
    }

    // Refused before the program runs.
    let time = |spec: &str| -> Vec<String> {
        ["latency", spec, "--", &program, "10"]
            .map(str::to_owned)
            .into()
    };
    for (spec, status, part) in [
        ("nothing_like_it", 1, "has no symbol"),
        ("work+", 2, "no number"),
        ("work+0x10000", 2, "beyond"),
    ] {
        let args = time(spec);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        fails(&args, status, &[part]);
    }
    let script = at("script");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    fails(&["latency", "0x10", "--", &script], 1, &["no 64-bit ELF"]);
    fails(
        &[
            "latency",
            "work",
            "--compare",
            &source,
            "--",
            &program,
            "10",
        ],
        1,
        &["not the JSON of truecount latency"],
    );
}

#[test]
fn the_old_way_names_the_new_one() {
    fails(
        &["blocks", "--time", "work", "--", "/bin/true"],
        2,
        &["truecount latency work -- CMD"],
    );
    fails(&["blocks", "--", "/bin/true"], 2, &["truecount record -b"]);
}
