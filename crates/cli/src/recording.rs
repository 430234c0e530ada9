//! What the commands that read recordings share.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use truecount_sample::{Error, Recording};

use crate::failure::Failure;

/// What a user gave as a recording.
pub(crate) enum Given {
    /// `perf.data` of any form.
    Recording(Box<Recording>),
    /// The text of `perf script`.
    Text(String),
}

/// So much of a text must hold what is looked for in it: not everything ends.
const TEXT_HEAD: u64 = 4 << 20;

/// Opens a recording or the text of `perf script`; `-` is stdin. Nothing is read to its end before its beginning has
/// told what it is: `holds` says whether the beginning of a text (whole lines) has what is looked for.
pub(crate) fn given(path: &Path, holds: impl Fn(&str) -> bool) -> Result<Given, Failure> {
    let refused = |error: Error| unreadable(path, &error);
    let cannot_read =
        |e: std::io::Error| Failure::new(1, format!("cannot read {}: {e}", path.display()));
    let stdin = path == Path::new("-");
    if !stdin && (path.is_dir() || path.is_file()) {
        return match Recording::open(path) {
            Ok(recording) => Ok(Given::Recording(Box::new(recording))),
            Err(error @ Error::Magic { .. }) => {
                let file = File::open(path).map_err(cannot_read)?;
                let text = text(file, holds).map_err(cannot_read)?;
                text.map(Given::Text).ok_or_else(|| refused(error))
            }
            Err(error) => Err(refused(error)),
        };
    }
    let mut from: Box<dyn Read> = if stdin {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).map_err(|source| {
            let path = path.display().to_string();
            refused(Error::Io { path, source })
        })?)
    };
    // The first bytes of what cannot be read twice.
    let mut head = Vec::new();
    from.by_ref()
        .take(8)
        .read_to_end(&mut head)
        .map_err(cannot_read)?;
    let rest = Cursor::new(head.clone()).chain(from);
    if is_text(&head) && head != b"PERFILE2" {
        let magic = Recording::from_bytes(head).err();
        let text = text(rest, holds).map_err(cannot_read)?;
        return match (text, magic) {
            (Some(text), _) => Ok(Given::Text(text)),
            (None, Some(error)) => Err(refused(error)),
            (None, None) => Err(Failure::new(1, format!("{}: empty", path.display()))),
        };
    }
    let name = path.display().to_string();
    let recording = Recording::from_stream(&mut { rest }, &name);
    recording
        .map(|recording| Given::Recording(Box::new(recording)))
        .map_err(refused)
}

/// Reads a text; `None` where it is none. What is one, but without what is looked for in its first part, is given as
/// far as it was read: the caller says what is missing.
fn text(mut from: impl Read, holds: impl Fn(&str) -> bool) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    from.by_ref().take(512).read_to_end(&mut bytes)?;
    if !is_text(&bytes) {
        return Ok(None);
    }
    from.by_ref().take(TEXT_HEAD).read_to_end(&mut bytes)?;
    let lines = bytes.iter().rposition(|byte| *byte == b'\n');
    let lines = bytes.get(..lines.unwrap_or(bytes.len()));
    if holds(&String::from_utf8_lossy(lines.unwrap_or_default())) {
        from.read_to_end(&mut bytes)?;
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Whether bytes begin as text does.
fn is_text(bytes: &[u8]) -> bool {
    let head = bytes.get(..512).unwrap_or(bytes);
    let printed = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace() || *b >= 0x80;
    !head.is_empty() && head.iter().all(printed)
}

/// Turns a reader's error into the command's.
pub(crate) fn unreadable(path: &Path, error: &Error) -> Failure {
    let failure = match error {
        Error::Io { .. } => Failure::new(1, error.to_string()),
        _ => Failure::new(1, format!("{}: {error}", path.display())),
    };
    match error {
        Error::Io { .. } => failure.hint(
            "record one with `truecount record -o FILE -- CMD` (with -b for branch stacks, which need a PMU)",
        ),
        Error::Damaged { .. } => failure.hint("record again, or cut the file before that offset"),
        _ => failure,
    }
}
