//! What a block is given as: `START`, `START..END`, each an address of the program's file or SYMBOL+OFFSET; the end may
//! also be +OFFSET from the start.

use std::path::Path;

use truecount_engine::virt::Interval;
use truecount_sample::symbols::addresses_of;

use crate::failure::Failure;
use crate::recording::parse_number;

fn bad(spec: &str, why: &str) -> Failure {
    Failure::new(2, format!("{spec}: {why}"))
        .hint("write 0x1225, work, main+69, main+69..main+120, 0x1225..0x1300 or work..+0x20")
}

/// Finds the addresses of one block.
pub(super) fn parse(spec: &str, program: &Path) -> Result<Interval, Failure> {
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

fn place(spec: &str, text: &str, program: &Path) -> Result<u64, Failure> {
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
        Failure::new(
            1,
            format!("cannot read the symbols of {}: {error}", program.display()),
        )
        .hint("give an address instead, as objdump -d shows it")
    };
    match addresses_of(program, name).map_err(unreadable)?.as_slice() {
        [] => Err(Failure::new(
            1,
            format!("{} has no symbol {name}", program.display()),
        )
        .hint("`nm PROGRAM` lists its symbols (mangled); or give an address, as objdump -d shows it")),
        [(address, size)] => {
            if size.is_some_and(|size| size > 0 && offset > size as u64) {
                return Err(bad(spec, "the offset is beyond the function's end"));
            }
            Ok(address.wrapping_add(offset))
        }
        several => Err(Failure::new(
            1,
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
        for (wrong, code) in [
            ("", 2),
            ("0", 2),
            ("main+x", 2),
            ("0x10..+", 2),
            ("0x10..", 2),
            ("main", 1),
        ] {
            assert_eq!(of(wrong).unwrap_err().code, code, "{wrong}");
        }
    }
}
