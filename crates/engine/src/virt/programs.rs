//! What the launcher has to know of the files of programs, read once for each.

use crate::restartable;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

/// Device, inode, size, and times of the last changes: the same file with the same content.
pub(super) type Identity = [u64; 7];

/// What is in a program's file.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) build_id: Vec<u8>,
    /// It may have restartable sequences of its own.
    pub(super) sequences: bool,
}

/// The program that a process runs.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) identity: Identity,
    pub(super) facts: Arc<Facts>,
}

/// More are forgotten: a run of so many programs reads them again.
const MAX_KNOWN: usize = 1024;

/// What is known so far.
#[derive(Default)]
pub(super) struct Programs(Mutex<HashMap<Identity, Arc<Facts>>>);

impl Programs {
    /// The program of a process; `None` where its file cannot be read.
    pub(super) fn of(&self, pid: i32) -> Option<Program> {
        let path = format!("/proc/{pid}/exe");
        // Mostly it is known, and need not be opened.
        let identity = std::fs::metadata(&path).ok().map(|found| identity(&found));
        identity
            .and_then(|identity| self.known(identity))
            .or_else(|| self.in_file(&File::open(path).ok()?))
    }

    fn known(&self, identity: Identity) -> Option<Program> {
        let facts = self.0.lock().ok()?.get(&identity).cloned()?;
        Some(Program { identity, facts })
    }

    fn in_file(&self, file: &File) -> Option<Program> {
        let identity = identity(&file.metadata().ok()?);
        if let Some(program) = self.known(identity) {
            return Some(program);
        }
        let facts = Arc::new(Facts {
            build_id: truecount_elf::build_id(file).unwrap_or_default(),
            sequences: restartable::in_file(file),
        });
        if let Ok(mut known) = self.0.lock() {
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.insert(identity, Arc::clone(&facts));
        }
        Some(Program { identity, facts })
    }
}

fn identity(found: &Metadata) -> Identity {
    [
        found.dev(),
        found.ino(),
        found.size(),
        found.mtime().cast_unsigned(),
        found.mtime_nsec().cast_unsigned(),
        found.ctime().cast_unsigned(),
        found.ctime_nsec().cast_unsigned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::Programs;
    use std::fs::File;
    use std::sync::Arc;

    /// Files are told apart by what changes when they are written.
    #[test]
    fn a_file_is_read_once_until_it_changes() {
        let path = std::env::temp_dir().join(format!("truecount-program-{}", std::process::id()));
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let programs = Programs::default();
        let look = || programs.in_file(&File::open(&path).unwrap()).unwrap();
        let first = look();
        assert!(Arc::ptr_eq(&first.facts, &look().facts));
        assert_eq!(
            first.facts.build_id,
            truecount_elf::build_id(&File::open(&path).unwrap()).unwrap_or_default()
        );
        std::fs::write(&path, b"#!/bin/sh").unwrap();
        let second = look();
        assert_ne!(first.identity, second.identity);
        assert!(second.facts.build_id.is_empty());
        std::fs::remove_file(&path).unwrap();
    }
}
