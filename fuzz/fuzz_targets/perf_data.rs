//! The `perf.data` parser and everything behind it: no panic, no hang, no unbounded memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use truecount_sample::{Recording, blocks};

fuzz_target!(|data: &[u8]| {
    let Ok(recording) = Recording::from_bytes(data.to_vec()) else {
        return;
    };
    for record in recording.records().flatten() {
        let _ = recording.decode(&record);
    }
    let _ = recording.losses();
    if let Ok(Ok(analysis)) = blocks::analyze(&recording) {
        for block in &analysis.blocks {
            let all = block.all_cycles();
            let _ = (all.modes(), all.percentile(0.9), blocks::PrefetchWindow::of(&all, true));
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = blocks::analyze_text(text);
    }
});
