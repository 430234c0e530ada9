//! The factor `time`: under the virtual PMU, clocks and the time stamp counter are held constant, too.

use serde_json::Value;

use crate::support::{code, compiled, run, stderr, stdout, virtual_pmu};
use truecount_testing::schemas::schema;

fn skipped() -> bool {
    !virtual_pmu()
}

/// Takes as many rounds as digits of two clocks say: those that a few instructions more or less (address space layout in the
/// loader) do not move.
const BY_THE_CLOCK: &str = "#include <time.h>
#include <x86intrin.h>
int main(void) {
    struct timespec t;
    volatile long n = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    for (long i = 0; i < t.tv_nsec / 1000 % 1000; i++) n++;
    for (long i = 0; i < (long)((__rdtsc() >> 12) % 1000); i++) n++;
    return 0;
}
";

#[test]
fn noise_names_the_time_for_a_program_that_goes_by_the_clock() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), BY_THE_CLOCK) else {
        return;
    };
    let program = program.to_str().unwrap();
    let words = [
        "noise",
        "--json",
        "--source",
        "virtual",
        "--seed",
        "3",
        "--factors",
        "time,aslr",
    ];
    let output = run(&[&words[..], &["-n", "5", "--", program]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let validator = jsonschema::validator_for(&schema("noise.json")).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(document["residual"]["plus_minus"], 0.0, "{document:#}");
    assert_eq!(document["dominant_factor"], "time", "{document:#}");

    let counts: Vec<u64> = (0..3)
        .map(|_| {
            let output = run(&["run", "--json", "--deterministic=all,time", "--", program]);
            let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
            let held = document["environment"]["deterministic"].to_string();
            assert!(held.contains("\"time\""), "{held}");
            document["counters"][0]["value"].as_u64().unwrap()
        })
        .collect();
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

#[test]
fn every_run_begins_at_the_same_time() {
    if skipped() {
        return;
    }
    let tell = || {
        let words = ["stat", "--source", "virtual", "--deterministic=all,time"];
        let output = run(&[&words[..], &["--", "date", "-u", "+%F %T %N"]].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    let (first, again) = (tell(), tell());
    assert!(first.starts_with("2033-05-18 03:33:20 00"), "{first}");
    assert_eq!(first, again);
}

#[test]
fn without_the_virtual_pmu_the_time_goes_on_and_the_record_says_so() {
    let words = [
        "stat",
        "--source",
        "software",
        "--deterministic=time",
        "--json",
    ];
    let output = run(&[&words[..], &["--", "true"]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let environment = &document["environment"];
    assert_eq!(environment["deterministic"].to_string(), "[\"clock\"]");
    let refused = &environment["not_deterministic"][0];
    assert_eq!(refused["factor"], "time", "{environment}");
    assert!(
        refused["reason"].to_string().contains("virtual"),
        "{refused}"
    );
}
