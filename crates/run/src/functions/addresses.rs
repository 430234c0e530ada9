//! From offsets in files, by which code is known here, to the addresses that the files themselves say, as other tools do.

use std::collections::HashMap;
use std::fs::File;

use truecount_elf::Elf;

/// The files that were asked for, each read once.
#[derive(Default)]
pub struct Addresses {
    files: HashMap<String, Option<Elf>>,
}

impl Addresses {
    /// The address of an offset in a file; what is not in a program's file stays as it is.
    pub fn of(&mut self, object: &str, offset: u64) -> u64 {
        if !self.files.contains_key(object) {
            let elf = File::open(object).ok().and_then(|file| Elf::read(&file));
            self.files.insert(object.to_owned(), elf);
        }
        let elf = self.files.get(object).and_then(Option::as_ref);
        elf.and_then(|elf| elf.address_of(offset)).unwrap_or(offset)
    }
}
