//! `truecount system` on whatever machine this is.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{code, fails, json, run, stderr, stdout, truecount};

fn cell<'d>(document: &'d Value, row: usize, column: &str) -> &'d Value {
    let columns = document["columns"].as_array().unwrap();
    let at = columns.iter().position(|c| c["name"] == column).unwrap();
    &document["rows"][row]["cells"][at]
}

#[test]
fn what_can_be_had_is_shown_and_the_rest_says_why() {
    let output = run(&["system", "-n", "2", "-I", "200", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let lines = stdout(&output);
    let documents: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(documents.len(), 2);
    // One of the two may be short where the other was late.
    let wall: u64 = documents.iter().filter_map(|d| d["wall_ns"].as_u64()).sum();
    assert!(wall >= 390_000_000, "{wall} ns");
    for document in &documents {
        let rows = document["rows"].as_array().unwrap().len() as u64;
        assert_eq!(rows, document["cpus"].as_u64().unwrap() + 1);
        for name in [
            "utilisation",
            "interrupts",
            "context-switches",
            "page-faults",
        ] {
            let value = cell(document, 0, name)["value"].as_f64();
            assert!(
                value.is_some_and(|value| value >= 0.0),
                "{name}: {document}"
            );
        }
        let busy = cell(document, 0, "utilisation")["value"].as_f64().unwrap();
        assert!(busy <= 100.0, "{busy}");
        for cells in document["rows"].as_array().unwrap() {
            for cell in cells["cells"].as_array().unwrap() {
                assert_ne!(cell["value"].is_null(), cell["reason"].is_null(), "{cell}");
            }
        }
    }
    let text = stdout(&run(&["system", "-n", "1", "-I", "100"]));
    assert!(text.contains("busy %") && text.contains("cpu 0"), "{text}");
    let ipc = cell(&documents[0], 0, "ipc");
    if let Some(reason) = ipc["reason"].as_str() {
        assert!(text.contains(&format!("n/a: {reason}: ")), "{text}");
    }
}

#[test]
fn a_busy_cpu_is_seen() {
    let spinning = truecount_testing::Spinning::start();
    let document = json(&[
        "system", "-n", "1", "-I", "400", "--json", "--per", "socket",
    ]);
    drop(spinning);
    let cpus = document["cpus"].as_f64().unwrap();
    let value = |name: &str| cell(&document, 0, name)["value"].as_f64().unwrap();
    // One CPU's worth, less what other programs and a slow machine take from it.
    assert!(value("utilisation") > 40.0 / cpus, "{document}");
    assert_eq!(document["rows"][1]["scope"], "socket");
}

#[test]
fn csv_has_a_line_for_each_cell() {
    let text = stdout(&run(&[
        "system", "-n", "1", "-I", "50", "--per", "node", "--csv",
    ]));
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("interval,scope,id,metric,value,unit,precision,reason")
    );
    assert!(
        lines
            .clone()
            .any(|l| l.starts_with("1,machine,,utilisation,")),
        "{text}"
    );
    assert!(
        lines.any(|l| l.starts_with("1,node,0,interrupts,")),
        "{text}"
    );
}

/// The text is what a parser of the format understands, whole, and obeys the format's rules on order.
fn check_prometheus(text: &str) {
    let lines = text.lines().map(|line| Ok(line.to_owned()));
    let scrape = prometheus_parse::Scrape::parse(lines).unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(scrape.samples.len(), samples, "{text}");
    assert!(text.ends_with('\n'));
    for sample in &scrape.samples {
        assert!(
            matches!(sample.value, prometheus_parse::Value::Gauge(value) if value.is_finite()),
            "{sample:?}"
        );
        assert!(scrape.docs.contains_key(&sample.metric), "{sample:?}");
    }
    // All lines of a metric stand together, after one HELP and one TYPE (exposition formats, "Grouping and sorting").
    let names = text.lines().map(|line| {
        let words: Vec<&str> = line.split([' ', '{']).collect();
        if words[0] == "#" { words[2] } else { words[0] }
    });
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.last() != Some(&name) {
            assert!(!seen.contains(&name), "{name} comes twice");
            seen.push(name);
        }
    }
    let busy = scrape
        .samples
        .iter()
        .find(|s| s.metric == "truecount_utilisation_ratio")
        .unwrap();
    assert!(
        matches!(busy.value, prometheus_parse::Value::Gauge(value) if (0.0..=1.0).contains(&value)),
        "{busy:?}"
    );
    assert_eq!(busy.labels.get("scope"), Some("machine"));
}

#[test]
fn prometheus_text_is_printed_once() {
    let output = run(&["system", "-I", "500", "--prometheus"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    check_prometheus(&stdout(&output));
}

#[test]
fn prometheus_is_served_on_loopback_and_ctrl_c_ends_it() {
    let mut child = truecount(&["system", "-I", "50", "--prometheus", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .trim()
        .strip_prefix("serving http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .unwrap_or_else(|| panic!("{line}"))
        .to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // (A busy machine's first interval may be over within one tick: "no time passed".)
    let mut answer = get("/metrics");
    for _ in 0..100 {
        if answer.contains("truecount_utilisation_ratio{scope=\"machine\"") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        answer = get("/metrics");
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    check_prometheus(body);
    assert!(get("/").starts_with("HTTP/1.1 404"));
    // SAFETY: a signal to the child of this test, which is still running.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    fails(
        &["system", "--prometheus", &port],
        1,
        &["cannot listen", &port],
    );
}

#[test]
fn wrong_wishes_are_status_2() {
    for args in [
        &["system", "-I", "1"][..],
        &["system", "-n", "0"],
        &["system", "--per", "rack"],
        &["system", "--prometheus", "99999"],
        &["system", "--json", "--csv"],
        &["system", "--listen", "127.0.0.1"],
        &["system", "-M", "no-such-metric", "-n", "1"],
    ] {
        let output = run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
    }
}
