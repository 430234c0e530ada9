//! The branch stack in a line of `perf script -F ip,brstack`: `0xFROM/0xTO/M|P|-/X|-/A|-/CYCLES[/TYPE/SPEC]`.
//!
//! Fields: `print_sample_brstack` in `tools/perf/builtin-script.c`.

use crate::branch::BranchEntry;

/// The entries of a line, newest first; empty when it has none.
pub(super) fn stack(line: &str) -> Vec<BranchEntry> {
    line.split_ascii_whitespace().filter_map(entry).collect()
}

fn entry(word: &str) -> Option<BranchEntry> {
    let mut fields = word.split('/');
    let from = address(fields.next()?)?;
    let to = address(fields.next()?)?;
    let flags = fields.next()?;
    fields.next(); // X: in a transaction
    let abort = fields.next() == Some("A");
    let cycles: u64 = match fields.next()?.parse() {
        Ok(cycles) => cycles,
        Err(_) => return None,
    };
    let kind = kind(fields.next().unwrap_or(""));
    let wrong_path = fields.next() == Some("SPEC_WRONG_PATH");
    let mispredicted = flags.contains('M');
    let predicted = flags.contains('P');
    let bits = u64::from(mispredicted)
        | u64::from(predicted) << 1
        | u64::from(abort) << 3
        | cycles.min(0xffff) << 4
        | kind << 20
        | u64::from(wrong_path) << 24;
    Some(BranchEntry { from, to, bits })
}

/// `0x55d0`, also followed by `(/path+0x..)` as with the dso field.
fn address(text: &str) -> Option<u64> {
    let text = text.strip_prefix("0x")?;
    let end = text
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(text.len());
    u64::from_str_radix(text.get(..end)?, 16).ok()
}

fn kind(name: &str) -> u64 {
    match name {
        "COND" => 1,
        "UNCOND" => 2,
        "IND" => 3,
        "CALL" => 4,
        "IND_CALL" => 5,
        "RET" => 6,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::stack;

    #[test]
    fn entries_of_a_line() {
        let s = stack(
            " 5600 0x10/0x20/P/-/-/12/COND/-  0xffff/0x8/M/-/A/0 not/an/entry 0xzz/0x1/P/-/-/1",
        );
        assert_eq!(s.len(), 2);
        assert_eq!(
            (s[0].from, s[0].to, s[0].cycles(), s[0].kind()),
            (0x10, 0x20, 12, 1)
        );
        assert!(s[0].predicted() && !s[0].mispredicted());
        assert!(s[1].mispredicted() && s[1].aborted());
    }
}
