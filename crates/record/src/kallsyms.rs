//! Names of the running kernel and its modules, from `/proc/kallsyms` (proc(5)).
//!
//! A kernel has 100,000 to 200,000 of them: the names stand in one string, a symbol is 16 bytes.

use std::io::{self, BufRead};

/// The functions of the kernel, by address.
#[derive(Debug, Default)]
pub struct Kallsyms {
    text: String,
    /// Address, start of the name in `text`, its length, and the length of the module's name behind it.
    symbols: Vec<(u64, u32, u16, u16)>,
    /// The address of `_text` or `_stext`.
    start: Option<u64>,
}

/// A function and its module, and how far into it an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Empty for the kernel itself.
    pub module: &'a str,
    /// Distance from its start.
    pub offset: u64,
}

impl Kallsyms {
    /// Those of the running kernel, or in one line why there are none.
    pub fn of_this_machine() -> Result<Self, String> {
        let path = "/proc/kallsyms";
        let file = std::fs::File::open(path).map_err(|e| format!("{path}: {e}"))?;
        let this = Self::read(io::BufReader::new(file)).map_err(|e| format!("{path}: {e}"))?;
        if this.symbols.is_empty() {
            return Err(
                "the kernel hides its addresses from you (kernel.kptr_restrict); root sees them"
                    .to_owned(),
            );
        }
        Ok(this)
    }

    /// Reads lines `address type name [module]`; hidden addresses (0) and data are left out.
    ///
    /// # Errors
    /// The reader's.
    pub fn read(mut rows: impl BufRead) -> io::Result<Self> {
        let mut out = Self::default();
        let mut row = Vec::new();
        loop {
            row.clear();
            if rows.read_until(b'\n', &mut row)? == 0 {
                break;
            }
            let Ok(row) = std::str::from_utf8(&row) else {
                continue;
            };
            let mut words = row.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).unwrap_or(0);
            if address == 0 {
                continue;
            }
            if matches!(name, "_text" | "_stext") {
                out.start.get_or_insert(address);
            }
            if !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let module = words.next().unwrap_or_default();
            let module = module.trim_matches(['[', ']']);
            let (Ok(at), Ok(length), Ok(module_length)) = (
                u32::try_from(out.text.len()),
                u16::try_from(name.len()),
                u16::try_from(module.len()),
            ) else {
                continue;
            };
            out.text.push_str(name);
            out.text.push_str(module);
            out.symbols.push((address, at, length, module_length));
        }
        // Of several names for one address the first of the file counts.
        out.symbols.sort_by_key(|s| s.0);
        out.symbols.dedup_by_key(|s| s.0);
        out.symbols.shrink_to_fit();
        out.text.shrink_to_fit();
        Ok(out)
    }

    /// The address of the kernel's text.
    pub fn start(&self) -> Option<u64> {
        self.start
    }

    /// The function that an address is in.
    pub fn find(&self, address: u64) -> Option<KernelSymbol<'_>> {
        let after = self.symbols.partition_point(|s| s.0 <= address);
        let (start, at, length, module) = *self.symbols.get(after.checked_sub(1)?)?;
        let at = at as usize;
        let middle = at.checked_add(usize::from(length))?;
        Some(KernelSymbol {
            name: self.text.get(at..middle)?,
            module: self.text.get(middle..middle + usize::from(module))?,
            offset: address - start,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_functions() {
        let rows = "ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000100 t do_work\n\
                    ffffffff81000180 d a_table\nffffffffc0000000 t probe\t[some_module]\nbroken\n\n";
        let k = Kallsyms::read(rows.as_bytes()).unwrap();
        assert_eq!(k.start(), Some(0xffff_ffff_8100_0000));
        assert_eq!(k.find(0xffff_ffff_8000_0000), None);
        let found = k.find(0xffff_ffff_8100_01ff).unwrap();
        assert_eq!(
            (found.name, found.module, found.offset),
            ("do_work", "", 0xff)
        );
        let found = k.find(0xffff_ffff_c000_0004).unwrap();
        assert_eq!((found.name, found.module), ("probe", "some_module"));
        assert_eq!(k.find(0xffff_ffff_8100_0000).unwrap().name, "_stext");
    }

    #[test]
    fn hidden_addresses_are_no_functions() {
        let k = Kallsyms::read("0000000000000000 T _text\n".as_bytes()).unwrap();
        assert!(k.symbols.is_empty() && k.start().is_none());
    }
}
