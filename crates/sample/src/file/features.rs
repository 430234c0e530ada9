//! Feature sections: build ids, the machine, the command line, event names.
//!
//! Layouts: `tools/perf/Documentation/perf.data-file-format.txt`, `HEADER_*`. A section that cannot be read is
//! left out: it describes the recording, it is not the recording.

use crate::abi::feature as f;
use crate::attr::EventAttr;
use crate::bytes::{Cursor, U64s, until_nul};

/// A file's build id as the recording's header gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildId {
    /// Process it was seen in; -1 for all.
    pub pid: i32,
    /// The id, usually 20 bytes.
    pub id: Vec<u8>,
    /// Path, or `[kernel.kallsyms]`.
    pub path: String,
}

/// What the recording says about the machine and itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Features {
    pub build_ids: Vec<BuildId>,
    pub hostname: Option<String>,
    pub os_release: Option<String>,
    /// Version of the tool that recorded.
    pub version: Option<String>,
    pub arch: Option<String>,
    pub cpu_description: Option<String>,
    pub cpu_id: Option<String>,
    pub cpus_online: Option<u32>,
    pub command_line: Vec<String>,
    /// Name of each event with its ids.
    pub event_names: Vec<(String, Vec<u64>)>,
    /// Names of tracepoints (`sched:sched_switch`) by their numbers.
    pub tracepoints: Vec<(u64, String)>,
    /// Times of the first and the last sample, nanoseconds.
    pub sample_time: Option<(u64, u64)>,
}

fn string(c: &mut Cursor<'_>) -> Option<String> {
    let len = c.u32()? as usize;
    let bytes = c.take(len)?;
    Some(String::from_utf8_lossy(until_nul(bytes)).into_owned())
}

impl Features {
    /// Reads one feature's section (or the body of a `HEADER_FEATURE` record after its id).
    pub(crate) fn add(&mut self, bit: u32, bytes: &[u8]) {
        let mut c = Cursor::new(bytes);
        match bit {
            f::TRACING_DATA => self.tracepoints = super::tracing::names(bytes),
            f::BUILD_ID => self.add_build_ids(bytes),
            f::HOSTNAME => self.hostname = string(&mut c),
            f::OSRELEASE => self.os_release = string(&mut c),
            f::VERSION => self.version = string(&mut c),
            f::ARCH => self.arch = string(&mut c),
            f::CPUDESC => self.cpu_description = string(&mut c),
            f::CPUID => self.cpu_id = string(&mut c),
            f::NRCPUS => {
                c.u32();
                self.cpus_online = c.u32();
            }
            f::CMDLINE => {
                let nr = c.u32().unwrap_or(0);
                self.command_line = (0..nr).map_while(|_| string(&mut c)).collect();
            }
            f::EVENT_DESC => {
                self.event_names = event_desc(&mut c).unwrap_or_default();
            }
            f::SAMPLE_TIME => self.sample_time = c.u64().zip(c.u64()),
            _ => {}
        }
    }

    /// The name of a tracepoint's event, where the recording has it.
    pub(crate) fn tracepoint(&self, attr: &EventAttr) -> Option<&String> {
        const TYPE_TRACEPOINT: u32 = 2;
        let found = |row: &&(u64, String)| row.0 == attr.config;
        let row = self.tracepoints.iter().find(found);
        row.filter(|_| attr.kind == TYPE_TRACEPOINT)
            .map(|(_, name)| name)
    }

    fn add_build_ids(&mut self, mut bytes: &[u8]) {
        // A row of records: header, pid, 24 bytes of id, path.
        while let Ok((raw, len)) = crate::record::split_record(bytes) {
            self.add_build_id(raw.misc, raw.body);
            bytes = bytes.get(len..).unwrap_or_default();
        }
    }

    /// One build-id record's body.
    pub(crate) fn add_build_id(&mut self, misc: u16, body: &[u8]) {
        /// `PERF_RECORD_MISC_BUILD_ID_SIZE`: byte 20 is the id's size.
        const HAS_SIZE: u16 = 1 << 15;
        let mut c = Cursor::new(body);
        let (Some(pid), Some(id)) = (c.i32(), c.take(24)) else {
            return;
        };
        let size = match id.get(20) {
            Some(&size) if misc & HAS_SIZE != 0 => usize::from(size).min(20),
            _ => 20,
        };
        self.build_ids.push(BuildId {
            pid,
            id: id.get(..size).unwrap_or_default().to_vec(),
            path: String::from_utf8_lossy(c.c_string()).into_owned(),
        });
    }
}

fn event_desc(c: &mut Cursor<'_>) -> Option<Vec<(String, Vec<u64>)>> {
    let nr = c.u32()?;
    let attr_size = c.u32()? as usize;
    let mut out = Vec::new();
    for _ in 0..nr {
        EventAttr::parse(c.take(attr_size)?)?;
        let ids = c.u32()?;
        let name = string(c)?;
        let ids = U64s::new(c.take_array(u64::from(ids), 8)?).iter().collect();
        out.push((name, ids));
    }
    Some(out)
}
