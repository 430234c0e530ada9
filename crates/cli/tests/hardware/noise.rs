//! `noise` on a machine with a PMU: the CPU counts, and the environment's size is found where a program's work depends
//! on it.

use serde_json::Value;

use super::{no_hardware, skip, truecount};

/// Set: do work by the size of the environment and nothing else, and record it here.
const WORKLOAD: &str = "TRUECOUNT_TEST_ENVIRONMENT";

/// Not a test of its own: the program that `noise` runs. A hundred turns for each byte of the environment, in a region
/// of their own.
#[test]
fn noise_workload() {
    let Some(recorded) = std::env::var_os(WORKLOAD) else {
        return;
    };
    let recorder = truecount::Recorder::with_counters(recorded, &["instructions:u"]).unwrap();
    let _all = recorder.region("all");
    let bytes: usize = std::env::vars_os()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let region = recorder.region("by the environment");
    let mut sum = 0u64;
    for turn in 0..bytes as u64 * 100 {
        sum = std::hint::black_box(sum.wrapping_add(turn));
    }
    assert_ne!(sum, 1);
    drop(region);
}

#[test]
fn the_cpu_finds_what_makes_runs_differ() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = tempfile::tempdir().unwrap();
    let output = truecount()
        .args(["noise", "--json", "-n", "6", "--seed", "2"])
        .args(["--factors", "env,getrandom,aslr", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["noise::noise_workload", "--exact", "--test-threads=1"])
        .env(WORKLOAD, "app")
        .current_dir(directory.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!(
        "{} by {}: residual ±{}",
        document["event"], document["source"], document["residual"]["plus_minus"]
    );
    for each in document["factors"].as_array().unwrap() {
        println!("{}: ±{}", each["factor"], each["plus_minus"]);
    }
    println!("not tested: {}", document["not_tested"]);
    assert_eq!(document["source"], "hardware");
    assert_eq!(document["dominant_factor"], "env", "{document:#}");
    let counts = document["residual"]["counts"].as_array().unwrap();
    assert!(counts.len() == 6 && counts.iter().all(|c| c.as_u64() > Some(1_000_000)));
    // The CPU knows no functions: the program's own profile names the place.
    let env = document["factors"].as_array().unwrap().iter();
    let env = env.clone().find(|each| each["factor"] == "env").unwrap();
    assert_eq!(env["functions"].as_array().map(Vec::len), Some(0));
    assert_eq!(env["region_counter"], "instructions:u", "{document:#}");
    let region = &env["regions"][0];
    println!("{region}");
    assert_eq!(region["region"], "by the environment", "{env:#}");
    let end = |name: &str| region[name].as_f64().unwrap();
    let share = (end("max_run") - end("min_run")) / 2.0 / env["plus_minus"].as_f64().unwrap();
    assert!((share - 1.0).abs() < 0.05, "{share} of {env:#}");
}
