//! A function's instructions and the source lines they come from.

use truecount_sample::code::Isa;
use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::Symbols;

use super::names::{base_name, short};

/// A line of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeLine {
    /// What follows comes from this source line.
    Source {
        /// `file:line`, and the inlined function.
        place: String,
        /// Its text, where the file is on this machine.
        text: String,
    },
    /// An instruction.
    Instruction {
        /// Offset in the file.
        address: u64,
        /// In the syntax of its vendor.
        text: String,
    },
}

/// A function's code: where it is, and up to where it must be shown.
#[derive(Debug, Clone, Copy)]
pub struct Function<'a> {
    /// The file with its code.
    pub file: &'a MappedFile,
    /// Its name.
    pub name: &'a str,
    /// Offset in the file of its first instruction.
    pub start: u64,
    /// The last instruction that has samples.
    pub last: u64,
}

/// Instructions from a function's start to its end: to the next symbol, at least past the last sample.
///
/// The error is one line that says why there are none.
pub fn listing(symbols: &mut Symbols, function: Function<'_>) -> Result<Vec<CodeLine>, String> {
    let mut out = Vec::new();
    let mut source = None;
    let mut text = SourceText::default();
    for (address, instruction) in instructions(symbols, function)? {
        let at = symbols.locate(function.file, address);
        let now = at
            .frames
            .first()
            .and_then(|f| Some((f.file.clone()?, f.line?, f.function.clone())));
        if now.is_some() && now != source {
            if let Some((file, line, inner)) = &now {
                let inner = if is_it(inner, function.name) {
                    String::new()
                } else {
                    format!(" {} (inlined)", short(inner))
                };
                out.push(CodeLine::Source {
                    place: format!("{}:{line}{inner}", base_name(file)),
                    text: text.line(file, *line),
                });
            }
            source = now;
        }
        out.push(CodeLine::Instruction {
            address,
            text: instruction,
        });
    }
    Ok(out)
}

/// Whether a symbol is the function, by its full or its short name.
pub fn is_it(symbol: &str, name: &str) -> bool {
    symbol == name || short(symbol) == name
}

fn instructions(
    symbols: &mut Symbols,
    function: Function<'_>,
) -> Result<Vec<(u64, String)>, String> {
    /// Longer functions are shown to their last sample.
    const MAX_BYTES: u64 = 1 << 16;
    let Function {
        file,
        name,
        start,
        last,
    } = function;
    let found = symbols
        .find(file)
        .map_err(|why| format!("the code of {name} is not available: {why}"))?;
    let isa = Isa::of_machine(found.elf.machine)?;
    let first = usize::try_from(start).unwrap_or(usize::MAX);
    let limit = last.saturating_sub(start).saturating_add(MAX_BYTES);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let bytes = found.elf.bytes().get(first..).unwrap_or_default();
    let bytes: Vec<u8> = bytes
        .get(..bytes.len().min(limit))
        .unwrap_or_default()
        .to_vec();
    let mut out = Vec::new();
    for instruction in isa.listing(&bytes, start) {
        let here = symbols.locate(file, instruction.address);
        let inside = here.frames.last().is_some_and(|f| is_it(&f.function, name));
        if instruction.address > last && !inside {
            break;
        }
        out.push((instruction.address, instruction.text));
    }
    Ok(out)
}

/// Source files that were looked into.
#[derive(Default)]
struct SourceText(std::collections::HashMap<String, Vec<String>>);

impl SourceText {
    fn line(&mut self, path: &str, line: u32) -> String {
        let lines = self.0.entry(path.to_owned()).or_insert_with(|| {
            source_text(path)
                .lines()
                .map(|l| l.trim_end().to_owned())
                .collect()
        });
        let at = (line as usize).checked_sub(1);
        at.and_then(|i| lines.get(i)).cloned().unwrap_or_default()
    }
}

/// The text of a source file, whose name a program tells: it may be anything. Empty where it is none.
fn source_text(path: &str) -> String {
    const MAX_BYTES: u64 = 64 << 20;
    let regular =
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_BYTES);
    let text = regular.then(|| std::fs::read(path).unwrap_or_default());
    String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
}
