//! The address spaces of running processes, kept up to date by the records of live rings.
//!
//! Unlike [`crate::spaces`], which knows all of a recording's history, only the present is kept: what has ended is
//! forgotten, so that memory depends on what runs and not on how long is watched. Processes that ran before the
//! rings were opened are unknown until the caller loads their `/proc/PID/maps`.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::record::Body;
use crate::spaces::{self, MappedFile, Mapping, is_kernel_address};

type Maps = Arc<Vec<Mapping<Arc<MappedFile>>>>;

/// What runs now: mappings by process, names by thread.
///
/// ```
/// use truecount_sample::live::LiveSpaces;
/// let mut spaces = LiveSpaces::default();
/// assert!(!spaces.knows(7));
/// spaces.load(7, [(0x1000..0x3000, 0x200, "/bin/a")]);
/// let (file, offset) = spaces.resolve(7, 0x1010).unwrap();
/// assert_eq!((file.path.as_str(), offset), ("/bin/a", 0x210));
/// assert!(spaces.resolve(7, 0x3000).is_none());
/// ```
#[derive(Debug, Default)]
pub struct LiveSpaces {
    processes: FxHashMap<u32, Maps>,
    /// Names by thread; a process has that of its first thread.
    names: FxHashMap<u32, Arc<str>>,
    files: FxHashSet<Arc<MappedFile>>,
    /// Threads that have ended since [`LiveSpaces::forget_ended`], and those before.
    ended: [Vec<u32>; 2],
    /// Files at which unused ones are looked for.
    sweep_at: usize,
}

impl LiveSpaces {
    /// Takes a record in; those of other kinds change nothing. Records must come in the order of time.
    pub fn apply(&mut self, misc: u16, body: &Body<'_>) {
        match *body {
            Body::Mmap(ref map) => {
                let is_user = map.pid != u32::MAX && !is_kernel_address(map.addr);
                if !is_user || !spaces::is_code(misc, map) {
                    return;
                }
                let Some(end) = map.addr.checked_add(map.len) else {
                    return;
                };
                // Of a process whose other mappings are unknown, one alone would hide that.
                if !self.processes.contains_key(&map.pid) {
                    return;
                }
                let file = self.file(MappedFile {
                    path: String::from_utf8_lossy(map.path).into_owned(),
                    build_id: map.build_id.unwrap_or_default().to_vec(),
                });
                if let Some(maps) = self.processes.get_mut(&map.pid) {
                    let new = Mapping {
                        start: map.addr,
                        end,
                        pgoff: map.pgoff,
                        file,
                    };
                    spaces::insert(Arc::make_mut(maps), new);
                }
            }
            Body::Comm(comm) => {
                if comm.exec {
                    self.processes.insert(comm.pid, Maps::default());
                }
                self.set_name(comm.tid, &String::from_utf8_lossy(comm.name));
            }
            Body::Fork(task) => {
                for ended in &mut self.ended {
                    ended.retain(|t| *t != task.tid);
                }
                if let Some(name) = self.names.get(&task.ptid).cloned() {
                    self.names.insert(task.tid, name);
                }
                if task.pid != task.ppid {
                    match self.processes.get(&task.ppid).cloned() {
                        Some(maps) => self.processes.insert(task.pid, maps),
                        None => self.processes.remove(&task.pid),
                    };
                }
            }
            Body::Exit(task) => {
                let [now, _] = &mut self.ended;
                now.push(task.tid);
            }
            _ => {}
        }
    }

    /// Whether the mappings of a process are known.
    #[must_use]
    pub fn knows(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Sets the mappings of a process: addresses, offset in the file, path. The build ids that records brought are
    /// kept for the paths they came with.
    pub fn load<'a>(
        &mut self,
        pid: u32,
        mappings: impl IntoIterator<Item = (Range<u64>, u64, &'a str)>,
    ) {
        let before = self.processes.remove(&pid).unwrap_or_default();
        let mut maps = Vec::new();
        for (range, pgoff, path) in mappings {
            let known = before.iter().find(|m| m.file.path == path);
            let file = match known {
                Some(m) => Arc::clone(&m.file),
                None => self.file(MappedFile {
                    path: path.to_owned(),
                    build_id: Vec::new(),
                }),
            };
            let new = Mapping {
                start: range.start,
                end: range.end,
                pgoff,
                file,
            };
            spaces::insert(&mut maps, new);
        }
        self.processes.insert(pid, Arc::new(maps));
    }

    /// The file and the offset in it of a user address; `None` when nothing is known to be mapped there.
    #[must_use]
    pub fn resolve(&self, pid: u32, address: u64) -> Option<(&Arc<MappedFile>, u64)> {
        let (map, offset) = spaces::find(self.processes.get(&pid)?, address)?;
        Some((&map.file, offset))
    }

    /// The name of a thread, when known.
    #[must_use]
    pub fn name(&self, tid: u32) -> Option<&Arc<str>> {
        self.names.get(&tid)
    }

    /// Sets the name of a thread.
    pub fn set_name(&mut self, tid: u32, name: &str) {
        self.names.insert(tid, name.into());
    }

    /// Forgets what had ended when this was called last: samples may come a little after the end.
    pub fn forget_ended(&mut self) {
        let [now, before] = &mut self.ended;
        for tid in before.drain(..) {
            self.names.remove(&tid);
            self.processes.remove(&tid);
        }
        std::mem::swap(now, before);
    }

    /// How many processes, thread names and files are kept.
    #[must_use]
    pub fn size(&self) -> (usize, usize, usize) {
        (self.processes.len(), self.names.len(), self.files.len())
    }

    fn file(&mut self, file: MappedFile) -> Arc<MappedFile> {
        if let Some(known) = self.files.get(&file) {
            return Arc::clone(known);
        }
        if self.files.len() >= self.sweep_at.max(1024) {
            self.files.retain(|f| Arc::strong_count(f) > 1);
            self.sweep_at = self.files.len().saturating_mul(2);
        }
        let file = Arc::new(file);
        self.files.insert(Arc::clone(&file));
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Comm, Mmap, Task};

    fn map(pid: u32, addr: u64, len: u64, path: &'static str) -> Body<'static> {
        Body::Mmap(Mmap {
            pid,
            tid: pid,
            addr,
            len,
            pgoff: 0,
            prot: Some(5),
            build_id: Some(&[1, 2]),
            path: path.as_bytes(),
        })
    }

    fn task(pid: u32, ppid: u32, tid: u32) -> Task {
        Task {
            pid,
            ppid,
            tid,
            ptid: ppid,
            time: 0,
        }
    }

    fn fork(pid: u32, ppid: u32, tid: u32) -> Body<'static> {
        Body::Fork(task(pid, ppid, tid))
    }

    fn exec(pid: u32, name: &'static str) -> Body<'static> {
        Body::Comm(Comm {
            pid,
            tid: pid,
            exec: true,
            name: name.as_bytes(),
        })
    }

    fn at(spaces: &LiveSpaces, pid: u32, address: u64) -> Option<(String, u64)> {
        let (file, offset) = spaces.resolve(pid, address)?;
        Some((file.path.clone(), offset))
    }

    #[test]
    fn a_process_from_fork_to_end() {
        let mut s = LiveSpaces::default();
        s.load(1, [(0x1000..0x2000, 0, "/bin/sh")]);
        s.set_name(1, "sh");
        s.apply(0, &fork(2, 1, 2));
        assert_eq!(at(&s, 2, 0x1004), Some(("/bin/sh".to_owned(), 4)));
        s.apply(0, &exec(2, "prog"));
        assert_eq!(at(&s, 2, 0x1004), None);
        assert!(s.knows(2));
        s.apply(0, &map(2, 0x1000, 0x1000, "/bin/prog"));
        s.apply(0, &map(2, 0x1800, 0x100, "/lib/over.so"));
        assert_eq!(at(&s, 2, 0x1810), Some(("/lib/over.so".to_owned(), 0x10)));
        assert_eq!(at(&s, 2, 0x1900), Some(("/bin/prog".to_owned(), 0x900)));
        assert_eq!(
            at(&s, 1, 0x1900),
            Some(("/bin/sh".to_owned(), 0x900)),
            "the parent is as it was"
        );
        assert_eq!(s.name(2).map(|n| &**n), Some("prog"));
        s.apply(0, &Body::Exit(task(2, 1, 2)));
        s.forget_ended();
        assert!(s.knows(2), "late samples are still named");
        s.forget_ended();
        assert!(!s.knows(2) && s.name(2).is_none() && s.knows(1));
    }

    #[test]
    fn threads_share_the_mappings_and_have_names() {
        let mut s = LiveSpaces::default();
        s.load(5, [(0..10, 0, "/a")]);
        s.set_name(5, "main");
        s.apply(0, &fork(5, 5, 6));
        assert_eq!(s.name(6).map(|n| &**n), Some("main"));
        s.apply(
            0,
            &Body::Comm(Comm {
                pid: 5,
                tid: 6,
                exec: false,
                name: b"worker",
            }),
        );
        assert_eq!(s.name(6).map(|n| &**n), Some("worker"));
        assert_eq!(s.name(5).map(|n| &**n), Some("main"));
    }

    #[test]
    fn what_is_not_known_is_not_half_known() {
        let mut s = LiveSpaces::default();
        s.apply(0, &map(9, 0x1000, 0x10, "/late.so"));
        assert!(!s.knows(9));
        s.apply(0, &fork(10, 9, 10));
        assert!(!s.knows(10));
        // A number that is used again is another process.
        s.load(11, [(0..10, 0, "/old")]);
        s.apply(0, &fork(11, 9, 11));
        assert!(!s.knows(11));
    }

    #[test]
    fn build_ids_of_records_survive_loading() {
        let mut s = LiveSpaces::default();
        s.apply(0, &exec(3, "p"));
        s.apply(0, &map(3, 0x1000, 0x10, "/p"));
        s.load(3, [(0x1000..0x1010, 0, "/p"), (0x2000..0x2010, 0, "/q")]);
        assert_eq!(s.resolve(3, 0x1000).unwrap().0.build_id, [1, 2]);
        assert!(s.resolve(3, 0x2000).unwrap().0.build_id.is_empty());
    }

    #[test]
    fn memory_does_not_grow_with_time() {
        let mut s = LiveSpaces::default();
        s.load(1, [(0..10, 0, "/init")]);
        for i in 0..50_000u32 {
            let pid = 2 + i % 30_000;
            s.apply(0, &fork(pid, 1, pid));
            s.apply(0, &exec(pid, "child"));
            let path = format!("/tmp/built-{i}");
            let mmap = Mmap {
                pid,
                addr: 0x1000,
                len: 0x1000,
                path: path.as_bytes(),
                ..Mmap::default()
            };
            s.apply(0, &Body::Mmap(mmap));
            s.apply(0, &Body::Exit(task(pid, 1, pid)));
            if i % 100 == 0 {
                s.forget_ended();
            }
        }
        s.forget_ended();
        s.forget_ended();
        let (processes, names, files) = s.size();
        assert_eq!((processes, names), (1, 0));
        assert!(files < 3000, "{files}");
    }
}
