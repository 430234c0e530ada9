//! What a block is given as: `START`, `START..END`, each an address of the program's file or SYMBOL+OFFSET; the end may
//! also be +OFFSET from the start.

use std::path::Path;

use truecount_engine::virt::Interval;
use truecount_sample::symbols::{addresses_of, parse_number};

use crate::error::{Error, ErrorKind};

fn bad(spec: &str, why: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("{spec}: {why}"))
        .hint("write 0x1225, work, main+69, main+69..main+120, 0x1225..0x1300 or work..+0x20")
}

/// Finds the addresses of one block.
///
/// # Errors
/// It is neither an address nor a symbol of the program.
pub fn parse(spec: &str, program: &Path) -> Result<Interval, Error> {
    let (start, end) = match spec.split_once("..") {
        Some((start, end)) => (start, Some(end)),
        None => (spec, None),
    };
    let start = place(spec, start, program)?;
    let end = match end {
        None => None,
        Some(end) => Some(match end.strip_prefix('+').map(parse_number) {
            Some(Some(offset)) => start.wrapping_add(offset),
            Some(None) => return Err(bad(spec, "no number behind the +")),
            None => place(spec, end, program)?,
        }),
    };
    Ok(Interval { start, end })
}

fn place(spec: &str, text: &str, program: &Path) -> Result<u64, Error> {
    if let Some(address) = parse_number(text) {
        return if address == 0 {
            Err(bad(spec, "address 0 holds no code"))
        } else {
            Ok(address)
        };
    }
    let (name, offset) = match text.rsplit_once('+') {
        Some((name, offset)) => (
            name,
            parse_number(offset).ok_or_else(|| bad(spec, "no number behind the +"))?,
        ),
        None => (text, 0),
    };
    if name.is_empty() {
        return Err(bad(spec, "no address and no symbol"));
    }
    let unreadable = |error: String| {
        Error::new(
            ErrorKind::Unavailable,
            format!("cannot read the symbols of {}: {error}", program.display()),
        )
        .hint("give an address instead, as objdump -d shows it")
    };
    match addresses_of(program, name).map_err(unreadable)?.as_slice() {
        [] => Err(Error::new(
            ErrorKind::Unavailable,
            format!("{} has no symbol {name}", program.display()),
        )
        .hint(
            "`nm PROGRAM` lists its symbols (mangled); or give an address, as objdump -d shows it",
        )),
        [(address, size)] => {
            if size.is_some_and(|size| size > 0 && offset > size as u64) {
                return Err(bad(spec, "the offset is beyond the function's end"));
            }
            Ok(address.wrapping_add(offset))
        }
        several => Err(Error::new(
            ErrorKind::Unavailable,
            format!("{} has {} symbols {name}", program.display(), several.len()),
        )
        .hint(format!(
            "give the address of the one you mean: {}",
            several
                .iter()
                .map(|s| format!("{:#x}", s.0))
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ends() {
        let of = |spec| parse(spec, Path::new("/nonexistent")).map(|i| (i.start, i.end));
        assert_eq!(of("0x1225").unwrap(), (0x1225, None));
        assert_eq!(of("0x10..0x30").unwrap(), (0x10, Some(0x30)));
        assert_eq!(of("16..+0x20").unwrap(), (16, Some(48)));
        for (wrong, kind) in [
            ("", ErrorKind::Usage),
            ("0", ErrorKind::Usage),
            ("main+x", ErrorKind::Usage),
            ("0x10..+", ErrorKind::Usage),
            ("0x10..", ErrorKind::Usage),
            ("main", ErrorKind::Unavailable),
        ] {
            assert_eq!(of(wrong).unwrap_err().kind, kind, "{wrong}");
        }
    }
}
