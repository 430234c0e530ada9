//! Makes a big recording out of a small one: the samples of FILE again and again, in time order, until OUT has
//! about MEGABYTES. For measurements of speed:
//!
//! `cargo run --release -p truecount-sample --example repeat -- FILE OUT 75`
use std::io::Write as _;

use truecount_sample::Recording;
use truecount_sample::abi::{record, sample as st};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: repeat FILE OUT MEGABYTES";
    let mut args = std::env::args().skip(1);
    let (file, out, size) = (
        args.next().ok_or(usage)?,
        args.next().ok_or(usage)?,
        args.next().ok_or(usage)?,
    );
    let size: usize = size.parse::<usize>()? * 1_000_000;
    let recording = Recording::open(file.as_ref())?;
    let bytes = std::fs::read(&file)?;
    let event = recording.events().first().ok_or("no event")?;
    if recording.events().len() != 1 || recording.is_pipe() {
        return Err("only files with one event can be repeated".into());
    }
    // The time follows those of identifier, ip and tid that are there; 8 bytes of header before them.
    let before = event.attr.sample_type & (st::IDENTIFIER | st::IP | st::TID);
    let time_at = 8 + 8 * before.count_ones() as usize;
    let mut side = Vec::new();
    let mut samples = Vec::new();
    let (mut first, mut last) = (u64::MAX, 0);
    for item in recording.records() {
        let item = item?;
        let at = item.offset as usize;
        let raw = bytes
            .get(at..at + 8 + item.raw.body.len())
            .ok_or("compressed records cannot be repeated")?;
        if item.raw.kind == record::SAMPLE {
            let (_, id, _) = recording.decode(&item)?;
            let time = id.time.ok_or("the samples have no time")?;
            (first, last) = (first.min(time), last.max(time));
            samples.push((time, raw));
        } else if item.raw.kind != record::EXIT {
            side.extend_from_slice(raw);
        }
    }
    samples.sort_by_key(|s| s.0);
    let mut data = side;
    let mut shift = 0u64;
    while data.len() < size {
        for (time, raw) in &samples {
            let mut copy = raw.to_vec();
            if let Some(slot) = copy.get_mut(time_at..time_at + 8) {
                slot.copy_from_slice(&(time + shift).to_le_bytes());
            }
            data.extend_from_slice(&copy);
        }
        shift += last - first + 1000;
    }
    // Header and attributes stand at the front and stay; the data goes behind them, then the features, whose
    // sections move by as much as the data grew.
    let word = |at: usize| {
        bytes
            .get(at..at + 8)
            .and_then(|b| b.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    };
    let (data_at, attrs_end) = (word(40) as usize, (word(24) + word(32)) as usize);
    if attrs_end > data_at {
        return Err("the attributes do not stand before the data".into());
    }
    let mut head = bytes.get(..data_at).ok_or("short file")?.to_vec();
    head.splice(48..56, (data.len() as u64).to_le_bytes());
    let old_end = data_at + word(48) as usize;
    let moved = (data.len() as u64).wrapping_sub(word(48));
    let features: u32 = (72..104).step_by(8).map(|at| word(at).count_ones()).sum();
    let mut tail = bytes.get(old_end..).unwrap_or_default().to_vec();
    for entry in tail.chunks_exact_mut(16).take(features as usize) {
        if let Some((offset, _)) = entry.split_first_chunk_mut::<8>() {
            *offset = u64::from_le_bytes(*offset)
                .wrapping_add(moved)
                .to_le_bytes();
        }
    }
    let mut out = std::fs::File::create(out)?;
    out.write_all(&head)?;
    out.write_all(&data)?;
    out.write_all(&tail)?;
    Ok(())
}
