//! Names of places that earlier runs have looked up, beside the kept translations: to read the debug information of the C
//! library takes longer than a short program.
//!
//! A file of names belongs to one program or library as it is on the disk, with the debug information that would be read
//! for it (separate files, too). It holds what was found for each place, byte for byte what would be found again. Whatever
//! is wrong in it makes it one that is not there.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustc_hash::FxHashMap;
use truecount_engine::virt::Cache;
use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{FoundFile, Frame, Location, Symbols};

/// Places of a file that are kept: those of a large compiler are more.
const MOST_PLACES: usize = 1 << 18;
/// Bytes of a file of names that are read.
const MOST_BYTES: u64 = 64 << 20;
/// Other content, other version: what is in the file, and who finds names.
const MAGIC: &[u8] = concat!("truecount names 1, ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
/// No text, no line.
const NONE: u32 = u32::MAX;

/// A frame by the numbers of its texts: function, file, and the line.
type Numbered = [u32; 3];

/// What is known of one file.
#[derive(Default)]
struct Kept {
    /// The file's name in the directory, and what it has to begin with.
    key: Option<(u64, Vec<u8>)>,
    texts: Texts,
    chains: Chains,
    /// Offset in the file, from the symbol's start, and the number of its frames; by offset.
    places: Vec<(u64, u64, u32)>,
    /// Which of them was asked for last: mostly it is the one before.
    last: Cell<usize>,
    /// Those that this process has found.
    new: BTreeMap<u64, (u64, u32)>,
    /// Made where something new is found.
    indexed: bool,
    text_numbers: FxHashMap<String, u32>,
    chain_numbers: FxHashMap<Vec<Numbered>, u32>,
}

/// Texts behind each other: a file has tens of thousands of them.
#[derive(Default)]
struct Texts {
    all: String,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Texts {
    fn get(&self, number: u32) -> Option<&str> {
        self.all.get(place_in(&self.ends, number)?)
    }

    fn push(&mut self, text: &str) -> u32 {
        self.all.push_str(text);
        self.ends.push(self.all.len() as u32);
        self.ends.len() as u32 - 1
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as u32).filter_map(|number| self.get(number))
    }
}

/// Frames of places, behind each other.
#[derive(Default)]
struct Chains {
    all: Vec<Numbered>,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Chains {
    fn get(&self, number: u32) -> Option<&[Numbered]> {
        self.all.get(place_in(&self.ends, number)?)
    }

    fn push(&mut self, chain: &[Numbered]) -> u32 {
        self.all.extend_from_slice(chain);
        self.ends.push(self.all.len() as u32);
        self.ends.len() as u32 - 1
    }

    fn iter(&self) -> impl Iterator<Item = &[Numbered]> {
        (0..self.ends.len() as u32).filter_map(|number| self.get(number))
    }
}

/// Where the one with this number lies, if each ends where `ends` says.
fn place_in(ends: &[u32], number: u32) -> Option<Range<usize>> {
    let end = *ends.get(number as usize)?;
    let before = number.checked_sub(1).and_then(|at| ends.get(at as usize));
    Some(before.copied().unwrap_or(0) as usize..end as usize)
}

/// Finds names by what is kept, else by the files' symbols.
#[derive(Default)]
pub(crate) struct KeptNames {
    cache: Option<Cache>,
    numbers: FxHashMap<MappedFile, usize>,
    files: Vec<Kept>,
}

/// Frames of places, as one file's names have them: places with the same number have the same frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chain(pub(crate) u32);

impl KeptNames {
    /// With a directory, if anything is kept in one.
    pub(crate) fn new(cache: Option<Cache>) -> Self {
        Self {
            cache,
            numbers: FxHashMap::default(),
            files: Vec::new(),
        }
    }

    /// The number of a mapped file here.
    pub(crate) fn number(&mut self, symbols: &mut Symbols, file: &MappedFile) -> usize {
        if let Some(&known) = self.numbers.get(file) {
            return known;
        }
        let kept = match &self.cache {
            Some(cache) => {
                // (What symbols alone tell is found as fast again.)
                let found = symbols.find(file).ok();
                let found = found.filter(|found| !found.has_symbols_alone());
                let key = found.and_then(|found| identity(found));
                Kept::open(cache, key)
            }
            None => Kept::default(),
        };
        self.files.push(kept);
        self.numbers.insert(file.clone(), self.files.len() - 1);
        self.files.len() - 1
    }

    /// Whether what is found in the file with this number is kept for other runs.
    pub(crate) fn keeps(&self, number: usize) -> bool {
        self.files
            .get(number)
            .is_some_and(|kept| kept.key.is_some())
    }

    /// The names of an offset in a mapped file, as [`Symbols::locate_once`] has them.
    pub(crate) fn locate(
        &mut self,
        symbols: &mut Symbols,
        file: &MappedFile,
        offset: u64,
    ) -> Location {
        let number = self.number(symbols, file);
        let Some(kept) = self.files.get_mut(number) else {
            return symbols.locate_once(file, offset);
        };
        if let Some(found) = kept.find(offset) {
            return found;
        }
        let found = symbols.locate_once(file, offset);
        kept.add(offset, &found);
        found
    }

    /// The frames of an offset in the file with this number, where they are kept: without a copy of their names.
    pub(crate) fn chain(&self, number: usize, offset: u64) -> Option<Chain> {
        let (_, chain) = self.files.get(number)?.place(offset)?;
        Some(Chain(chain))
    }
}

impl Drop for KeptNames {
    /// What was found goes into the directory: for the next run, which does without where that is not possible.
    fn drop(&mut self) {
        let Some(cache) = &self.cache else { return };
        for kept in &self.files {
            if let Some((name, _)) = &kept.key
                && !kept.new.is_empty()
            {
                let _ = cache.keep_names(*name, &kept.bytes());
            }
        }
    }
}

impl Kept {
    fn open(cache: &Cache, key: Option<Vec<u8>>) -> Self {
        let Some(identity) = key else {
            return Self::default();
        };
        let name = number_of(&identity);
        let bytes = cache.kept_names(name, MOST_BYTES);
        let mut kept = bytes
            .and_then(|bytes| Self::read(&bytes, &identity))
            .unwrap_or_default();
        kept.key = Some((name, identity));
        kept
    }

    /// How far an offset is from its symbol's start, and the number of its frames.
    fn place(&self, offset: u64) -> Option<(u64, u32)> {
        let found = |at: usize| {
            self.last.set(at);
            self.places.get(at).map(|place| (place.1, place.2))
        };
        let last = self.last.get();
        for near in [last + 1, last] {
            if self.places.get(near).is_some_and(|place| place.0 == offset) {
                return found(near);
            }
        }
        match self.places.binary_search_by_key(&offset, |place| place.0) {
            Ok(at) => found(at),
            Err(_) => self.new.get(&offset).copied(),
        }
    }

    fn find(&self, offset: u64) -> Option<Location> {
        let (from_start, chain) = self.place(offset)?;
        let text = |number: u32| self.texts.get(number).map(str::to_owned);
        let frame = |&[function, file, line]: &Numbered| {
            Some(Frame {
                function: text(function)?,
                file: text(file),
                line: (line != NONE).then_some(line),
            })
        };
        let frames = self.chains.get(chain)?.iter().map(frame);
        Some(Location {
            frames: frames.collect::<Option<_>>()?,
            offset: from_start,
        })
    }

    fn add(&mut self, offset: u64, found: &Location) {
        if self.key.is_none() || self.places.len() + self.new.len() >= MOST_PLACES {
            return;
        }
        self.index();
        let mut chain = Vec::with_capacity(found.frames.len());
        for frame in &found.frames {
            let function = self.text(&frame.function);
            let file = frame.file.as_deref().map_or(NONE, |file| self.text(file));
            // (No file has that line.)
            if frame.line == Some(NONE) {
                return;
            }
            chain.push([function, file, frame.line.unwrap_or(NONE)]);
        }
        let number = match self.chain_numbers.get(&chain) {
            Some(&known) => known,
            None => {
                let number = self.chains.push(&chain);
                self.chain_numbers.insert(chain, number);
                number
            }
        };
        self.new.insert(offset, (found.offset, number));
    }

    fn index(&mut self) {
        if self.indexed {
            return;
        }
        self.indexed = true;
        self.text_numbers = self.texts.iter().map(str::to_owned).zip(0..).collect();
        self.chain_numbers = self.chains.iter().map(<[_]>::to_vec).zip(0..).collect();
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(&known) = self.text_numbers.get(text) {
            return known;
        }
        let number = self.texts.push(text);
        self.text_numbers.insert(text.to_owned(), number);
        number
    }

    fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let number = |body: &mut Vec<u8>, number: u32| body.extend(number.to_le_bytes());
        let identity = self.key.as_ref().map_or(&[][..], |key| &key.1);
        number(&mut body, identity.len() as u32);
        body.extend(identity);
        number(&mut body, self.texts.ends.len() as u32);
        for text in self.texts.iter() {
            number(&mut body, text.len() as u32);
            body.extend(text.as_bytes());
        }
        number(&mut body, self.chains.ends.len() as u32);
        for chain in self.chains.iter() {
            number(&mut body, chain.len() as u32);
            for &word in chain.iter().flatten() {
                number(&mut body, word);
            }
        }
        let mut places = self.places.clone();
        places.extend(self.new.iter().map(|(&at, &(start, of))| (at, start, of)));
        places.sort_unstable();
        number(&mut body, places.len() as u32);
        for (at, start, chain) in places {
            body.extend(at.to_le_bytes());
            body.extend(start.to_le_bytes());
            number(&mut body, chain);
        }
        let mut all = MAGIC.to_vec();
        all.extend(number_of(&body).to_le_bytes());
        all.extend(body);
        all
    }

    /// What is in a file of names, if it is of this identity and whole.
    fn read(bytes: &[u8], identity: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes.strip_prefix(MAGIC)?);
        if rest.long()? != number_of(rest.0) {
            return None;
        }
        let own = rest.number()?;
        if rest.bytes(own)? != identity {
            return None;
        }
        let mut kept = Self::default();
        let mut chain: Vec<Numbered> = Vec::new();
        for _ in 0..rest.number()? {
            let length = rest.number()?;
            kept.texts
                .push(std::str::from_utf8(rest.bytes(length)?).ok()?);
        }
        for _ in 0..rest.number()? {
            let is_text = |number: u32| (number as usize) < kept.texts.ends.len();
            chain.clear();
            for _ in 0..rest.number()? {
                let [function, file, line] = [rest.number()?, rest.number()?, rest.number()?];
                if !is_text(function) || file != NONE && !is_text(file) {
                    return None;
                }
                chain.push([function, file, line]);
            }
            kept.chains.push(&chain);
        }
        for _ in 0..rest.number()? {
            let place = (rest.long()?, rest.long()?, rest.number()?);
            if place.2 as usize >= kept.chains.ends.len() {
                return None;
            }
            kept.places.push(place);
        }
        kept.places.is_sorted().then_some(kept)
    }
}

/// Bytes that are still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, count: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }
}

/// A number for bytes, by which damage shows (FNV-1a, eight bytes at a time).
fn number_of(bytes: &[u8]) -> u64 {
    let mut number = 0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64;
    let mut add = |word: [u8; 8]| {
        number = (number ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
        number ^= number >> 29;
    };
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().copied().for_each(&mut add);
    if !rest.is_empty() {
        let mut word = [0; 8];
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        add(word);
    }
    number
}

/// What a file is, and its debug information: whatever is another one has another identity. `None`: that is not known.
fn identity(file: &FoundFile) -> Option<Vec<u8>> {
    let (path, elf) = (&file.path, &file.elf);
    let mut all = Vec::new();
    let of = |path: &Path, changed: bool| {
        let file = std::fs::metadata(path).ok()?;
        let when = [
            file.mtime(),
            file.mtime_nsec(),
            file.ctime(),
            file.ctime_nsec(),
        ];
        let when = if changed { when } else { [0; 4] };
        let what = [file.len(), if changed { file.ino() } else { 0 }];
        Some((what, when))
    };
    // A program that was built again with the same build id is the same; one without an id has to be the same file.
    let (what, when) = of(path, elf.build_id().is_empty())?;
    all.extend(elf.build_id());
    all.extend(what.iter().flat_map(|n| n.to_le_bytes()));
    all.extend(when.iter().flat_map(|n| n.to_le_bytes()));
    for path in file.separate_debug_info() {
        if let Some((what, when)) = of(&path, true) {
            all.extend(path.as_os_str().as_bytes());
            all.extend(what.iter().flat_map(|n| n.to_le_bytes()));
            all.extend(when.iter().flat_map(|n| n.to_le_bytes()));
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests;
