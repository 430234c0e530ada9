//! Address spaces: which file an address of a process belonged to, at the time of a sample.
//!
//! Mappings come from MMAP/MMAP2 records, a fork copies them, an exec drops them. An address becomes (file,
//! offset in the file), so that several processes and several load addresses of one program merge.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::abi::{misc as mode, record as rt};
use crate::error::Result;
use crate::file::Recording;
use crate::record::{Body, Mmap};

/// A file that was mapped as code.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MappedFile {
    /// Path as recorded; `[vdso]`, `//anon`, `[kernel.kallsyms]_text` are no files.
    pub path: String,
    /// Build id, from the mapping or the recording's header; empty when unknown.
    pub build_id: Vec<u8>,
}

impl MappedFile {
    /// Hexadecimal build id, when known.
    #[must_use]
    pub fn build_id_hex(&self) -> Option<String> {
        (!self.build_id.is_empty()).then(|| hex(&self.build_id))
    }

    /// Whether the path is one of a file; `[vdso]` and `//anon` are none.
    #[must_use]
    pub fn is_file(&self) -> bool {
        !self.path.is_empty() && !self.path.starts_with('[') && !self.path.starts_with("//")
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

/// Addresses that show a part of a file (its number, or the file itself).
#[derive(Debug, Clone)]
pub(crate) struct Mapping<F> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) pgoff: u64,
    pub(crate) file: F,
}

/// Number of an address space: one state of one process's mappings.
pub type SpaceId = u32;

/// The space of an unknown process: it maps nothing.
pub const NO_SPACE: SpaceId = 0;
/// The kernel's space.
pub const KERNEL_SPACE: SpaceId = 1;

/// Whether an address is in the upper half: the kernel's on x86-64 and aarch64, where nothing else says whose it is
/// (records of branches do not). A call chain has context markers instead, and its addresses may be anything.
#[inline]
#[must_use]
pub fn is_kernel_address(address: u64) -> bool {
    address >> 63 != 0
}

/// All address spaces of a recording.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    spaces: Vec<Arc<Vec<Mapping<u32>>>>,
    /// Per process: since when which space, in the order of time.
    by_pid: FxHashMap<u32, Vec<(u64, SpaceId)>>,
    files: Vec<MappedFile>,
    comms: FxHashMap<u32, Vec<(u64, String)>>,
}

/// Space changes beyond this many copied mappings are merged instead ("last mapping wins").
const COPY_BUDGET: usize = 4_000_000;

impl AddressSpaces {
    /// Reads the side records of a recording.
    ///
    /// # Errors
    /// As [`Recording::decode`].
    pub fn build(recording: &Recording) -> Result<Self> {
        // Rings of different CPUs are interleaved in the file: order by time, records without time first.
        let mut events = Vec::new();
        for record in recording.records() {
            let record = record?;
            if !matches!(record.raw.kind, rt::MMAP | rt::MMAP2 | rt::COMM | rt::FORK) {
                continue;
            }
            let (body, id, _) = recording.decode(&record)?;
            events.push((id.time.unwrap_or(0), record.raw.misc, body));
        }
        events.sort_by_key(|(time, ..)| *time);
        let mut builder = Builder {
            out: Self {
                spaces: vec![Arc::default(), Arc::default()],
                ..Self::default()
            },
            file_index: FxHashMap::default(),
            build_ids: recording
                .features()
                .build_ids
                .iter()
                .map(|b| (b.path.as_str(), b.id.as_slice()))
                .collect(),
            budget: COPY_BUDGET,
        };
        for (time, misc, body) in events {
            match body {
                Body::Mmap(map) => builder.mmap(time, misc, &map),
                Body::Comm(comm) => {
                    if comm.exec {
                        builder.switch_to(comm.pid, time, Arc::default());
                    }
                    if comm.pid == comm.tid {
                        let name = String::from_utf8_lossy(comm.name).into_owned();
                        let names = builder.out.comms.entry(comm.pid).or_default();
                        names.push((time, name));
                    }
                }
                Body::Fork(task) if task.pid != task.ppid => {
                    builder.fork(task.pid, task.ppid, task.time);
                }
                _ => {}
            }
        }
        Ok(builder.out)
    }

    /// The space of a process at a time (`None`: at the end).
    #[must_use]
    pub fn space(&self, pid: u32, time: Option<u64>) -> SpaceId {
        let Some(changes) = self.by_pid.get(&pid) else {
            return NO_SPACE;
        };
        let after = time.map_or(changes.len(), |t| {
            changes.partition_point(|(since, _)| *since <= t)
        });
        changes
            .get(after.saturating_sub(1))
            .map_or(NO_SPACE, |c| c.1)
    }

    /// The name of a process at a time.
    #[must_use]
    pub fn comm(&self, pid: u32, time: Option<u64>) -> Option<&str> {
        let names = self.comms.get(&pid)?;
        let after = time.map_or(names.len(), |t| {
            names.partition_point(|(since, _)| *since <= t)
        });
        names.get(after.saturating_sub(1)).map(|c| c.1.as_str())
    }

    /// The file and the offset in it of an address in a space ([`KERNEL_SPACE`] for the kernel's); `None` when nothing
    /// is known to be mapped there. Whose an address is does not follow from the address: the sample says it.
    #[must_use]
    pub fn resolve(&self, space: SpaceId, address: u64) -> Option<(u32, u64)> {
        let (map, offset) = find(self.spaces.get(space as usize)?, address)?;
        Some((map.file, offset))
    }

    /// What a space maps: address range, offset in the file, number of the file.
    pub fn mappings(
        &self,
        space: SpaceId,
    ) -> impl Iterator<Item = (std::ops::Range<u64>, u64, u32)> + '_ {
        let maps = self.spaces.get(space as usize);
        maps.into_iter()
            .flat_map(|m| m.iter())
            .map(|m| (m.start..m.end, m.pgoff, m.file))
    }

    /// The files that were mapped as code.
    #[must_use]
    pub fn files(&self) -> &[MappedFile] {
        &self.files
    }
}

struct Builder<'a> {
    out: AddressSpaces,
    file_index: FxHashMap<MappedFile, u32>,
    build_ids: FxHashMap<&'a str, &'a [u8]>,
    budget: usize,
}

impl Builder<'_> {
    fn file(&mut self, map: &Mmap<'_>) -> u32 {
        let path = String::from_utf8_lossy(map.path).into_owned();
        let named = path
            .strip_suffix("_text")
            .filter(|p| p.starts_with('['))
            .unwrap_or(&path);
        let build_id = map
            .build_id
            .or_else(|| self.build_ids.get(named).copied())
            .unwrap_or_default()
            .to_vec();
        let file = MappedFile { path, build_id };
        let next = self.out.files.len() as u32;
        *self.file_index.entry(file).or_insert_with_key(|file| {
            self.out.files.push(file.clone());
            next
        })
    }

    fn switch_to(&mut self, pid: u32, time: u64, maps: Arc<Vec<Mapping<u32>>>) {
        let id = self.out.spaces.len() as SpaceId;
        self.out.spaces.push(maps);
        self.out.by_pid.entry(pid).or_default().push((time, id));
    }

    fn current(&self, pid: u32) -> Option<SpaceId> {
        self.out.by_pid.get(&pid)?.last().map(|c| c.1)
    }

    fn fork(&mut self, pid: u32, ppid: u32, time: u64) {
        let maps = self
            .current(ppid)
            .and_then(|id| self.out.spaces.get(id as usize).cloned())
            .unwrap_or_default();
        self.switch_to(pid, time, maps);
        if let Some(name) = self.out.comm(ppid, Some(time)).map(str::to_owned) {
            self.out.comms.entry(pid).or_default().push((time, name));
        }
    }

    fn mmap(&mut self, time: u64, misc: u16, map: &Mmap<'_>) {
        if !is_code(misc, map) {
            return;
        }
        let Some(end) = map.addr.checked_add(map.len) else {
            return;
        };
        // The kernel's own text is not a file; its pgoff is an address (of _text): count from its start.
        let is_kernel_text =
            map.path.starts_with(b"[kernel") || map.path.starts_with(b"[guest.kernel");
        let new = Mapping {
            start: map.addr,
            end,
            pgoff: if is_kernel_text { 0 } else { map.pgoff },
            file: self.file(map),
        };
        if map.pid == u32::MAX
            || is_kernel_address(map.addr)
            || misc & mode::CPUMODE_MASK == mode::KERNEL
        {
            self.insert(KERNEL_SPACE, new);
            return;
        }
        let space = match self.current(map.pid) {
            Some(id) => {
                let maps = self
                    .out
                    .spaces
                    .get(id as usize)
                    .cloned()
                    .unwrap_or_default();
                let replaces = maps.iter().any(|m| {
                    m.start < new.end
                        && new.start < m.end
                        && (m.file, m.start.wrapping_sub(m.pgoff))
                            != (new.file, new.start.wrapping_sub(new.pgoff))
                });
                if replaces && self.budget > maps.len() {
                    self.budget -= maps.len();
                    self.switch_to(map.pid, time, maps);
                }
                self.current(map.pid)
            }
            None => {
                self.switch_to(map.pid, 0, Arc::default());
                self.current(map.pid)
            }
        };
        if let Some(space) = space {
            self.insert(space, new);
        }
    }

    fn insert(&mut self, space: SpaceId, new: Mapping<u32>) {
        if let Some(maps) = self.out.spaces.get_mut(space as usize) {
            insert(Arc::make_mut(maps), new);
        }
    }
}

/// Whether a mapping record is of executable memory. The kernel's own mappings, which `perf` makes up itself, carry
/// no protection even as MMAP2 (`perf record --buildid-mmap`; `tools/perf/util/synthetic-events.c`).
pub(crate) fn is_code(misc: u16, map: &Mmap<'_>) -> bool {
    /// `PERF_RECORD_MISC_MMAP_DATA`.
    const DATA: u16 = 1 << 13;
    const EXECUTABLE: u32 = 4;
    let kernel = map.pid == u32::MAX || misc & mode::CPUMODE_MASK == mode::KERNEL;
    misc & DATA == 0 && (kernel || map.prot.is_none_or(|p| p & EXECUTABLE != 0))
}

/// The mapping of an address among those sorted by start, and the offset in its file.
pub(crate) fn find<F>(maps: &[Mapping<F>], address: u64) -> Option<(&Mapping<F>, u64)> {
    let after = maps.partition_point(|m| m.start <= address);
    let map = maps.get(after.checked_sub(1)?)?;
    (address < map.end).then(|| (map, (address - map.start).wrapping_add(map.pgoff)))
}

/// Puts a mapping in; what it covers of older ones is cut away.
pub(crate) fn insert<F: Clone>(maps: &mut Vec<Mapping<F>>, new: Mapping<F>) {
    let first = maps.partition_point(|m| m.end <= new.start);
    let last = maps.partition_point(|m| m.start < new.end);
    let mut pieces = Vec::with_capacity(3);
    for old in maps.get(first..last.max(first)).unwrap_or_default() {
        if old.start < new.start {
            pieces.push(Mapping {
                end: new.start,
                ..old.clone()
            });
        }
        if old.end > new.end {
            pieces.push(Mapping {
                start: new.end,
                pgoff: old.pgoff.wrapping_add(new.end - old.start),
                ..old.clone()
            });
        }
    }
    pieces.push(new);
    pieces.sort_by_key(|m| m.start);
    maps.splice(first..last.max(first), pieces);
}
