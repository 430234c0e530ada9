//! What the program prints by client requests (`VALGRIND_PRINTF`): formatted here, kept in the totals file, for the
//! launcher's log.

use crate::layout::{Context, TOTALS_BASE};
use crate::program_memory;
use crate::regions::texts::{self, kind};
use crate::slots;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Appends a record; without room its bytes are counted only.
fn add(context: &Context, kind: u32, bytes: &[u8]) {
    let used = &slots::header().texts.used;
    let whole = texts::HEAD + (bytes.len() as u64).next_multiple_of(8);
    let more = |used: u64| (used + whole <= texts::BYTES).then_some(used + whole);
    let Ok(at) = used.fetch_update(Relaxed, Relaxed, more) else {
        let lost = &slots::header().texts.lost;
        lost.fetch_add(bytes.len() as u64, Relaxed);
        return;
    };
    let record = (TOTALS_BASE + texts::AT + at) as *mut u32;
    // SAFETY: region 0 is mapped for good, and these bytes of it were just given to this thread.
    unsafe {
        record.write_volatile(context.leader);
        record.add(1).write_volatile(kind);
        record.add(2).write_volatile(bytes.len() as u32);
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), record.add(4).cast::<u8>(), bytes.len());
        (*record.add(3).cast::<AtomicU32>()).store(texts::DONE, Release);
    }
}

/// Callers that a trace has at most, the place itself included (Valgrind's `--num-callers`).
const MAX_TRACE: usize = 12;

/// Notes where the thread is: `pc`, and where the calls return to that `frames` tells, the innermost first.
pub fn trace(context: &Context, pc: u64, frames: impl Iterator<Item = u64>) {
    let mut words = [0u64; MAX_TRACE];
    let mut len = 0;
    for (place, address) in words.iter_mut().zip(core::iter::once(pc).chain(frames)) {
        *place = address;
        len += 1;
    }
    // SAFETY: words are bytes.
    let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), len * 8) };
    add(context, kind::TRACE, bytes);
}

/// The arguments behind a format: a `va_list` of the System V ABI, copied.
struct Arguments {
    general: u32,
    vector: u32,
    overflow: u64,
    saved: u64,
}

impl Arguments {
    fn new(list: u64) -> Option<Self> {
        Some(Self {
            general: program_memory::read(list)?,
            vector: program_memory::read(list.wrapping_add(4))?,
            overflow: program_memory::read(list.wrapping_add(8))?,
            saved: program_memory::read(list.wrapping_add(16))?,
        })
    }

    fn overflowed(&mut self) -> u64 {
        let at = self.overflow;
        self.overflow = at.wrapping_add(8);
        at
    }

    /// The next integer or pointer; 0 where it cannot be read.
    fn next(&mut self) -> u64 {
        let at = match self.general {
            offset @ 0..48 => {
                self.general += 8;
                self.saved.wrapping_add(u64::from(offset))
            }
            _ => self.overflowed(),
        };
        program_memory::read(at).unwrap_or(0)
    }

    fn next_double(&mut self) -> f64 {
        let at = match self.vector {
            offset @ 0..176 => {
                self.vector += 16;
                self.saved.wrapping_add(u64::from(offset))
            }
            _ => self.overflowed(),
        };
        f64::from_bits(program_memory::read(at).unwrap_or(0))
    }
}

/// A request prints so much at most.
const MAX_BYTES: u64 = 1 << 20;

/// What is being printed.
struct Out<'a> {
    context: &'a Context,
    bytes: [u8; 1024],
    len: usize,
    all: u64,
}

impl Out<'_> {
    fn byte(&mut self, byte: u8) {
        if self.all == MAX_BYTES {
            return;
        }
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            (self.len, self.all) = (self.len + 1, self.all + 1);
        }
        if self.len == self.bytes.len() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(bytes) = self.bytes.get(..self.len).filter(|bytes| !bytes.is_empty()) {
            add(self.context, kind::TEXT, bytes);
        }
        self.len = 0;
    }

    /// `front` (a sign, `0x`) and `body`, as wide as was asked for.
    fn field(&mut self, spec: &Spec, front: &[u8], body: &[u8]) {
        let pad = (spec.width as usize).saturating_sub(front.len() + body.len());
        let pad = pad.min(MAX_BYTES as usize);
        let padding = |out: &mut Self, wanted: bool, byte: u8| {
            for _ in 0..if wanted { pad } else { 0 } {
                out.byte(byte);
            }
        };
        padding(self, !spec.left && !spec.zeros, b' ');
        front.iter().for_each(|&byte| self.byte(byte));
        padding(self, !spec.left && spec.zeros, b'0');
        body.iter().for_each(|&byte| self.byte(byte));
        padding(self, spec.left, b' ');
    }
}

/// What stands between `%` and the conversion.
#[derive(Default)]
struct Spec {
    left: bool,
    zeros: bool,
    alternate: bool,
    grouped: bool,
    long: bool,
    width: u32,
    precision: Option<u32>,
}

/// Digits of a number, from the end of a buffer on.
struct Digits {
    bytes: [u8; 32],
    first: usize,
}

impl Digits {
    fn new(mut number: u64, base: u64, capitals: bool, grouped: bool) -> Self {
        let mut digits = Self {
            bytes: [0; 32],
            first: 32,
        };
        let letters: &[u8; 16] = match capitals {
            true => b"0123456789ABCDEF",
            false => b"0123456789abcdef",
        };
        for count in 0.. {
            if grouped && base == 10 && count != 0 && count % 3 == 0 {
                digits.push(b',');
            }
            digits.push(*letters.get((number % base) as usize).unwrap_or(&b'?'));
            number /= base;
            if number == 0 {
                break;
            }
        }
        digits
    }

    fn push(&mut self, byte: u8) {
        self.first -= 1;
        if let Some(place) = self.bytes.get_mut(self.first) {
            *place = byte;
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(self.first..).unwrap_or(&[])
    }
}

/// A fraction's text.
struct Fraction {
    bytes: [u8; 400],
    len: usize,
}

impl core::fmt::Write for Fraction {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for &byte in text.as_bytes() {
            *self.bytes.get_mut(self.len).ok_or(core::fmt::Error)? = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// Prints: the format is read from the program, `list` is its `va_list`. Returns how many bytes that was. Conversions are
/// those that Valgrind has; what it does not know prints nothing, and takes no argument.
pub fn print(context: &Context, format: u64, list: u64) -> u64 {
    let Some(mut arguments) = Arguments::new(list) else {
        return 0;
    };
    let mut out = Out {
        context,
        bytes: [0; 1024],
        len: 0,
        all: 0,
    };
    let mut at = format;
    let mut next = || {
        let byte = program_memory::read::<u8>(at).filter(|&byte| byte != 0)?;
        at = at.wrapping_add(1);
        Some(byte)
    };
    while let Some(byte) = next() {
        if out.all == MAX_BYTES {
            break;
        }
        if byte != b'%' {
            out.byte(byte);
            continue;
        }
        let Some((spec, conversion)) = spec(&mut next, &mut arguments) else {
            break;
        };
        convert(&mut out, &spec, conversion, &mut arguments);
    }
    out.flush();
    out.all
}

/// Reads a conversion; none: the format ends in it.
fn spec(next: &mut impl FnMut() -> Option<u8>, arguments: &mut Arguments) -> Option<(Spec, u8)> {
    let mut spec = Spec::default();
    let mut byte = next()?;
    loop {
        match byte {
            b'-' => spec.left = true,
            b'0' => spec.zeros = true,
            b'#' => spec.alternate = true,
            b'\'' => spec.grouped = true,
            _ => break,
        }
        byte = next()?;
    }
    spec.width = number(&mut byte, next, arguments)?;
    if byte == b'.' {
        byte = next()?;
        spec.precision = Some(number(&mut byte, next, arguments)?);
    }
    while matches!(byte, b'l' | b'z') {
        spec.long = true;
        byte = next()?;
    }
    Some((spec, byte))
}

/// A width or a precision, which may be an argument. `byte` is the one behind it then.
fn number(
    byte: &mut u8,
    next: &mut impl FnMut() -> Option<u8>,
    arguments: &mut Arguments,
) -> Option<u32> {
    if *byte == b'*' {
        *byte = next()?;
        return Some((arguments.next() as i32).max(0).unsigned_abs());
    }
    let mut number = 0u32;
    while byte.is_ascii_digit() {
        let digit = u32::from(*byte - b'0');
        number = number.saturating_mul(10).saturating_add(digit);
        *byte = next()?;
    }
    Some(number)
}

fn convert(out: &mut Out<'_>, spec: &Spec, conversion: u8, arguments: &mut Arguments) {
    match conversion {
        b'%' => out.byte(b'%'),
        b'd' => {
            let number = match arguments.next() {
                number if spec.long => number as i64,
                number => i64::from(number as i32),
            };
            let digits = Digits::new(number.unsigned_abs(), 10, false, spec.grouped);
            let sign: &[u8] = if number < 0 { b"-" } else { b"" };
            out.field(spec, sign, digits.bytes());
        }
        b'u' | b'x' | b'X' | b'o' | b'p' => {
            let (base, front): (_, &[u8]) = match conversion {
                b'u' => (10, b""),
                b'o' => (8, if spec.alternate { b"0" } else { b"" }),
                b'p' => (16, b"0x"),
                _ => (16, if spec.alternate { b"0x" } else { b"" }),
            };
            let number = match arguments.next() {
                number if spec.long || conversion == b'p' => number,
                number => number & 0xffff_ffff,
            };
            let digits = Digits::new(number, base, conversion == b'X', spec.grouped);
            out.field(spec, front, digits.bytes());
        }
        b'c' => out.byte(arguments.next() as u8),
        b's' => string(out, spec, arguments.next()),
        b'f' => {
            let (number, mut text) = (
                arguments.next_double(),
                Fraction {
                    bytes: [0; 400],
                    len: 0,
                },
            );
            let digits = spec.precision.unwrap_or(6).min(64) as usize;
            // What does not fit is cut: 309 digits are in front of the point at most.
            let _ = write!(text, "{number:.digits$}");
            out.field(
                &Spec {
                    zeros: false,
                    ..*spec
                },
                b"",
                text.bytes.get(..text.len).unwrap_or(&[]),
            );
        }
        _ => {}
    }
}

/// A text of the program, as far as it can be read.
fn string(out: &mut Out<'_>, spec: &Spec, at: u64) {
    if at == 0 {
        out.field(
            &Spec {
                zeros: false,
                ..*spec
            },
            b"",
            b"(null)",
        );
        return;
    }
    let byte =
        |number: u64| program_memory::read::<u8>(at.wrapping_add(number)).filter(|&byte| byte != 0);
    let most = spec.precision.map_or(MAX_BYTES, u64::from);
    let len = (0..most)
        .take_while(|&number| byte(number).is_some())
        .count() as u64;
    let pad = u64::from(spec.width).saturating_sub(len).min(MAX_BYTES);
    for _ in 0..if spec.left { 0 } else { pad } {
        out.byte(b' ');
    }
    for number in 0..len {
        out.byte(byte(number).unwrap_or(b'?'));
    }
    for _ in 0..if spec.left { pad } else { 0 } {
        out.byte(b' ');
    }
}
