//! Trace event JSON (*Trace Event Format*, Google, 2016): `X` complete, `i` instant, `C` counter,
//! `M` metadata. Times are microseconds, with up to three places, so that nothing is lost.

use super::{ExportOptions, lines, process_name, thousandths};
use crate::event::Payload;
use crate::file::Profile;
use std::collections::BTreeMap;
use std::io::{self, Write};

pub(super) fn write(
    profile: &Profile,
    options: &ExportOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let lines = lines(profile, options.collapse_threads);
    let process = profile.metadata().process_id.unwrap_or(0);
    write!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"counter\":"
    )?;
    string(out, &profile.unit().counter)?;
    out.write_all(b",\"unit\":")?;
    string(out, &format!("1 \u{b5}s is 1000 {}", profile.unit().name))?;
    out.write_all(b",\"command\":")?;
    string(out, profile.metadata().command.as_deref().unwrap_or(""))?;
    write!(
        out,
        "}},\"traceEvents\":[\n{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\"args\":{{\"name\":"
    )?;
    string(out, process_name(profile))?;
    out.write_all(b"}}")?;
    let mut names: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (thread, line) in &lines {
        names.entry(*line).or_default().push(*thread);
    }
    for (line, mut threads) in names {
        threads.sort_unstable();
        let threads: Vec<String> = threads.iter().map(u32::to_string).collect();
        write!(
            out,
            ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{process},\"tid\":{line},\"args\":{{\"name\":"
        )?;
        string(out, &format!("thread {}", threads.join(", ")))?;
        out.write_all(b"}}")?;
    }
    let strings = profile.strings();
    let mut last = 0;
    let mut integers = Vec::new();
    for event in profile.events().iter() {
        let line = lines.get(&event.thread).copied().unwrap_or(event.thread);
        match event.payload {
            Payload::Interval { start, end } if start <= end => {
                last = last.max(end);
                if end - start < options.minimum_duration {
                    continue;
                }
                let (ts, dur) = (thousandths(start), thousandths(end - start));
                write!(
                    out,
                    ",\n{{\"ph\":\"X\",\"pid\":{process},\"tid\":{line},\"ts\":{ts},\"dur\":{dur},\"cat\":"
                )?;
            }
            Payload::Instant { at } => {
                last = last.max(at);
                let ts = thousandths(at);
                write!(
                    out,
                    ",\n{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{process},\"tid\":{line},\"ts\":{ts},\"cat\":"
                )?;
            }
            Payload::Integer { .. } => {
                integers.push(event);
                continue;
            }
            Payload::Interval { .. } => continue,
        }
        let text = strings.event_text(event.id);
        string(out, &strings.get(event.kind))?;
        out.write_all(b",\"name\":")?;
        string(out, &text.label)?;
        arguments(out, &text.arguments, None)?;
    }
    // An integer has no place in time: it stands at the end.
    let ts = thousandths(last);
    for event in integers {
        let Payload::Integer { value } = event.payload else {
            continue;
        };
        let text = strings.event_text(event.id);
        write!(
            out,
            ",\n{{\"ph\":\"C\",\"pid\":{process},\"tid\":{},\"ts\":{ts},\"cat\":",
            event.thread
        )?;
        let kind = strings.get(event.kind);
        string(out, &kind)?;
        out.write_all(b",\"name\":")?;
        let name = if text.arguments.is_empty() {
            text.label
        } else {
            format!("{}({})", text.label, text.arguments.join(", "))
        };
        string(out, &format!("{kind} {name}"))?;
        arguments(out, &[], Some(value))?;
    }
    out.write_all(b"\n]}\n")
}

fn arguments(out: &mut dyn Write, arguments: &[String], value: Option<u64>) -> io::Result<()> {
    if let Some(value) = value {
        return write!(out, ",\"args\":{{\"value\":{value}}}}}");
    }
    if !arguments.is_empty() {
        out.write_all(b",\"args\":{")?;
        for (number, argument) in arguments.iter().enumerate() {
            write!(
                out,
                "{}\"arg{number}\":",
                if number == 0 { "" } else { "," }
            )?;
            string(out, argument)?;
        }
        out.write_all(b"}")?;
    }
    out.write_all(b"}")
}

/// A JSON string.
pub(super) fn string(out: &mut dyn Write, text: &str) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::from)
}
