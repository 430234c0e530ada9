//! Reading what a user names: looked at before it is read on, and never more of it than a bound. A name may be that of a
//! device, which does not end, or of a file of many gigabytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// No document or table that these tools write or take is larger.
const MAX_BYTES: u64 = 256 << 20;
/// So much of the beginning tells what it is.
const HEAD: u64 = 512;

/// The text of a file.
///
/// # Errors
/// The system's; [`io::ErrorKind::InvalidData`] for what is not text (UTF-8 without NUL) or larger than 256 MiB.
pub fn text(path: &Path) -> io::Result<String> {
    read(File::open(path)?, MAX_BYTES, is_text)
}

/// The text of a JSON document: as [`text`], and it begins with `{` or `[`.
///
/// # Errors
/// As [`text`].
pub fn json(path: &Path) -> io::Result<String> {
    read(File::open(path)?, MAX_BYTES, |head| {
        is_text(head)?;
        match head.trim_ascii_start().first() {
            Some(b'{' | b'[') => Ok(()),
            _ => Err(invalid("it does not begin as a JSON document")),
        }
    })
}

/// Whether the first bytes are those of a text; the last character may be cut.
fn is_text(head: &[u8]) -> io::Result<()> {
    let utf8 = std::str::from_utf8(head).is_ok_and(|text| !text.contains('\0'));
    let cut = std::str::from_utf8(head).is_err_and(|error| error.error_len().is_none());
    if utf8 || cut && !head.contains(&0) {
        Ok(())
    } else {
        Err(invalid("it is not text"))
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn read(
    mut from: impl Read,
    largest: u64,
    begins: impl Fn(&[u8]) -> io::Result<()>,
) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.by_ref().take(HEAD).read_to_end(&mut bytes)?;
    begins(&bytes)?;
    from.take(largest.saturating_sub(HEAD) + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        return Err(invalid(&format!("it is larger than {} MiB", largest >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it is not text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_not_read_to_its_end() {
        for endless in ["/dev/zero", "/dev/urandom"] {
            let error = text(Path::new(endless)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{endless}");
            assert!(json(Path::new(endless)).is_err());
        }
        let error = read(io::repeat(b'a'), 1 << 20, is_text).unwrap_err();
        assert!(error.to_string().contains("1 MiB"), "{error}");
    }

    #[test]
    fn texts_are_read_whole() {
        let long = "a line\n".repeat(1000);
        assert_eq!(read(long.as_bytes(), 7000, is_text).unwrap(), long);
        assert_eq!(read("".as_bytes(), 10, is_text).unwrap(), "");
        assert!(read(long.as_bytes(), 6999, is_text).is_err());
        assert!(read(&b"\xff\xfe"[..], 10, is_text).is_err());
    }
}
