//! The files of a recorder: strings, pages, and what happens when a disk is full.
//!
//! Strings are written before the events that name them, a page is one `write`, and a page that could
//! not be written whole is cut off again: at every moment the file is a valid profile.

use super::Overhead;
use super::buffer::Buffer;
use super::clock::Description;
use super::error::RecorderError;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const VERSION: u32 = 9;
const FIRST_REGULAR: u64 = 100_000_003;
const METADATA: u64 = 100_000_001;
const EVENTS: u8 = 0;
const STRING_DATA: u8 = 1;
const STRING_INDEX: u8 = 2;
/// Longest page that measureme writes.
const LONGEST_PAGE: usize = 256 * 1024;
/// Longest text of one string: with its end mark it fits a page, as measureme's do.
const LONGEST_TEXT: usize = LONGEST_PAGE - 16;

/// One file and the counter it is of.
#[derive(Debug)]
struct Lane {
    path: PathBuf,
    file: File,
    /// Length of the valid profile.
    length: u64,
    /// Nothing more is written after a failure.
    failed: bool,
}

/// Everything behind the lock.
#[derive(Debug)]
pub(crate) struct Output {
    lanes: Vec<Lane>,
    /// Strings that are not in the files yet.
    pending: Vec<u8>,
    /// Length of the string data with what is pending (and with the stream's header).
    strings: u64,
    known: HashMap<Vec<u8>, u64>,
    threads: Vec<(u32, Vec<Arc<Buffer>>)>,
    next_thread: u32,
    /// Whose files they are.
    process: u32,
    failure: Option<RecorderError>,
    kinds: (u64, u64, u64),
}

impl Default for Output {
    fn default() -> Self {
        Self {
            lanes: Vec::new(),
            pending: Vec::new(),
            strings: 8,
            known: HashMap::new(),
            threads: Vec::new(),
            next_thread: 1,
            failure: None,
            process: std::process::id(),
            kinds: (0, 0, 0),
        }
    }
}

/// Where a profile goes: `.mm_profdata` is appended, not put in place of what follows a dot.
pub(super) fn path(path: &Path, counter: Option<&str>) -> PathBuf {
    let text = path.as_os_str();
    let stem = text
        .to_string_lossy()
        .strip_suffix(".mm_profdata")
        .map_or_else(|| text.to_owned(), Into::into);
    let mut name = stem;
    if let Some(counter) = counter {
        name.push(".");
        name.push(counter.replace(['/', ' '], "_"));
    }
    name.push(".mm_profdata");
    PathBuf::from(name)
}

fn json(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn metadata(description: &Description, overhead: &Overhead) -> String {
    let start = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    let command: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let command = command.join(" ");
    // Half a page at most, each character as six bytes at most.
    let mut end = command.len().min(LONGEST_PAGE / 16);
    while !command.is_char_boundary(end) {
        end -= 1;
    }
    let command = &command[..end];
    let units: Vec<String> = description
        .units
        .iter()
        .map(|(name, size)| format!("[{},{size}]", json(name)))
        .collect();
    let Overhead { inner, outer } = overhead;
    format!(
        "{{\"start_time\":{start},\"process_id\":{},\"cmd\":{},\"counter\":{{\"name\":{},\"units\":[{}]}},\
         \"overhead\":{{\"inner\":{inner},\"outer\":{outer}}},\"source\":{},\"recorder\":\"truecount {}\"}}",
        std::process::id(),
        json(command),
        json(&description.name),
        units.join(","),
        json(&description.source),
        env!("CARGO_PKG_VERSION")
    )
}

impl Output {
    pub(super) fn create(
        paths: &[PathBuf],
        descriptions: &[Description],
        overheads: &[Overhead],
    ) -> Result<Self, RecorderError> {
        let mut output = Self::default();
        let mut texts: Vec<String> = descriptions
            .iter()
            .zip(overheads)
            .map(|(d, o)| metadata(d, o))
            .collect();
        // Metadata differ per file; of the same length, all other strings have the same places.
        let longest = texts.iter().map(String::len).max().unwrap_or(0);
        for text in &mut texts {
            text.push_str(&" ".repeat(longest - text.len()));
        }
        for (path, text) in paths.iter().zip(&texts) {
            let create = |source| RecorderError::Create {
                path: path.clone(),
                source,
            };
            let file = File::create(path).map_err(create)?;
            let mut lane = Lane {
                path: path.clone(),
                file,
                length: 0,
                failed: false,
            };
            let header = |magic: &[u8; 4]| [&magic[..], &VERSION.to_le_bytes()].concat();
            let mut strings = header(b"MMSD");
            strings.extend_from_slice(text.as_bytes());
            strings.push(0xFF);
            let mut index = header(b"MMSI");
            index.extend_from_slice(&METADATA.to_le_bytes());
            index.extend_from_slice(&8_u64.to_le_bytes());
            output.strings = strings.len() as u64;
            let mut bytes = header(b"MMPD");
            for (tag, page) in [
                (EVENTS, header(b"MMES")),
                (STRING_DATA, strings),
                (STRING_INDEX, index),
            ] {
                bytes.extend_from_slice(&page_header(tag, page.len()));
                bytes.extend_from_slice(&page);
            }
            lane.append(&bytes).map_err(create)?;
            output.lanes.push(lane);
        }
        output.kinds = (
            output.string("GenericActivity"),
            output.string("Instant"),
            output.string("Integer"),
        );
        Ok(output)
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.lanes.iter().map(|lane| lane.path.clone()).collect()
    }

    /// Ids of the kinds of intervals, instants and integers.
    pub(super) fn kinds(&self) -> (u64, u64, u64) {
        self.kinds
    }

    pub(super) fn register(&mut self, buffers: Vec<Arc<Buffer>>) -> u32 {
        let thread = self.next_thread;
        self.next_thread = self.next_thread.wrapping_add(1);
        self.threads.push((thread, buffers));
        thread
    }

    pub(super) fn unregister(&mut self, thread: u32) {
        self.threads.retain(|(number, _)| *number != thread);
    }

    /// The id of a text, stored on first use.
    pub(super) fn string(&mut self, text: &str) -> u64 {
        self.components(plain(text).as_bytes())
    }

    /// The id of a label with arguments: a reference to the label, then each argument behind a separator.
    pub(super) fn event_text(&mut self, label: &str, arguments: &[&str]) -> u64 {
        let label = self.string(label);
        let mut bytes = vec![0xFE];
        bytes.extend_from_slice(&label.to_le_bytes());
        for argument in arguments {
            bytes.push(0x1E);
            bytes.extend_from_slice(plain(argument).as_bytes());
        }
        bytes.truncate(LONGEST_TEXT);
        // A character that was cut in two.
        while bytes.last().is_some_and(|byte| *byte >= 0x80) && bytes.len() == LONGEST_TEXT {
            bytes.pop();
        }
        self.components(&bytes)
    }

    fn components(&mut self, bytes: &[u8]) -> u64 {
        if let Some(&id) = self.known.get(bytes) {
            return id;
        }
        if self.pending.len() + bytes.len() >= LONGEST_PAGE {
            self.write_strings();
        }
        let id = FIRST_REGULAR + self.strings;
        self.pending.extend_from_slice(bytes);
        self.pending.push(0xFF);
        self.strings += bytes.len() as u64 + 1;
        self.known.insert(bytes.to_vec(), id);
        id
    }

    fn write_strings(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            for lane in 0..self.lanes.len() {
                self.page(lane, STRING_DATA, &pending);
            }
        }
    }

    /// Writes what a buffer has, its strings before it.
    pub(super) fn drain(&mut self, lane: usize, buffer: &Buffer) {
        self.write_strings();
        buffer.drain(|bytes| self.page(lane, EVENTS, bytes));
    }

    fn page(&mut self, lane: usize, tag: u8, payload: &[u8]) {
        if std::process::id() != self.process {
            // A forked child shares the file's position with its parent: it must not write.
            return self.failed(RecorderError::Forked);
        }
        let Some(lane) = self.lanes.get_mut(lane).filter(|lane| !lane.failed) else {
            return;
        };
        let mut bytes = Vec::with_capacity(payload.len() + 5);
        bytes.extend_from_slice(&page_header(tag, payload.len()));
        bytes.extend_from_slice(payload);
        if let Err(source) = lane.append(&bytes) {
            lane.failed = true;
            let error = RecorderError::Write {
                path: lane.path.clone(),
                source,
                written: lane.length,
            };
            self.failed(error);
        }
    }

    /// Keeps the first failure for the next `flush` or `finish`.
    pub(super) fn failed(&mut self, error: RecorderError) {
        self.failure.get_or_insert(error);
    }

    pub(super) fn take_failure(&mut self) -> Result<(), RecorderError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    pub(super) fn flush(&mut self) -> Result<(), RecorderError> {
        for (_, buffers) in self.threads.clone() {
            for (lane, buffer) in buffers.iter().enumerate() {
                self.drain(lane, buffer);
            }
        }
        self.write_strings();
        self.take_failure()
    }
}

fn page_header(tag: u8, length: usize) -> [u8; 5] {
    // No page is longer than LONGEST_PAGE.
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    [tag, length[0], length[1], length[2], length[3]]
}

impl Lane {
    /// Appends whole pages, or nothing.
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // What could not be cut off is a page that ends early, which readers know how to take.
                let _ = self.file.set_len(self.length);
                Err(error)
            }
        }
    }
}

/// A text that fits the grammar: not empty, no separator or other control character, not too long.
fn plain(text: &str) -> std::borrow::Cow<'_, str> {
    if text.is_empty() {
        return "(empty)".into();
    }
    let bad = |c: char| c.is_ascii_control() && !c.is_ascii_whitespace();
    let mut text: std::borrow::Cow<'_, str> = if text.contains(bad) {
        text.replace(bad, "\u{FFFD}").into()
    } else {
        text.into()
    };
    if text.len() > LONGEST_TEXT / 8 {
        let mut end = LONGEST_TEXT / 8;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.to_mut().truncate(end);
    }
    text
}
