#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (truecount_fuzz_targets::named("imports").run)(data));
