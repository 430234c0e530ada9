//! A pprof profile: gzipped protobuf. Facts: google/pprof, `proto/profile.proto`; the field names stand beside their
//! numbers.

use super::intern::Interner;
use super::proto::Message;
use super::stacks::Stacks;
use flate2::{Compression, write::GzEncoder};
use std::io::{self, Write};

impl Stacks {
    /// Writes the stacks for pprof. Each measure has two values: its occurrences and its cost; pprof shows the last
    /// measure's cost unless it is told otherwise.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_pprof(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut gzip = GzEncoder::new(out, Compression::default());
        gzip.write_all(&self.pprof())?;
        gzip.finish()?;
        Ok(())
    }

    fn pprof(&self) -> Vec<u8> {
        let mut strings = Interner::default();
        strings.of("");
        let mut message = Message::default();
        for measure in &self.measures {
            let unit = if measure.nanoseconds {
                "nanoseconds"
            } else {
                "count"
            };
            for (name, unit) in [(&measure.occurrences, "count"), (&measure.name, unit)] {
                let mut kind = Message::default();
                kind.number(1, strings.of(name) as u64); // type
                kind.number(2, strings.of(unit) as u64); // unit
                message.message(1, &kind); // sample_type
            }
        }
        for stack in &self.stacks {
            let mut sample = Message::default();
            // Locations and functions are numbered from 1: 0 means none.
            sample.packed(1, stack.places.iter().map(|&place| place as u64 + 1)); // location_id, leaf first
            let values = (0..self.measures.len()).flat_map(|measure| {
                if measure == stack.measure {
                    [stack.count, stack.cost]
                } else {
                    [0, 0]
                }
            });
            sample.packed(2, values); // value
            if let Some(owner) = &stack.owner {
                let mut label = Message::default();
                label.number(1, strings.of("process") as u64); // key
                label.number(2, strings.of(&owner.process) as u64); // str
                sample.message(3, &label); // label
                for (key, number) in [("pid", owner.pid), ("tid", owner.tid)] {
                    let mut label = Message::default();
                    label.number(1, strings.of(key) as u64); // key
                    label.number(3, u64::from(number)); // num
                    sample.message(3, &label); // label
                }
            }
            message.message(2, &sample); // sample
        }
        for (place, id) in self.places.iter().zip(1..) {
            let mut location = Message::default();
            location.number(1, id); // id
            if place.address != 0 {
                location.number(3, place.address); // address
            }
            for each in &place.lines {
                let mut line = Message::default();
                line.number(1, each.function as u64 + 1); // function_id
                if let Some(number) = each.line {
                    line.number(2, u64::from(number)); // line
                }
                location.message(4, &line); // line
            }
            message.message(4, &location); // location
        }
        for (each, id) in self.functions.iter().zip(1..) {
            let name = strings.of(&each.name) as u64;
            let mut function = Message::default();
            function.number(1, id).number(2, name).number(3, name); // id, name, system_name
            let file = each.file.as_ref().unwrap_or(&each.module);
            if !file.is_empty() {
                function.number(4, strings.of(file) as u64); // filename
            }
            message.message(5, &function); // function
        }
        // Viewers show the last one, if nothing is said.
        let several = self.measures.first().filter(|_| self.measures.len() > 1);
        let first = several.map(|measure| strings.of(&measure.name) as u64);
        for text in strings.texts() {
            message.bytes(6, text.as_bytes()); // string_table
        }
        if let Some(start) = self.start {
            message.number(9, start); // time_nanos
        }
        if let Some(duration) = self.duration {
            message.number(10, duration); // duration_nanos
        }
        if let Some(first) = first {
            message.number(14, first); // default_sample_type
        }
        message.0
    }
}
