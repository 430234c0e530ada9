//! Results of other tools, as they write them.

#![allow(clippy::unwrap_used)]

use truecount_history::import::{Format, parse};
use truecount_history::record::Measurements;

/// Seen to be of this tool, and read.
fn read(text: &str, format: Format) -> Measurements {
    assert_eq!(Format::of(text), Some(format), "{text}");
    let found = parse(text, format, Some("only")).unwrap();
    assert_eq!(found.tool.as_deref(), Some(format.tool()));
    found
}

/// The median of a metric in its unit.
fn median(found: &Measurements, benchmark: usize, metric: &str) -> f64 {
    let metric = found.benchmarks[benchmark].metrics.get(metric).unwrap();
    metric.summary().unwrap().median.to_f64() * metric.scale
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= b.abs() * 1e-9, "{a} is not {b}");
}

#[test]
fn hyperfine() {
    let text = r#"{"results": [
        {"command": "sleep {n}", "mean": 0.0015, "times": [0.0015, 0.0016, 0.0014], "memory_usage_byte": [1000, 1000, 2000],
         "exit_codes": [0, 0, 0], "parameters": {"n": "1"}},
        {"command": "true", "mean": 0.5, "stddev": null}
    ]}"#;
    let found = read(text, Format::Hyperfine);
    near(median(&found, 0, "wall-time"), 1.5e6);
    near(median(&found, 0, "max-rss"), 1000.0);
    assert_eq!(
        found.benchmarks[0].parameters.0,
        [("n".to_owned(), "1".to_owned())]
    );
    near(median(&found, 1, "wall-time"), 5e8);
}

#[test]
fn google_benchmark_without_its_aggregates() {
    let text = r#"{"context": {"num_cpus": 4}, "benchmarks": [
        {"name": "BM_a/8", "run_name": "BM_a/8", "run_type": "iteration", "repetition_index": 0, "iterations": 10,
         "real_time": 12.5, "cpu_time": 12.0, "time_unit": "us", "items_per_second": 1e6, "hits": 3},
        {"name": "BM_a/8", "run_name": "BM_a/8", "run_type": "iteration", "repetition_index": 1, "iterations": 10,
         "real_time": 13.5, "cpu_time": 13.0, "time_unit": "us", "items_per_second": 2e6, "hits": 3},
        {"name": "BM_a/8_mean", "run_name": "BM_a/8", "run_type": "aggregate", "aggregate_name": "mean",
         "real_time": 99, "cpu_time": 99, "time_unit": "us"},
        {"name": "BM_b", "run_type": "iteration", "real_time": 1, "cpu_time": 1, "time_unit": "ns", "error_occurred": true}
    ]}"#;
    let found = read(text, Format::GoogleBenchmark);
    assert_eq!(found.benchmarks.len(), 1);
    near(median(&found, 0, "wall-time"), 13_000.0);
    near(median(&found, 0, "cpu-time"), 12_500.0);
    near(median(&found, 0, "items_per_second"), 1.5e6);
    assert_eq!(
        found.benchmarks[0].metrics.get("hits").unwrap().samples,
        [3, 3]
    );
}

#[test]
fn pyperf_and_pytest() {
    let text = r#"{"version": "1.0", "metadata": {"unit": "second"}, "benchmarks": [
        {"metadata": {"name": "json"}, "runs": [
            {"warmups": [[1, 0.9]], "values": [0.001, 0.002]}, {"values": [0.003]}, {"metadata": {"calibrate_loops": 1}}]}]}"#;
    near(median(&read(text, Format::Pyperf), 0, "wall-time"), 2e6);
    let text = r#"{"machine_info": {}, "version": "4", "benchmarks": [
        {"name": "test_a", "fullname": "t.py::test_a", "stats": {"median": 2e-6, "data": [1e-6, 3e-6, 2.5e-6]}},
        {"name": "test_b", "fullname": "t.py::test_b", "stats": {"median": 2e-6}}]}"#;
    let found = read(text, Format::PytestBenchmark);
    near(median(&found, 0, "wall-time"), 2500.0);
    near(median(&found, 1, "wall-time"), 2000.0);
    assert_eq!(found.benchmarks[1].name, "t.py::test_b");
}

#[test]
fn criterion() {
    let text = r#"{"sampling_mode": "Linear", "iters": [10.0, 20.0, 30.0], "times": [105.0, 200.0, 300.0]}"#;
    near(median(&read(text, Format::Criterion), 0, "wall-time"), 10.0);
    let text = concat!(
        r#"{"reason":"benchmark-complete","id":"fib 20","iteration_count":[2,4],"measured_values":[50,120],"unit":"ns"}"#,
        "\n",
        r#"{"reason":"group-complete","group_name":"fib"}"#,
        "\n"
    );
    near(median(&read(text, Format::Criterion), 0, "wall-time"), 27.5);
}

#[test]
fn gungraun_of_two_versions() {
    let old = r#"{"version": "1", "module_path": "bench::group", "function_name": "f", "id": "short",
        "callgrind_summary": {"callgrind_run": {"segments": [{"events": {"Ir": {"metrics": {"Left": 7}}}}],
        "total": {"summary": {"Ir": {"metrics": {"Both": [1234, 1000]}}, "Dr": {"metrics": {"Left": 5}}}}}}}"#;
    let new = r#"{"version": "6", "module_path": "bench::group", "function_name": "f", "id": "short",
        "profiles": [{"tool": "Callgrind", "summaries": {"parts": [{"x": {"Ir": {"metrics": {"Left": {"Int": 7}}}}}],
        "total": {"summary": {"Callgrind": {"Ir": {"metrics": {"Left": {"Int": 1234}}}, "Dr": {"metrics": {"Left": {"Int": 5}}}}}}}}]}"#;
    for text in [old, new] {
        let found = parse(text, Format::of(text).unwrap(), None).unwrap();
        assert_eq!(found.benchmarks[0].name, "bench::group::f::short");
        near(median(&found, 0, "instructions"), 1234.0);
        near(median(&found, 0, "loads"), 5.0);
    }
}

#[test]
fn go() {
    let text = "goos: linux\npkg: example.org/a\nBenchmarkX-8   \t 1000\t      0.2500 ns/op\t 16 B/op\t 1 allocs/op\n\
                BenchmarkX-8   \t 1000\t      0.3500 ns/op\t 16 B/op\t 1 allocs/op\nBenchmarkY-8 20 5 MB/s\nPASS\nok example.org/a 1.2s\n";
    let found = read(text, Format::Go);
    assert_eq!(found.benchmarks[0].name, "example.org/a.BenchmarkX-8");
    near(median(&found, 0, "wall-time"), 0.3);
    near(median(&found, 0, "allocated"), 16.0);
    near(median(&found, 1, "throughput"), 5.0);
}

#[test]
fn bencher_and_github_action_benchmark() {
    let text = r#"{"a": {"latency": {"value": 3.5, "lower_value": 3.0}, "size": {"value": 10}}}"#;
    let found = read(text, Format::Bmf);
    near(median(&found, 0, "latency"), 3.5);
    near(median(&found, 0, "size"), 10.0);
    // Several measures, names with spaces and slashes, as Bencher's page shows them.
    let text = r#"{
        "sort": {"latency": {"value": 92.5, "lower_value": 91.0, "upper_value": 94.25}, "throughput": {"value": 7.25}},
        "/bin/sh -c ./build.sh": {"build-time": {"value": 31.5}},
        "prog": {"file-size": {"value": 4096.0}}}"#;
    let found = read(text, Format::Bmf);
    let names: Vec<&str> = found.benchmarks.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["/bin/sh -c ./build.sh", "prog", "sort"]);
    near(median(&found, 0, "build-time"), 31.5e9);
    near(median(&found, 1, "file-size"), 4096.0);
    near(median(&found, 2, "throughput"), 7.25);
    let units = |index: usize, metric: &str| {
        found.benchmarks[index]
            .metrics
            .get(metric)
            .unwrap()
            .unit
            .clone()
    };
    assert_eq!(
        (units(0, "build-time"), units(1, "file-size")),
        ("ns".to_owned(), "bytes".to_owned())
    );
    let text = r#"[{"name": "a", "unit": "ms", "value": 2}, {"name": "b", "unit": "%", "value": "7.5", "range": "3"}]"#;
    let found = read(text, Format::CustomSmaller);
    near(median(&found, 0, "wall-time"), 2e6);
    near(median(&found, 1, "value"), 7.5);
}

#[test]
fn hostile_files_are_refused_in_one_line() {
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    for (text, format) in [
        ("", Format::Hyperfine),
        ("{", Format::Hyperfine),
        ("{}", Format::Hyperfine),
        (r#"{"results": [{"command": 1}]}"#, Format::Hyperfine),
        (
            r#"{"results": [{"command": "a", "times": [-1]}]}"#,
            Format::Hyperfine,
        ),
        (
            r#"{"results": [{"command": "a", "times": [1e300]}]}"#,
            Format::Hyperfine,
        ),
        (
            r#"{"benchmarks": [{"name": "a", "real_time": 1, "time_unit": "weeks"}]}"#,
            Format::GoogleBenchmark,
        ),
        (
            r#"{"benchmarks": [{"stats": {}}]}"#,
            Format::PytestBenchmark,
        ),
        (r#"{"profiles": []}"#, Format::Gungraun),
        (r#"{"a": {"b": {}}}"#, Format::Bmf),
        ("[1]", Format::CustomSmaller),
        ("BenchmarkX 1", Format::Go),
        ("BenchmarkX 1 NaN ns/op", Format::Go),
        (&deep, Format::Bmf),
    ] {
        let _ = Format::of(text);
        let error = parse(text, format, None).unwrap_err().to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error}");
    }
}

/// Bytes changed, cut out and doubled: whatever comes of it is an answer or one line.
#[test]
fn damaged_files_are_answers_or_errors() {
    let texts = [
        r#"{"results": [{"command": "a", "times": [0.0015, 0.0016], "memory_usage_byte": [1000], "parameters": {"n": "1"}}]}"#,
        r#"{"benchmarks": [{"name": "a", "run_type": "iteration", "real_time": 12.5, "cpu_time": 1e3, "time_unit": "us", "hits": 3}]}"#,
        r#"{"metadata": {"unit": "second"}, "benchmarks": [{"metadata": {"name": "j"}, "runs": [{"values": [0.001]}]}]}"#,
        r#"{"reason":"benchmark-complete","id":"f","iteration_count":[2,4],"measured_values":[50,120],"unit":"ns"}"#,
        r#"{"function_name": "f", "profiles": [{"total": {"Ir": {"metrics": {"Both": [{"Int": 1}, {"Int": 2}]}}}}]}"#,
        r#"{"a": {"latency": {"value": 3.5}}}"#,
        "pkg: a\nBenchmarkX-8 1000 0.25 ns/op 16 B/op\n",
        r#"{"schema": "truecount.record/1", "commit": {"hash": "a"}, "taken": 1, "benchmarks": [{"command": [], "name": "b",
            "runs": 1, "metrics": {"m": {"unit": "count", "source": "virtual", "samples": [1], "distinct": 1, "exact": true}}}]}"#,
        r#"{"schema": "truecount.run/2", "command": ["a"], "counters": [{"event": "e", "value": 1, "source": "virtual", "unit": "count"}]}"#,
        "[[benchmark]]\nname = 'a'\ncommand = ['x']\nlimits = { i = '1%' }\n",
    ];
    let mut state = 1u64;
    let mut random = move |below: usize| {
        // Numerical Recipes' linear congruential generator.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    for text in texts {
        for _ in 0..300 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                match random(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, b"0e9-\"[{,}]\xff"[random(11)]),
                    2 if !bytes.is_empty() => bytes[at] = b"0e9-\"[{,}]\xff"[random(11)],
                    _ => {
                        let end = at + random(bytes.len() - at + 1);
                        let part = bytes[at..end].to_vec();
                        bytes.splice(at..at, part);
                    }
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            let seen = Format::of(&text);
            for format in Format::ALL
                .into_iter()
                .filter(|format| seen.is_none() || seen == Some(*format))
            {
                if let Ok(found) = parse(&text, format, Some("x")) {
                    let record = found.of_commit(truecount_history::record::Commit::default(), 0);
                    let _ = record.check();
                }
            }
            if let Ok(record) = truecount_history::record::Record::parse(&text) {
                assert!(record.text().is_ok());
            }
            let _ = Measurements::parse(&text, None);
            let _ = truecount_run::suite::Suite::parse(&text);
        }
    }
}

/// Files as the tools wrote them, in `tests/real`, with the tool's version in their names.
#[test]
fn what_the_tools_really_wrote() {
    let found = read(
        include_str!("real/hyperfine-1.15.0.json"),
        Format::Hyperfine,
    );
    assert_eq!(found.benchmarks.len(), 2);
    assert_eq!(found.benchmarks[1].name, "head -c 2 /dev/zero");
    assert_eq!(
        found.benchmarks[1].parameters.0,
        [("n".to_owned(), "2".to_owned())]
    );
    near(median(&found, 0, "wall-time"), 2_030_407.0);

    let found = read(
        include_str!("real/google-benchmark-1.7.1.json"),
        Format::GoogleBenchmark,
    );
    // Two of them, three repetitions each; that with an error and the aggregates are left out.
    let names: Vec<&str> = found.benchmarks.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["BM_copy/64", "BM_copy/4096"]);
    let metrics: Vec<&str> = found.benchmarks[0].metrics.iter().map(|(m, _)| m).collect();
    assert_eq!(
        metrics,
        ["wall-time", "cpu-time", "bytes_per_second", "copies"]
    );
    assert_eq!(
        found.benchmarks[0].metrics.get("copies").unwrap().samples,
        [3, 3, 3]
    );

    let found = read(include_str!("real/pyperf-2.10.0.json"), Format::Pyperf);
    assert_eq!(found.benchmarks.len(), 1);
    let metric = found.benchmarks[0].metrics.get("wall-time").unwrap();
    assert_eq!(metric.samples.len(), 6);
    near(
        median(&found, 0, "wall-time"),
        (802.690_046_839_416_1 + 829.530_035_844_072_7) / 2.0,
    );

    let found = read(
        include_str!("real/pytest-benchmark-5.3.1.json"),
        Format::PytestBenchmark,
    );
    assert_eq!(found.benchmarks[0].name, "test_b.py::test_sort[10]");
    near(median(&found, 0, "wall-time"), 176.250_250_660_814_36);

    let found = read(
        include_str!("real/criterion-0.8.2-sample.json"),
        Format::Criterion,
    );
    near(median(&found, 0, "wall-time"), 28.967_311_946_902_655);

    // Compared with a run before, whose counts stand beside.
    let text = include_str!("real/gungraun-0.20.0.json");
    let found = parse(text, Format::of(text).unwrap(), None).unwrap();
    assert_eq!(found.benchmarks[0].name, "sums::sums::total::long");
    near(median(&found, 0, "instructions"), 2395.0);
    near(median(&found, 0, "estimated-cycles"), 2468.0);
    near(median(&found, 0, "stores"), 2.0);

    let found = read(include_str!("real/go-1.26.8.txt"), Format::Go);
    let names: Vec<&str> = found.benchmarks.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "example.org/sums.BenchmarkItoa-2",
            "example.org/sums.BenchmarkSizes/n=16-2",
            "example.org/sums.BenchmarkSizes/n=64-2"
        ]
    );
    near(median(&found, 0, "wall-time"), (25.34 + 50.47) / 2.0);
    near(median(&found, 0, "allocations"), 1.0);
    near(median(&found, 2, "items/s"), 64.0);
    near(median(&found, 2, "throughput"), (409.39 + 1126.96) / 2.0);
}
