//! JSON documents: one for people to read, or one on a line of its own for programs that read lines.

use std::io::{self, Write};

use serde::Serialize;

/// Writes a document and passes it on: it is complete.
pub(crate) fn write<T: Serialize + ?Sized>(out: &mut dyn Write, document: &T) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)?;
    out.flush()
}

/// Writes a document as one line; others may follow.
pub(crate) fn line<T: Serialize + ?Sized>(out: &mut dyn Write, document: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *out, document)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, then fails.
    struct Full(usize, io::ErrorKind);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.0);
            self.0 -= n;
            if n == 0 { Err(self.1.into()) } else { Ok(n) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The kind decides between a quiet end and a failure (`failure.rs`): serde's own error must not hide it.
    #[test]
    fn the_kind_of_an_error_arrives() {
        for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::StorageFull] {
            for room in [0, 1, 4] {
                let document = ["a", "b"];
                let error = write(&mut Full(room, kind), &document).unwrap_err();
                assert_eq!(error.kind(), kind);
                let error = line(&mut Full(room, kind), &document).unwrap_err();
                assert_eq!(error.kind(), kind);
            }
        }
        let mut out = Vec::new();
        write(&mut out, &[1]).unwrap();
        line(&mut out, &[2]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "[\n  1\n]\n[2]\n");
    }
}
