//! One file of translations: copied out of a process, and checked before it is
//! used. Its shape is [`crate::snapshot`]'s; what the pieces mean is the
//! runtime's business.

use crate::snapshot::{MAGIC, MAX_AREAS, PAGE, PIECES, Piece, Prefix, Request, hash};
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::unix::fs::FileExt;

/// The largest file.
const MAX_FILE: u64 = 512 << 20;
const CHUNK: usize = 128 << 10;
/// Blocks of no further use that a snapshot may drag along, at least.
const BALLAST: u64 = 20_000;

/// What a file must say to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) engine: u64,
    pub(super) key: u64,
}

/// Where the bytes of a request come from.
pub(super) trait Memory {
    /// Fills `out` from `address`, or fails.
    fn read(&self, address: u64, out: &mut [u8]) -> io::Result<()>;
}

/// A process's memory.
pub(super) struct Process(pub(super) i32);

impl Memory for Process {
    fn read(&self, address: u64, out: &mut [u8]) -> io::Result<()> {
        let local = libc::iovec {
            iov_base: out.as_mut_ptr().cast(),
            iov_len: out.len(),
        };
        let remote = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: out.len(),
        };
        // SAFETY: the kernel fills our slice.
        let got =
            unsafe { libc::process_vm_readv(self.0, &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(got) {
            Ok(got) if got == out.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// Plain integers as bytes.
fn bytes_of<T: Copy>(value: &mut T) -> &mut [u8] {
    // SAFETY: callers pass `Prefix` and `Request`: integers without padding, valid
    // for any bytes.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), size_of::<T>()) }
}

/// `T` from bytes; callers pass `Prefix` and `Request`, see [`bytes_of`].
fn from_bytes<T: Copy>(fill: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: zeroed, and any bytes are a valid value.
    let mut value = unsafe { *value.as_mut_ptr() };
    fill(bytes_of(&mut value))?;
    Ok(value)
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// Written, but for its checksum: this is it.
    Whole(u64),
    /// Not worth keeping: mostly blocks that cannot be used again, or too large.
    Worthless,
}

/// How many blocks of what a process offers at `address` can be used again.
pub(super) fn live(memory: &dyn Memory, address: u64) -> io::Result<u64> {
    let request: Request = from_bytes(|out| memory.read(address, out))?;
    Ok(request.facts.live)
}

/// Copies what a process offers at `address` into `file`.
pub(super) fn copy(
    memory: &dyn Memory,
    address: u64,
    label: Label,
    file: &File,
) -> io::Result<Copied> {
    let request: Request = from_bytes(|out| memory.read(address, out))?;
    let facts = request.facts;
    if request.magic != MAGIC || facts.live > facts.blocks {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if facts.area_count as usize > MAX_AREAS || facts.blocks > 4 * facts.live + BALLAST {
        return Ok(Copied::Worthless);
    }
    let mut length = (size_of::<Prefix>() as u64).next_multiple_of(PAGE);
    let mut pieces = [Piece::default(); PIECES];
    for (place, piece) in pieces.iter_mut().zip(&request.pieces) {
        *place = Piece {
            at: length,
            bytes: piece.bytes,
        };
        if piece.bytes > MAX_FILE {
            return Ok(Copied::Worthless);
        }
        length += piece.bytes.next_multiple_of(PAGE);
    }
    if length > MAX_FILE {
        return Ok(Copied::Worthless);
    }
    let mut prefix = Prefix {
        magic: MAGIC,
        engine: label.engine,
        key: label.key,
        length,
        checksum: 0,
        pieces,
        facts,
    };
    let mut out = Writer {
        file,
        at: 0,
        hash: 0,
        chunk: Vec::with_capacity(CHUNK),
    };
    out.put(size_of::<Prefix>() as u64, |_, to| {
        to.copy_from_slice(bytes_of(&mut prefix));
        Ok(())
    })?;
    for piece in &request.pieces {
        out.put(piece.bytes, |from, to| memory.read(piece.at + from, to))?;
    }
    out.flush()?;
    Ok(Copied::Whole(out.hash))
}

/// Makes a copied file valid.
pub(super) fn seal(file: &File, checksum: u64) -> io::Result<()> {
    file.write_all_at(&checksum.to_ne_bytes(), offset_of!(Prefix, checksum) as u64)
}

struct Writer<'a> {
    file: &'a File,
    at: u64,
    hash: u64,
    chunk: Vec<u8>,
}

impl Writer<'_> {
    /// Appends `bytes` that `fill(from, to)` gives, and pads to a page.
    fn put(
        &mut self,
        bytes: u64,
        mut fill: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut from, end) = (0u64, bytes.next_multiple_of(PAGE));
        while from < end {
            let old = self.chunk.len();
            let room = ((CHUNK - old) as u64).min(end - from);
            self.chunk.resize(old + room as usize, 0);
            let real = room.min(bytes.saturating_sub(from)) as usize;
            if let Some(to) = self.chunk.get_mut(old..old + real)
                && real > 0
            {
                fill(from, to)?;
            }
            from += room;
            if self.chunk.len() == CHUNK {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.chunk.is_empty() {
            self.hash = hash(self.hash, &self.chunk);
            self.file.write_all_at(&self.chunk, self.at)?;
            self.at += self.chunk.len() as u64;
            self.chunk.clear();
        }
        Ok(())
    }
}

/// Whether a file is whole and says what it must.
pub(super) fn is_valid(file: &File, label: Label) -> bool {
    check(file, label).unwrap_or(false)
}

fn check(file: &File, label: Label) -> io::Result<bool> {
    let prefix: Prefix = from_bytes(|out| file.read_exact_at(out, 0))?;
    let length = file.metadata()?.len();
    let inside = |p: &Piece| {
        p.at.is_multiple_of(PAGE) && p.at.checked_add(p.bytes).is_some_and(|end| end <= length)
    };
    if prefix.magic != MAGIC
        || prefix.engine != label.engine
        || prefix.key != label.key
        || prefix.length != length
        || length > MAX_FILE
        || !prefix.pieces.iter().all(inside)
    {
        return Ok(false);
    }
    let mut chunk = vec![0u8; CHUNK.min(usize::try_from(length).unwrap_or(CHUNK))];
    let (mut at, mut sum) = (0u64, 0u64);
    while at < length {
        let size = (CHUNK as u64).min(length - at) as usize;
        let Some(part) = chunk.get_mut(..size) else {
            return Ok(false);
        };
        file.read_exact_at(part, at)?;
        if at == 0
            && let Some(place) = part.get_mut(offset_of!(Prefix, checksum)..)
            && let Some(place) = place.get_mut(..8)
        {
            place.fill(0);
        }
        sum = hash(sum, part);
        at += size as u64;
    }
    Ok(sum == prefix.checksum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Facts, piece};

    struct Fake(Vec<u8>);

    impl Memory for Fake {
        fn read(&self, address: u64, out: &mut [u8]) -> io::Result<()> {
            let from = usize::try_from(address).map_err(io::Error::other)?;
            let part = self.0.get(from..from.saturating_add(out.len()));
            out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    const LABEL: Label = Label { engine: 3, key: 4 };
    const AT: u64 = 64;

    /// Memory with a request whose blocks are `bytes` long.
    fn memory(bytes: usize, facts: Facts) -> Fake {
        let mut request = Request {
            magic: MAGIC,
            pieces: [Piece::default(); PIECES],
            facts,
        };
        let blocks = AT as usize + size_of::<Request>();
        request.pieces[piece::BLOCKS] = Piece {
            at: blocks as u64,
            bytes: bytes as u64,
        };
        let mut all = vec![0; AT as usize];
        all.extend(&*bytes_of(&mut request));
        all.extend((0..bytes).map(|n| (n * 31) as u8));
        Fake(all)
    }

    fn file(name: &str) -> (File, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("truecount-{}-{name}", std::process::id()));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        (options.open(&path).unwrap(), path)
    }

    fn written(name: &str, bytes: usize) -> (File, std::path::PathBuf) {
        let facts = Facts {
            blocks: 10,
            live: 9,
            ..Facts::default()
        };
        let (file, path) = file(name);
        match copy(&memory(bytes, facts), AT, LABEL, &file).unwrap() {
            Copied::Whole(sum) => seal(&file, sum).unwrap(),
            Copied::Worthless => panic!("worth keeping"),
        }
        (file, path)
    }

    #[test]
    fn what_was_written_is_valid_for_its_label_only() {
        for bytes in [0, 1, 4096, 3 * CHUNK + 17] {
            let (file, path) = written("label", bytes);
            assert!(is_valid(&file, LABEL), "{bytes}");
            assert!(!is_valid(&file, Label { engine: 0, ..LABEL }));
            assert!(!is_valid(&file, Label { key: 0, ..LABEL }));
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_damaged_or_cut_file_is_not_valid() {
        let (file, path) = written("damage", 9000);
        let length = file.metadata().unwrap().len();
        for at in (0..length).step_by(97).chain(0..size_of::<Prefix>() as u64) {
            let mut byte = [0u8];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 4], at).unwrap();
            assert!(!is_valid(&file, LABEL), "byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
        assert!(is_valid(&file, LABEL));
        for cut in (0..length).step_by(501) {
            file.set_len(length).unwrap();
            let whole = std::fs::read(&path).unwrap();
            file.set_len(cut).unwrap();
            assert!(!is_valid(&file, LABEL), "cut at {cut}");
            std::fs::write(&path, whole).unwrap();
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_mostly_dead_or_too_large_is_not_kept() {
        let (file, path) = file("worth");
        let facts = Facts {
            blocks: 1_000_000,
            live: 10,
            ..Facts::default()
        };
        let outcome = copy(&memory(10, facts), AT, LABEL, &file).unwrap();
        assert_eq!(outcome, Copied::Worthless);
        assert_eq!(file.metadata().unwrap().len(), 0);
        let facts = Facts {
            live: 2_000_000,
            ..facts
        };
        assert!(copy(&memory(10, facts), AT, LABEL, &file).is_err(), "lies");
        assert!(copy(&Fake(vec![0; 4096]), AT, LABEL, &file).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
