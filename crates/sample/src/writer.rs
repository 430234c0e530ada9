//! Writes `perf.data` files that `perf report`, `perf script` and hotspot read.
//!
//! Layout: `tools/perf/Documentation/perf.data-file-format.txt`. Header, ids, attributes, records as the kernel
//! wrote them, then the feature sections; sizes are filled in at the end, so a killed recorder leaves a file with
//! data size 0 that readers take to its end.

use std::io::{self, Seek, SeekFrom, Write};

use crate::abi::{feature as f, record as rt, sample as st};

/// One event of a recording.
#[derive(Debug, Clone, Default)]
pub struct WriterEvent {
    /// The `perf_event_attr` as it was opened, of any size.
    pub attr: Vec<u8>,
    /// Its name.
    pub name: String,
    /// The ids of all its counters.
    pub ids: Vec<u64>,
}

/// What is written about the machine and the command.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct WriterFeatures {
    pub hostname: String,
    pub os_release: String,
    /// The recorder's name and version.
    pub version: String,
    pub arch: String,
    pub cpu_description: String,
    pub cpu_id: String,
    pub cpus_available: u32,
    pub cpus_online: u32,
    pub total_memory_kib: u64,
    pub command_line: Vec<String>,
    /// Samples have branch stacks.
    pub branch_stack: bool,
}

const HEADER: u64 = 104;
/// Sizes of `perf_event_attr` from Linux 4.1 on: the smallest that holds all that is set is written, because
/// older readers refuse what they do not know.
const ATTR_SIZES: [usize; 5] = [112, 120, 128, 136, 144];

/// A file being written.
#[derive(Debug)]
pub struct PerfDataWriter<W: Write + Seek> {
    out: W,
    events: Vec<WriterEvent>,
    attrs_at: u64,
    attr_size: usize,
    data_at: u64,
    data_len: u64,
}

fn padded(attr: &[u8], size: usize) -> Vec<u8> {
    let mut out = attr
        .get(..size.min(attr.len()))
        .unwrap_or_default()
        .to_vec();
    out.resize(size, 0);
    if let Some(slot) = out.get_mut(4..8) {
        slot.copy_from_slice(&(size as u32).to_le_bytes());
    }
    out
}

impl<W: Write + Seek> PerfDataWriter<W> {
    /// Writes what comes before the records.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(mut out: W, events: Vec<WriterEvent>) -> io::Result<Self> {
        let used = events
            .iter()
            .map(|e| e.attr.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1))
            .max()
            .unwrap_or(0);
        let attr_size = ATTR_SIZES
            .into_iter()
            .find(|s| *s >= used)
            .unwrap_or(used.next_multiple_of(8));
        out.write_all(&[0; HEADER as usize])?;
        let mut at = HEADER;
        let mut sections = Vec::new();
        for event in &events {
            for id in &event.ids {
                out.write_all(&id.to_le_bytes())?;
            }
            let size = event.ids.len() as u64 * 8;
            sections.push((at, size));
            at += size;
        }
        let attrs_at = at;
        for (event, (offset, size)) in events.iter().zip(sections) {
            out.write_all(&padded(&event.attr, attr_size))?;
            out.write_all(&offset.to_le_bytes())?;
            out.write_all(&size.to_le_bytes())?;
            at += attr_size as u64 + 16;
        }
        let mut this = Self {
            out,
            events,
            attrs_at,
            attr_size,
            data_at: at,
            data_len: 0,
        };
        this.header(0, [0; 4])?;
        Ok(this)
    }

    fn header(&mut self, data_len: u64, features: [u64; 4]) -> io::Result<()> {
        self.out.seek(SeekFrom::Start(0))?;
        let entry = self.attr_size as u64 + 16;
        let words = [
            HEADER,
            entry,
            self.attrs_at,
            entry * self.events.len() as u64,
            self.data_at,
            data_len,
            0,
            0,
        ];
        self.out.write_all(b"PERFILE2")?;
        for word in words.into_iter().chain(features) {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.seek(SeekFrom::End(0)).map(drop)
    }

    /// Appends whole records as the kernel (or [`SideRecords`]) wrote them.
    ///
    /// # Errors
    /// Those of writing.
    pub fn records(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.data_len = self.data_len.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Marks that everything recorded so far on all CPUs is in the file.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finished_round(&mut self) -> io::Result<()> {
        let kind = rt::FINISHED_ROUND.to_le_bytes();
        let [a, b, c, d] = kind;
        self.records(&[a, b, c, d, 0, 0, 8, 0])
    }

    /// Bytes of records so far.
    #[must_use]
    pub fn data_len(&self) -> u64 {
        self.data_len
    }

    /// Writes the features and the final header.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self, features: &WriterFeatures) -> io::Result<W> {
        let sections = self.sections(features);
        let mut bits = [0u64; 4];
        let mut at = self.data_at + self.data_len + 16 * sections.len() as u64;
        let mut table = Vec::new();
        for (bit, body) in &sections {
            if let Some(word) = bits.get_mut(*bit as usize / 64) {
                *word |= 1 << (bit % 64);
            }
            table.extend_from_slice(&at.to_le_bytes());
            table.extend_from_slice(&(body.len() as u64).to_le_bytes());
            at += body.len() as u64;
        }
        self.out.seek(SeekFrom::End(0))?;
        self.out.write_all(&table)?;
        for (_, body) in &sections {
            self.out.write_all(body)?;
        }
        self.header(self.data_len, bits)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn sections(&self, m: &WriterFeatures) -> Vec<(u32, Vec<u8>)> {
        let mut out: Vec<(u32, Vec<u8>)> = Vec::new();
        for (bit, text) in [
            (f::HOSTNAME, &m.hostname),
            (f::OSRELEASE, &m.os_release),
            (f::VERSION, &m.version),
            (f::ARCH, &m.arch),
            (f::CPUDESC, &m.cpu_description),
            (f::CPUID, &m.cpu_id),
        ] {
            if !text.is_empty() {
                out.push((bit, string(text)));
            }
        }
        if m.cpus_online > 0 {
            let both = [m.cpus_available.to_le_bytes(), m.cpus_online.to_le_bytes()];
            out.push((f::NRCPUS, both.concat()));
        }
        if m.total_memory_kib > 0 {
            out.push((f::TOTAL_MEM, m.total_memory_kib.to_le_bytes().to_vec()));
        }
        if !m.command_line.is_empty() {
            let mut body = (m.command_line.len() as u32).to_le_bytes().to_vec();
            body.extend(m.command_line.iter().flat_map(|word| string(word)));
            out.push((f::CMDLINE, body));
        }
        let mut body = (self.events.len() as u32).to_le_bytes().to_vec();
        body.extend((self.attr_size as u32).to_le_bytes());
        for event in &self.events {
            body.extend(padded(&event.attr, self.attr_size));
            body.extend((event.ids.len() as u32).to_le_bytes());
            body.extend(string(&event.name));
            body.extend(event.ids.iter().flat_map(|id| id.to_le_bytes()));
        }
        out.push((f::EVENT_DESC, body));
        if m.branch_stack {
            out.push((f::BRANCH_STACK, Vec::new()));
        }
        out.sort_by_key(|s| s.0);
        out
    }
}

/// A string as perf writes it: length, text, NUL, filled to 64 bytes.
fn string(text: &str) -> Vec<u8> {
    let len = (text.len() + 1).next_multiple_of(64);
    let mut out = (len as u32).to_le_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    out.resize(4 + len, 0);
    out
}

/// Builds the records that describe what was there before the recording began: names and mappings.
#[derive(Debug, Clone, Copy)]
pub struct SideRecords {
    /// Bytes of sample identity behind each record.
    trailer: usize,
}

impl SideRecords {
    /// For events with these `PERF_SAMPLE_*` bits and `sample_id_all`.
    #[must_use]
    pub fn new(sample_type: u64) -> Self {
        let fields = st::TID | st::TIME | st::ID | st::STREAM_ID | st::CPU | st::IDENTIFIER;
        Self {
            trailer: 8 * (sample_type & fields).count_ones() as usize,
        }
    }

    fn record(self, kind: u32, misc: u16, mut body: Vec<u8>, text: &[u8]) -> Vec<u8> {
        // A record's size has 16 bits: a longer path is cut.
        let room = usize::from(u16::MAX) - 8 - self.trailer - body.len() - 16;
        body.extend_from_slice(text.get(..text.len().min(room)).unwrap_or_default());
        body.push(0);
        body.resize(body.len().next_multiple_of(8) + self.trailer, 0);
        let mut out = kind.to_le_bytes().to_vec();
        out.extend(misc.to_le_bytes());
        out.extend((body.len() as u16 + 8).to_le_bytes());
        out.extend(body);
        out
    }

    /// The name of a thread.
    #[must_use]
    pub fn comm(self, pid: u32, tid: u32, name: &[u8]) -> Vec<u8> {
        let body = [pid.to_le_bytes(), tid.to_le_bytes()].concat();
        self.record(rt::COMM, 0, body, name)
    }

    /// A thread of a process: forked from it.
    #[must_use]
    pub fn fork(self, pid: u32, tid: u32) -> Vec<u8> {
        let mut body: Vec<u8> = [pid, pid, tid, pid]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        body.extend(0u64.to_le_bytes());
        let mut record = self.record(rt::FORK, 0, body, b"");
        // No text here: take the terminator's 8 bytes away again.
        let len = record.len() - 8;
        record.truncate(len);
        if let Some(slot) = record.get_mut(6..8) {
            slot.copy_from_slice(&(len as u16).to_le_bytes());
        }
        record
    }

    /// An executable mapping of a process; `u32::MAX` is the kernel.
    #[must_use]
    pub fn mmap(self, pid: u32, range: std::ops::Range<u64>, pgoff: u64, path: &[u8]) -> Vec<u8> {
        let mut body = [pid.to_le_bytes(), pid.to_le_bytes()].concat();
        for word in [range.start, range.end.saturating_sub(range.start), pgoff] {
            body.extend(word.to_le_bytes());
        }
        let mode = if pid == u32::MAX {
            crate::abi::misc::KERNEL
        } else {
            crate::abi::misc::USER
        };
        self.record(rt::MMAP, mode, body, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Recording};

    #[test]
    fn what_is_written_is_read_again() {
        let mut attr = vec![0u8; 144];
        let t = st::IDENTIFIER | st::IP | st::TID | st::TIME;
        attr.splice(24..32, t.to_le_bytes());
        attr.splice(40..48, (1u64 << 18).to_le_bytes()); // sample_id_all
        let event = WriterEvent {
            attr,
            name: "cycles:u".to_owned(),
            ids: vec![7, 8],
        };
        let mut w = PerfDataWriter::new(io::Cursor::new(Vec::new()), vec![event]).unwrap();
        let side = SideRecords::new(t);
        w.records(&side.comm(5, 5, b"name")).unwrap();
        w.records(&side.fork(5, 6)).unwrap();
        w.records(&side.mmap(5, 0x1000..0x3000, 0x40, b"/bin/x"))
            .unwrap();
        w.finished_round().unwrap();
        let features = WriterFeatures {
            arch: "x86_64".to_owned(),
            command_line: vec!["truecount".to_owned(), "record".to_owned()],
            branch_stack: true,
            ..WriterFeatures::default()
        };
        let bytes = w.finish(&features).unwrap().into_inner();
        let r = Recording::from_bytes(bytes).unwrap();
        assert_eq!(
            (r.events()[0].name.as_str(), r.events()[0].attr.size),
            ("cycles:u", 112)
        );
        assert_eq!(r.events()[0].ids, [7, 8]);
        assert_eq!(r.features().command_line, features.command_line);
        let bodies: Vec<_> = r
            .records()
            .map(|x| r.decode(&x.unwrap()).unwrap().0)
            .collect();
        assert!(matches!(bodies[0], Body::Comm(c) if c.pid == 5 && c.name == b"name"));
        assert!(matches!(bodies[1], Body::Fork(t) if t.pid == 5 && t.tid == 6));
        assert!(
            matches!(bodies[2], Body::Mmap(m) if m.addr == 0x1000 && m.len == 0x2000 && m.path == b"/bin/x")
        );
    }
}
