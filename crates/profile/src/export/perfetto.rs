//! A Perfetto trace: `TracePacket`s with track descriptors and track events.
//!
//! Facts: perfetto's `protos/perfetto/trace/` (`trace_packet.proto`, `track_event.proto`,
//! `track_descriptor.proto`, `debug_annotation.proto`); the field numbers stand beside each use.

use super::points::{Edge, points};
use super::proto::Message;
use super::{ExportOptions, lines, process_name};
use crate::event::Payload;
use crate::file::Profile;
use std::collections::BTreeSet;
use std::io::{self, Write};

const SEQUENCE: u64 = 1;
const PROCESS_TRACK: u64 = 1;
const FIRST_THREAD_TRACK: u64 = 0x1_0000_0000;
const FIRST_COUNTER_TRACK: u64 = 0x2_0000_0000;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

pub(super) fn write(
    profile: &Profile,
    options: &ExportOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let process = u64::from(profile.metadata().process_id.unwrap_or(0));
    let lines = lines(profile, options.collapse_threads);
    let mut descriptor = Message::default();
    let mut inner = Message::default();
    inner
        .number(1, process)
        .bytes(6, process_name(profile).as_bytes()); // pid, process_name
    descriptor.number(1, PROCESS_TRACK).message(3, &inner); // uuid, process
    packet(out, Message::default().message(60, &descriptor))?; // track_descriptor
    for line in lines.values().collect::<BTreeSet<_>>() {
        let mut inner = Message::default();
        // pid, tid, thread_name; a thread id 0 would mean the idle process
        let name = format!("thread {line}");
        inner
            .number(1, process)
            .number(2, u64::from(*line) + 1)
            .bytes(5, name.as_bytes());
        let mut descriptor = Message::default();
        descriptor
            .number(1, FIRST_THREAD_TRACK + u64::from(*line)) // uuid
            .number(5, PROCESS_TRACK) // parent_uuid
            .message(4, &inner); // thread
        packet(out, Message::default().message(60, &descriptor))?;
    }
    let strings = profile.strings();
    let mut last = 0;
    for (thread, points) in points(profile, options.minimum_duration) {
        let line = lines.get(&thread).copied().unwrap_or(thread);
        let track = FIRST_THREAD_TRACK + u64::from(line);
        for point in points {
            last = last.max(point.at);
            let mut event = Message::default();
            let kind = match point.edge {
                Edge::Start => SLICE_BEGIN,
                Edge::End => SLICE_END,
                Edge::Instant => INSTANT,
            };
            event.number(9, kind).number(11, track); // type, track_uuid
            if point.edge != Edge::End {
                let text = strings.event_text(point.id);
                event
                    .bytes(22, strings.get(point.kind).as_bytes())
                    .bytes(23, text.label.as_bytes()); // categories, name
                for (number, argument) in text.arguments.iter().enumerate() {
                    let mut annotation = Message::default();
                    annotation
                        .bytes(10, format!("arg{number}").as_bytes())
                        .bytes(6, argument.as_bytes()); // name, string_value
                    event.message(4, &annotation); // debug_annotations
                }
            }
            packet(out, timed(point.at).message(11, &event))?; // track_event
        }
    }
    integers(profile, last, out)
}

/// Integers as counters at the end of the trace.
fn integers(profile: &Profile, last: u64, out: &mut dyn Write) -> io::Result<()> {
    let strings = profile.strings();
    let mut track = FIRST_COUNTER_TRACK;
    for event in profile.events().iter() {
        let Payload::Integer { value } = event.payload else {
            continue;
        };
        let text = strings.event_text(event.id);
        let mut name = format!("{} {}", strings.get(event.kind), text.label);
        if !text.arguments.is_empty() {
            name.push_str(&format!("({})", text.arguments.join(", ")));
        }
        let mut descriptor = Message::default();
        descriptor
            .number(1, track) // uuid
            .bytes(2, name.as_bytes()) // name
            .number(5, PROCESS_TRACK) // parent_uuid
            .message(8, &Message::default()); // counter
        packet(out, Message::default().message(60, &descriptor))?;
        let mut event = Message::default();
        event.number(9, COUNTER).number(11, track).number(30, value); // type, track_uuid, counter_value
        packet(out, timed(last).message(11, &event))?;
        track += 1;
    }
    Ok(())
}

/// A packet with its time in nanoseconds.
fn timed(at: u64) -> Message {
    let mut message = Message::default();
    message.number(8, at); // timestamp
    message
}

fn packet(out: &mut dyn Write, message: &mut Message) -> io::Result<()> {
    message.number(10, SEQUENCE); // trusted_packet_sequence_id
    let mut trace = Message::default();
    trace.message(1, message); // Trace.packet
    out.write_all(&trace.0)
}
