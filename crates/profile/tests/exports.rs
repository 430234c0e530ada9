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
use truecount_profile::export::{
    ExportOptions, FlameGraph, Format, Function, Line, Measure, Owner, Place, Stack, Stacks,
    export, stacks,
};

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
    assert_eq!(svg.matches("<svg ").count(), svg.matches("</svg>").count());
    assert!(svg.contains("total 19,999 instructions"), "{svg}");
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

/// Two samples of one process: `main` → `work` in user mode, then `main` → `read` → the kernel's `copy`.
fn samples() -> Stacks {
    let function = |name: &str, module: &str| Function {
        name: name.to_owned(),
        module: module.to_owned(),
        file: None,
    };
    let place = |address, kernel, functions: &[usize]| Place {
        address,
        kernel,
        lines: functions
            .iter()
            .map(|&function| Line {
                function,
                line: Some(7),
                inlined: false,
            })
            .collect(),
    };
    let stack = |places: &[usize], cost| Stack {
        measure: 0,
        owner: Some(Owner {
            process: "prog".to_owned(),
            pid: 10,
            tid: 10,
        }),
        places: places.to_vec(),
        count: 1,
        cost,
    };
    Stacks {
        title: "perf.data".to_owned(),
        measures: vec![Measure {
            name: "cycles".to_owned(),
            occurrences: "cycles samples".to_owned(),
            nanoseconds: false,
        }],
        functions: ["main", "work", "read", "copy;fast"]
            .map(|name| {
                function(
                    name,
                    if name.contains(';') {
                        "[kernel]"
                    } else {
                        "prog"
                    },
                )
            })
            .to_vec(),
        places: vec![
            place(0x10, false, &[0]),
            place(0x20, false, &[1]),
            place(0x30, false, &[2]),
            place(0x40, true, &[3]),
        ],
        stacks: vec![stack(&[1, 0], 1_000), stack(&[3, 2, 0], 3_000)],
        timeline: vec![(5_000_000, 1), (2_000_000, 0)],
        duration: Some(3_000_000),
        start: None,
    }
}

/// The fields of a protobuf message: number and, of length-delimited ones, bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        match key & 7 {
            0 => out.push((key >> 3, varint(&mut bytes).to_le_bytes().to_vec())),
            2 => {
                let length = varint(&mut bytes) as usize;
                out.push((key >> 3, bytes[..length].to_vec()));
                bytes = &bytes[length..];
            }
            other => panic!("wire type {other}"),
        }
    }
    out
}

#[test]
fn samples_and_regions_share_the_exports_of_call_trees() {
    let stacks = samples();
    assert_eq!(
        stacks.folded(0),
        [
            ("prog;main;read;copy:fast".to_owned(), 3_000),
            ("prog;main;work".to_owned(), 1_000)
        ]
    );
    let mut packed = Vec::new();
    stacks.write_pprof(&mut packed).unwrap();
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut message)
        .unwrap();
    let fields = fields(&message);
    let of = |number| fields.iter().filter(move |field| field.0 == number);
    assert_eq!((of(1).count(), of(2).count()), (2, 2), "types, samples");
    assert_eq!((of(4).count(), of(5).count()), (4, 4), "places, functions");
    assert_eq!(of(6).next().unwrap().1, b"", "the first string is empty");
    assert_eq!(of(10).next().unwrap().1, 3_000_000u64.to_le_bytes());
    let svg = FlameGraph::of(&stacks, 0, Some("all"), "cycles").svg("title");
    assert!(
        svg.contains("copy;fast (kernel): 75.00 %, 3,000 cycles; 1 cycles samples"),
        "{svg}"
    );
}

/// The keys of all objects, with where they stand; arrays count by their first element.
fn keys(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                out.push(format!("{at}.{key}"));
                keys(value, &format!("{at}.{key}"), out);
            }
        }
        Value::Array(array) => {
            if let Some(first) = array.first() {
                keys(first, at, out);
            }
        }
        _ => {}
    }
}

#[test]
fn samples_have_the_shape_that_fxprof_writes() {
    use fxprof_processed_profile as fx;
    let mut out = Vec::new();
    samples().write_firefox(&mut out).unwrap();
    let ours: Value = serde_json::from_slice(&out).unwrap();

    let mut theirs = fx::Profile::new(
        "perf.data",
        fx::ReferenceTimestamp::from_millis_since_unix_epoch(0.0),
        fx::SamplingInterval::from_millis(1),
    );
    theirs.set_symbolicated(true);
    let user = theirs.add_category("User", fx::CategoryColor::Yellow);
    let kernel = theirs.add_category("Kernel", fx::CategoryColor::Orange);
    let at = fx::Timestamp::from_nanos_since_reference;
    let process = theirs.add_process("prog", 10, at(0));
    let thread = theirs.add_thread(process, 10, at(0), true);
    for (time, frames) in [
        (0, &[("main (prog)", user), ("work (prog)", user)][..]),
        (
            3_000_000,
            &[
                ("main (prog)", user),
                ("read (prog)", user),
                ("copy;fast ([kernel])", kernel),
            ][..],
        ),
    ] {
        let frames: Vec<_> = frames
            .iter()
            .map(|(label, category)| fx::FrameInfo {
                frame: fx::Frame::Label(theirs.intern_string(label)),
                category_pair: (*category).into(),
                flags: fx::FrameFlags::empty(),
            })
            .collect();
        let stack = theirs.intern_stack_frames(thread, frames.into_iter());
        theirs.add_sample(thread, at(time), stack, fx::CpuDelta::ZERO, 1);
    }
    let theirs: Value = serde_json::from_str(&serde_json::to_string(&theirs).unwrap()).unwrap();

    let (mut a, mut b) = (Vec::new(), Vec::new());
    keys(&ours, "", &mut a);
    keys(&theirs, "", &mut b);
    a.sort();
    b.sort();
    let missing: Vec<_> = b.iter().filter(|key| !a.contains(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for table in ["samples", "stackTable"] {
        for column in ["length", "stack", "weight", "timeDeltas", "prefix"] {
            let of = |document: &Value| {
                let value = document["threads"][0][table][column].clone();
                let floats = value.as_array().map(|v| {
                    let floats = v.iter().map(Value::as_f64);
                    floats.collect::<Vec<_>>()
                });
                (value.as_u64(), floats)
            };
            assert_eq!(of(&ours), of(&theirs), "{table}.{column}");
        }
    }
    assert_eq!(ours["meta"]["categories"], theirs["meta"]["categories"]);
    let names = |document: &Value| {
        let thread = &document["threads"][0];
        let strings = thread["stringArray"].as_array().unwrap().clone();
        let frames = thread["frameTable"]["func"].as_array().unwrap().clone();
        let mut names: Vec<(String, Value)> = frames
            .iter()
            .enumerate()
            .map(|(at, function)| {
                let name = &thread["funcTable"]["name"][function.as_u64().unwrap() as usize];
                let name = strings[name.as_u64().unwrap() as usize].as_str().unwrap();
                let category = thread["frameTable"]["category"][at].as_u64().unwrap();
                // The crate puts a category of its own before those that are added.
                let category = &document["meta"]["categories"][category as usize]["name"];
                (name.to_owned(), category.clone())
            })
            .collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        names
    };
    assert_eq!(names(&ours), names(&theirs));
}
