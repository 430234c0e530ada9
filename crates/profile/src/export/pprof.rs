//! A pprof profile: gzipped protobuf. Facts: google/pprof, `proto/profile.proto`.

use super::process_name;
use super::proto::Message;
use super::tree::Tree;
use crate::file::Profile;
use flate2::{Compression, write::GzEncoder};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

#[derive(Default)]
struct Strings {
    numbers: FxHashMap<String, u64>,
    texts: Vec<String>,
}

impl Strings {
    fn of(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let tree = Tree::new(profile);
    let mut strings = Strings::default();
    strings.of("");
    let mut message = Message::default();
    let unit = if profile.unit().is_time() {
        "nanoseconds"
    } else {
        "count"
    };
    let name = if profile.unit().is_time() {
        "time"
    } else {
        &profile.unit().counter
    };
    for (name, unit) in [("intervals", "count"), (name, unit)] {
        let mut kind = Message::default();
        kind.number(1, strings.of(name)).number(2, strings.of(unit)); // type, unit
        message.message(1, &kind); // sample_type; the last one is the default
    }
    // Locations and functions are numbered as labels, from 1; the root's is behind the last label's.
    let root = tree.labels.len() as u64 + 1;
    for (number, node) in tree.nodes.iter().enumerate() {
        let own = u64::try_from(node.own).unwrap_or(0);
        if own == 0 && node.count == 0 {
            continue;
        }
        let mut stack = Vec::new();
        let mut at = number;
        while at != 0 {
            let Some(node) = tree.nodes.get(at) else {
                break;
            };
            stack.push(u64::from(node.label) + 1);
            at = node.parent as usize;
        }
        stack.push(root);
        let mut sample = Message::default();
        sample.packed(1, stack).packed(2, [node.count, own]); // location_id (leaf first), value
        message.message(2, &sample); // sample
    }
    let names = tree
        .labels
        .iter()
        .map(String::as_str)
        .chain([process_name(profile)]);
    for (name, id) in names.zip(1..) {
        let mut line = Message::default();
        line.number(1, id); // function_id
        let mut location = Message::default();
        location.number(1, id).message(4, &line); // id, line
        message.message(4, &location); // location
        let name = strings.of(name);
        let mut function = Message::default();
        function.number(1, id).number(2, name).number(3, name); // id, name, system_name
        message.message(5, &function); // function
    }
    for text in &strings.texts {
        message.bytes(6, text.as_bytes()); // string_table
    }
    if let Some(start) = profile.metadata().start_time {
        message.number(9, start); // time_nanos
    }
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&message.0)?;
    gzip.finish()?;
    Ok(())
}
