//! Exports against the shape that their viewers read, and folded stacks against measureme's.

#![allow(clippy::unwrap_used)]

#[path = "support/build.rs"]
mod build;
mod support;

use build::Builder;
use serde_json::Value;
use std::collections::HashMap;
use std::io::Read;
use truecount_profile::Profile;
use truecount_profile::export::{ExportOptions, Format, export, stacks};

/// Two threads, one after the other, an instant, an integer, times that are no whole microseconds.
fn sample() -> Profile {
    let mut b = Builder::new(9);
    let query = b.bytes(b"Query");
    let hit = b.bytes(b"QueryCacheHit");
    let size = b.bytes(b"ArtifactSize");
    let outer = b.bytes(b"outer<&\">");
    let inner = b.references(&[(outer, b"\x1e"), (outer, b"\x1esecond")]);
    let short = b.bytes(b"short");
    b.raw(query, short, 1, 2002, 2003);
    b.instant(hit, short, 1, 2500);
    b.raw(query, inner, 1, 2001, 3001);
    b.raw(query, outer, 1, 1, 10_000);
    b.raw(query, outer, 2, 20_000, 30_000);
    b.integer(size, short, 1, 4096);
    Profile::from_bytes(b.file(64), "sample").unwrap()
}

fn bytes(profile: &Profile, format: Format, options: &ExportOptions) -> Vec<u8> {
    let mut out = Vec::new();
    export(profile, format, options, &mut out).unwrap();
    out
}

#[test]
fn chrome_keeps_nanoseconds_instants_integers_and_arguments() {
    let profile = sample();
    let json: Value =
        serde_json::from_slice(&bytes(&profile, Format::Chrome, &ExportOptions::default()))
            .unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let of = |phase: &str| {
        events
            .iter()
            .filter(|e| e["ph"] == phase)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("X").len(), 4);
    assert_eq!(of("X")[0]["ts"], 2.002);
    assert_eq!(of("X")[0]["dur"], 0.001);
    assert_eq!(of("X")[1]["args"]["arg1"], "second");
    assert_eq!(of("i")[0]["ts"], 2.5);
    assert_eq!(of("C")[0]["args"]["value"], 4096);
    let options = ExportOptions {
        minimum_duration: 1000,
        collapse_threads: true,
    };
    let json: Value = serde_json::from_slice(&bytes(&profile, Format::Chrome, &options)).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|e| e["ph"] == "X").count(), 3);
    assert!(
        events
            .iter()
            .filter(|e| e["ph"] == "X")
            .all(|e| e["tid"] == 0),
        "threads do not overlap: one line"
    );
}

#[test]
fn firefox_tables_have_their_columns() {
    let json: Value = serde_json::from_slice(&bytes(
        &sample(),
        Format::Firefox,
        &ExportOptions::default(),
    ))
    .unwrap();
    assert_eq!(json["meta"]["preprocessedProfileVersion"], 55);
    let threads = json["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    for thread in threads {
        for (table, columns) in [
            ("frameTable", 10),
            ("funcTable", 8),
            ("markers", 7),
            ("samples", 6),
            ("stackTable", 3),
        ] {
            let table = thread[table].as_object().unwrap();
            assert_eq!(table.len(), columns, "{table:?}");
            let length = table["length"].as_u64().unwrap() as usize;
            assert!(
                table
                    .values()
                    .filter_map(Value::as_array)
                    .all(|column| column.len() == length)
            );
        }
    }
    // The first thread is busy from 1 to 10,000.
    let weights: f64 = threads[0]["samples"]["weight"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_f64().unwrap())
        .sum();
    assert!((weights - 9_999.0 / 1e6).abs() < 1e-12, "{weights}");
    assert_eq!(threads[0]["markers"]["length"], 4);
    assert_eq!(threads[1]["markers"]["data"][1]["value"], 4096);
}

#[test]
fn folded_stacks_and_pprof_add_up() {
    let profile = sample();
    let folded = stacks(&profile);
    assert_eq!(folded.len(), 3, "{folded:?}");
    let total: u64 = folded.iter().map(|(_, own)| own).sum();
    assert_eq!(total, truecount_profile::summarize(&profile).total);
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&bytes(&profile, Format::Pprof, &ExportOptions::default())[..])
        .read_to_end(&mut text)
        .unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("outer<&\">") && text.contains("instructions:u"));
}

#[test]
fn the_flame_graph_is_well_formed_and_escaped() {
    let svg = String::from_utf8(bytes(&sample(), Format::Svg, &ExportOptions::default())).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("outer&lt;&amp;&quot;&gt;") && !svg.contains("outer<"));
    assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
    assert!(svg.contains("total 19999 instructions"));
}

#[test]
fn json_has_every_event() {
    let json: Value =
        serde_json::from_slice(&bytes(&sample(), Format::Json, &ExportOptions::default())).unwrap();
    assert_eq!(json["schema"], "truecount.profile/1");
    assert_eq!(json["unit"]["counter"], "instructions:u");
    assert_eq!(json["events"].as_array().unwrap().len(), 6);
    assert_eq!(json["events"][1]["at"], 2500);
}

#[test]
fn folded_stacks_are_measuremes() {
    let directory = tempfile::tempdir().unwrap();
    let Some(path) = support::rustc_profile(directory.path(), "default", "folded") else {
        return;
    };
    let theirs =
        analyzeme::ProfilingData::from_paged_buffer(std::fs::read(&path).unwrap(), None).unwrap();
    let theirs: HashMap<String, u64> = analyzeme::collapse_stacks(&theirs)
        .into_iter()
        .filter(|(_, own)| *own > 0)
        .collect();
    let ours: HashMap<String, u64> = stacks(&Profile::open(&path).unwrap()).into_iter().collect();
    assert!(ours.len() > 100);
    assert_eq!(ours, theirs);
}
