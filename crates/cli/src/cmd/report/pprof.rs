//! The samples as pprof's `profile.proto` (github.com/google/pprof/proto/profile.proto), encoded by hand: the few
//! messages it needs are varints and length-delimited fields. pprof reads it without gzip, too.

use std::collections::HashMap;

use super::view::{Named, View};

/// A protocol-buffer message being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        loop {
            let low = (value & 0x7f) as u8;
            value >>= 7;
            self.0.push(if value == 0 { low } else { low | 0x80 });
            if value == 0 {
                return;
            }
        }
    }

    fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint((field << 3) | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    fn packed(&mut self, field: u64, values: &[u64]) {
        let mut inner = Self::default();
        values.iter().for_each(|v| inner.varint(*v));
        self.message(field, &inner);
    }
}

#[derive(Default)]
struct Strings {
    index: HashMap<String, u64>,
    list: Vec<String>,
}

impl Strings {
    fn id(&mut self, text: &str) -> u64 {
        if let Some(id) = self.index.get(text) {
            return *id;
        }
        let id = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.index.insert(text.to_owned(), id);
        id
    }
}

/// The whole profile.
pub(super) fn encode(view: &mut View) -> Vec<u8> {
    let mut strings = Strings::default();
    strings.id("");
    let mut profile = Message::default();
    let events = view.sampled_events();
    let value_type = |strings: &mut Strings, kind: &str, unit: &str| {
        let mut m = Message::default();
        m.number(1, strings.id(kind));
        m.number(2, strings.id(unit));
        m
    };
    for event in &events {
        let name = view.event_name(*event);
        let unit = if name.starts_with("cpu-clock") || name.starts_with("task-clock") {
            "nanoseconds"
        } else {
            "count"
        };
        profile.message(
            1,
            &value_type(&mut strings, &format!("{name} samples"), "count"),
        );
        profile.message(1, &value_type(&mut strings, &name, unit));
    }
    let mut functions: HashMap<Named, u64> = HashMap::new();
    let mut function_messages = Vec::new();
    let mut locations: HashMap<(Option<u32>, u64), u64> = HashMap::new();
    let mut location_messages = Vec::new();
    for (context, weight) in view.profile.entries.clone() {
        let mut chain = Vec::new();
        for place in &context.frames {
            let next = locations.len() as u64 + 1;
            let id = *locations.entry((place.file, place.offset)).or_insert(next);
            chain.push(id);
            if id != next {
                continue;
            }
            let mut location = Message::default();
            location.number(1, id);
            location.number(3, place.offset);
            for named in view.named(*place).iter() {
                let line = named.line.unwrap_or(0);
                let key = Named {
                    line: None,
                    ..named.clone()
                };
                let next = functions.len() as u64 + 1;
                let function = *functions.entry(key).or_insert(next);
                if function == next {
                    let mut m = Message::default();
                    m.number(1, function);
                    m.number(2, strings.id(&named.function));
                    m.number(3, strings.id(&named.function));
                    m.number(4, strings.id(named.file.as_deref().unwrap_or(&named.dso)));
                    function_messages.push(m);
                }
                let mut m = Message::default();
                m.number(1, function);
                m.number(2, u64::from(line));
                location.message(4, &m);
            }
            location_messages.push(location);
        }
        let mut sample = Message::default();
        sample.packed(1, &chain);
        let values: Vec<u64> = events
            .iter()
            .flat_map(|e| {
                if *e == context.event {
                    [weight.samples, weight.events]
                } else {
                    [0, 0]
                }
            })
            .collect();
        sample.packed(2, &values);
        let comm = view
            .profile
            .comms
            .get(context.comm as usize)
            .cloned()
            .unwrap_or_default();
        for (key, text, number) in [
            ("process", Some(comm), 0),
            ("pid", None, context.pid),
            ("tid", None, context.tid),
        ] {
            let mut label = Message::default();
            label.number(1, strings.id(key));
            match text {
                Some(text) => label.number(2, strings.id(&text)),
                None => label.number(3, u64::from(number)),
            }
            sample.message(3, &label);
        }
        profile.message(2, &sample);
    }
    location_messages.iter().for_each(|m| profile.message(4, m));
    function_messages.iter().for_each(|m| profile.message(5, m));
    for text in &strings.list {
        profile.bytes(6, text.as_bytes());
    }
    let times = || view.profile.timeline.iter().map(|t| t.0);
    if let (Some(first), Some(last)) = (times().min(), times().max()) {
        profile.number(10, last - first);
    }
    profile.0
}
