//! The result of `bench` as one self-contained page.

use std::io::{self, Write};

use super::document::Document;

/// Writes the page.
pub(super) fn write(out: &mut dyn Write, _document: &Document) -> io::Result<()> {
    writeln!(out)
}
