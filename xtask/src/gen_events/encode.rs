//! The encoder of `events.bin`. The format is described at the decoder, `crates/events/src/tables/blob.rs`.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use truecount_events::tables::{Arch, CodeKey, MAGIC, Precise, TableEvent, Tables};

pub(super) fn encode(tables: &Tables) -> Result<Vec<u8>> {
    let events = tables.distinct();
    let models: Vec<_> = tables.models().collect();
    let mut out = MAGIC.to_vec();
    string(&mut out, tables.source());
    // Names keep the order of the rows, so that the column of names holds small steps.
    let mut names: Vec<&str> = events.iter().map(|e| e.name.as_str()).collect();
    names.dedup();
    let pmus = table(events, |e| &e.pmu);
    let extras = table(events, |e| &e.extra);
    let counters = table(events, |e| &e.counters);
    let scales = table(events, |e| &e.scale);
    for table in [&names, &pmus, &extras, &counters, &scales] {
        string_table(&mut out, table);
    }
    number(&mut out, events.len() as u64);
    let mut at = 0;
    for event in events {
        let step = u64::from(names.get(at) != Some(&event.name.as_str()));
        at += usize::try_from(step)?;
        number(&mut out, step);
    }
    column(&mut out, events, &pmus, |e| &e.pmu)?;
    for event in events {
        number(&mut out, event.code);
    }
    for event in events {
        number(&mut out, event.umask);
    }
    column(&mut out, events, &extras, |e| &e.extra)?;
    for event in events {
        number(&mut out, flags(event));
    }
    column(&mut out, events, &counters, |e| &e.counters)?;
    column(&mut out, events, &scales, |e| &e.scale)?;
    number(&mut out, models.len() as u64);
    for model in models {
        string(&mut out, model.name());
        string(&mut out, model.version());
        number(&mut out, model.cpus().len() as u64);
        for pattern in model.cpus() {
            string(&mut out, pattern);
        }
        number(&mut out, model.rows().len() as u64);
        let mut before = 0;
        for &row in model.rows() {
            number(&mut out, u64::from(row - before));
            before = row;
        }
    }
    Ok(miniz_oxide::deflate::compress_to_vec_zlib(&out, 10))
}

fn flags(event: &TableEvent) -> u64 {
    let precise = match event.precise {
        Precise::No => 0,
        Precise::Can => 1,
        Precise::Must => 2,
    };
    let key = match event.key {
        CodeKey::Event => 0,
        CodeKey::Config => 1,
        CodeKey::EventId => 2,
    };
    let arch = match event.arch {
        Arch::Intel => 0,
        Arch::Amd => 1,
        Arch::Arm => 2,
    };
    precise | u64::from(event.deprecated) << 2 | key << 3 | arch << 5
}

fn table<'a>(
    events: &'a [TableEvent],
    field: impl Fn(&'a TableEvent) -> &'a String,
) -> Vec<&'a str> {
    let set: BTreeSet<&str> = events.iter().map(|e| field(e).as_str()).collect();
    set.into_iter().collect()
}

fn column<'a>(
    out: &mut Vec<u8>,
    events: &'a [TableEvent],
    table: &[&str],
    field: impl Fn(&'a TableEvent) -> &'a String,
) -> Result<()> {
    for event in events {
        let text = field(event).as_str();
        let index = table
            .binary_search(&text)
            .ok()
            .context("a string outside its table")?;
        number(out, index as u64);
    }
    Ok(())
}

fn string_table(out: &mut Vec<u8>, table: &[&str]) {
    number(out, table.len() as u64);
    let mut before = "";
    for text in table {
        let shared = before
            .bytes()
            .zip(text.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let shared = (0..=shared)
            .rev()
            .find(|&n| text.is_char_boundary(n))
            .unwrap_or(0);
        number(out, shared as u64);
        string(out, text.get(shared..).unwrap_or(""));
        before = text;
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0);
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}
