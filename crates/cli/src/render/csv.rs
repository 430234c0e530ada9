//! Comma-separated values (RFC 4180; lines end with LF as Unix tools expect).

use std::io::{self, Write};

/// Writes one record; cells with commas, quotes or line ends are quoted.
pub(crate) fn row<T: AsRef<str>>(
    out: &mut dyn Write,
    cells: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    let mut line = String::new();
    for (index, cell) in cells.into_iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        let cell = cell.as_ref();
        if cell.contains([',', '"', '\n', '\r']) {
            line.push('"');
            line.push_str(&cell.replace('"', "\"\""));
            line.push('"');
        } else {
            line.push_str(cell);
        }
    }
    line.push('\n');
    out.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn cells_are_quoted_where_they_must() {
        let mut out = Vec::new();
        super::row(&mut out, ["a", "b,c", "d\"e", ""]).unwrap();
        assert_eq!(out, b"a,\"b,c\",\"d\"\"e\",\n");
    }
}
