//! The region-profile reader and every analysis behind it: no panic, no hang, no unbounded memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use truecount_profile::export::{ExportOptions, Format, export};
use truecount_profile::{Profile, drill, noise, summarize};

const FORMATS: [Format; 7] = [
    Format::Chrome,
    Format::Perfetto,
    Format::Firefox,
    Format::Folded,
    Format::Svg,
    Format::Pprof,
    Format::Json,
];

fuzz_target!(|data: &[u8]| {
    let Ok(profile) = Profile::from_bytes(data.to_vec(), "fuzz") else {
        return;
    };
    let summary = summarize(&profile);
    if let Some(row) = summary.labels.first() {
        let _ = drill::drill(&profile, &row.label);
    }
    let _ = noise::macro_noise(&[vec![summary]]);
    let format = FORMATS[data.len() % FORMATS.len()];
    let _ = export(&profile, format, &ExportOptions::default(), &mut std::io::sink());
});
