//! `noise` on a machine with a PMU: the CPU counts, and the environment's size is found where a program's work depends
//! on it.

use serde_json::Value;

use super::{no_hardware, skip, truecount};

/// Set: do work by the size of the environment and nothing else.
const WORKLOAD: &str = "TRUECOUNT_TEST_ENVIRONMENT";

/// Not a test of its own: the program that `noise` runs. A hundred turns for each byte of the environment.
#[test]
fn noise_workload() {
    if std::env::var_os(WORKLOAD).is_none() {
        return;
    }
    let bytes: usize = std::env::vars_os()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let mut sum = 0u64;
    for turn in 0..bytes as u64 * 100 {
        sum = std::hint::black_box(sum.wrapping_add(turn));
    }
    assert_ne!(sum, 1);
}

#[test]
fn the_cpu_finds_what_makes_runs_differ() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let output = truecount()
        .args(["noise", "--json", "-n", "5", "--seed", "2"])
        .args(["--factors", "env,getrandom,aslr", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["noise::noise_workload", "--exact", "--test-threads=1"])
        .env(WORKLOAD, "1")
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
    println!("not tried: {}", document["not_tried"]);
    assert_eq!(document["source"], "hardware");
    assert_eq!(document["main_factor"], "env", "{document:#}");
    let counts = document["residual"]["counts"].as_array().unwrap();
    assert!(counts.len() == 5 && counts.iter().all(|c| c.as_u64() > Some(1_000_000)));
}
