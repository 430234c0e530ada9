//! A processed profile of the Firefox profiler, version 55 of its format.
//!
//! Facts: the profiler's `docs-developer/CHANGELOG-formats.md` and the crate `fxprof-processed-profile` 0.8, whose
//! output the tests compare the shape with. That crate does not write these profiles: its weights are integers, so
//! that an interval of less than a millisecond would weigh nothing.

mod regions;
mod samples;
mod tables;

pub(super) use regions::write;

use serde_json::{Value, json};

/// The profiler counts in milliseconds.
fn ms(value: u64) -> f64 {
    value as f64 / 1e6
}

/// Categories of frames: a name and a colour of the profiler.
type Category = (&'static str, &'static str);

/// What every profile says of itself; `more` is added.
fn meta(product: &str, interval: f64, start: f64, categories: &[Category], more: Value) -> Value {
    let categories: Vec<Value> = categories
        .iter()
        .map(|(name, color)| json!({"name": name, "color": color, "subcategories": ["Other"]}))
        .collect();
    let mut meta = json!({
        "categories": categories,
        "debug": false,
        "extensions": {"baseURL": [], "id": [], "length": 0, "name": []},
        "interval": interval,
        "preprocessedProfileVersion": 55,
        "processType": 0,
        "product": product,
        "sampleUnits": {"eventDelay": "ms", "threadCPUDelta": "\u{b5}s", "time": "ms"},
        "startTime": start,
        "symbolicated": true,
        "pausedRanges": [],
        "version": 24,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "markerSchema": [],
    });
    if let (Value::Object(meta), Value::Object(more)) = (&mut meta, more) {
        meta.extend(more);
    }
    meta
}
