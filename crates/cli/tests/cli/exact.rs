//! What `bench` calls exact: counts, with evidence, and nothing else.

use crate::support::{json, run, stdout};
use crate::verdicts::comparison;

/// Equal values of memory, faults and times are equal, and no exact counts: in text, pages, documents, and where an
/// earlier version saved them as exact.
#[test]
fn equal_accounts_of_the_kernel_are_no_exact_counts() {
    let directory = tempfile::tempdir().unwrap();
    let metric = |unit: &str, source: &str| {
        serde_json::json!({
            "unit": unit, "source": source, "precision": "counted", "samples": [7168, 7168, 7168, 7168, 7168, 7168],
            "min": 7168, "median": 7168, "max": 7168, "distinct": 1, "mad": 0.0, "exact": true,
        })
    };
    let command = |name: &str| {
        serde_json::json!({
            "command": [name], "name": name, "runs": 6,
            "metrics": {
                "instructions:u": metric("count", "virtual"), "max-rss": metric("bytes", "software"),
                "page-faults": metric("count", "software"), "cpu-time": metric("ns", "software"),
            },
        })
    };
    let document = serde_json::json!({
        "schema": "truecount.bench/2", "seed": 1, "rounds": 6, "commands": [command("a"), command("b")],
        "environment": {},
    });
    let file = directory.path().join("saved.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let page = directory.path().join("page.html");
    let from = ["bench", "--from", file.to_str().unwrap()];
    let html = ["--html", page.to_str().unwrap()];
    let text = stdout(&run(&[&from[..], &html].concat()));
    let one_metric = |line: &&str| line.contains("exact");
    let called: Vec<&str> = text.lines().filter(one_metric).collect();
    assert!(
        !called.is_empty() && called.iter().all(|line| line.contains("instructions:u")),
        "{text}"
    );
    assert!(text.contains("6 of 6 equal"), "{text}");
    // A picture of one metric with its table, then the next.
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("max-rss"), "{page}");
    for part in page.split("<figcaption>").skip(1) {
        let table = part.split("</figure>").next().unwrap();
        assert!(
            table.starts_with("<b>instructions:u") || !table.contains("exact"),
            "{table}"
        );
    }
    for row in page
        .split("<tr>")
        .filter(|row| row.contains("exact counts"))
    {
        assert!(row.contains("instructions:u"), "{row}");
    }
    let document = json(&[&from[..], &["--json"]].concat());
    for name in ["max-rss", "page-faults", "cpu-time", "instructions:u"] {
        let count = name == "instructions:u";
        for command in 0..2 {
            let metric = &document["commands"][command]["metrics"][name];
            assert_eq!(metric["exact"], count, "{metric}");
        }
        let compared = comparison(&document, name);
        assert_eq!(compared["exact"], count, "{compared}");
        let explained = compared["explanation"].as_str().unwrap();
        assert!(count || !explained.contains("exact"), "{explained}");
    }
}
