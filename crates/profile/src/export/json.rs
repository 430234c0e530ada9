//! All events with their text, as one document or one line each.

use crate::event::{Event, Payload};
use crate::file::Profile;
use serde::Serialize;
use std::io::{self, Write};

/// One event with its text. Points and values are in the profile's unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventLine {
    /// The event's kind.
    pub kind: String,
    /// Its label.
    pub label: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The thread.
    pub thread: u32,
    /// Start of an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// End of an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// Place of an instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Value of an integer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
}

/// An event with its text.
#[must_use]
pub fn event_line(profile: &Profile, event: &Event) -> EventLine {
    let strings = profile.strings();
    let text = strings.event_text(event.id);
    let mut line = EventLine {
        kind: strings.get(event.kind).into_owned(),
        label: text.label,
        arguments: text.arguments,
        thread: event.thread,
        start: None,
        end: None,
        at: None,
        value: None,
    };
    match event.payload {
        Payload::Interval { start, end } => (line.start, line.end) = (Some(start), Some(end)),
        Payload::Instant { at } => line.at = Some(at),
        Payload::Integer { value } => line.value = Some(value),
    }
    line
}

#[derive(Serialize)]
struct Head<'p> {
    schema: &'static str,
    file: String,
    version: u32,
    start_time: Option<u64>,
    process_id: Option<u32>,
    command: Option<&'p str>,
    unit: &'p crate::Unit,
    overhead: Option<crate::metadata::Overhead>,
    losses: Vec<String>,
}

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let metadata = profile.metadata();
    let head = serde_json::to_string(&Head {
        schema: "truecount.profile/1",
        file: profile.path().display().to_string(),
        version: profile.version(),
        start_time: metadata.start_time,
        process_id: metadata.process_id,
        command: metadata.command.as_deref(),
        unit: &metadata.unit,
        overhead: metadata.overhead,
        losses: profile.losses().iter().map(ToString::to_string).collect(),
    })
    .map_err(io::Error::from)?;
    write!(
        out,
        "{},\"events\":[",
        head.strip_suffix("}").unwrap_or(&head)
    )?;
    for (number, event) in profile.events().iter().enumerate() {
        out.write_all(if number == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &event_line(profile, &event)).map_err(io::Error::from)?;
    }
    out.write_all(b"\n]}\n")
}
