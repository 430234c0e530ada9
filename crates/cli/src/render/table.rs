//! Text tables: columns as wide as their widest cell, styles not counted.

use std::io::{self, Write};

use anstyle::Style;

/// Which side the text of a column keeps to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A cell and its style.
#[derive(Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            style: Style::new(),
        }
    }

    pub(crate) fn styled(style: Style, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// A table to be printed.
pub(crate) struct Table {
    head: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(head: [(&str, Align); N]) -> Self {
        Self {
            head: head.map(|(name, align)| (name.to_owned(), align)).to_vec(),
            rows: Vec::new(),
        }
    }

    /// A table whose columns are known only at run time.
    pub(crate) fn of(head: Vec<(String, Align)>) -> Self {
        Self {
            head,
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Writes the table; columns in which every cell is empty are left out.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.text.chars().count())
                .max()
                .unwrap_or(0)
        };
        let columns: Vec<(usize, usize, Align)> = self
            .head
            .iter()
            .enumerate()
            .filter(|(index, _)| width(*index) > 0)
            .map(|(index, (name, align))| (index, width(index).max(name.chars().count()), *align))
            .collect();
        let head: Vec<Cell> = self
            .head
            .iter()
            .map(|(name, _)| Cell::styled(super::style::DIM, name.clone()))
            .collect();
        let titled = self.head.iter().any(|(name, _)| !name.is_empty());
        for row in titled.then_some(&head).into_iter().chain(&self.rows) {
            let mut line = String::new();
            let mut blanks = 0;
            for &(index, width, align) in &columns {
                let empty = Cell::new("");
                let cell = row.get(index).unwrap_or(&empty);
                let gap = width - cell.text.chars().count().min(width);
                blanks += 2;
                if align == Align::Right {
                    blanks += gap;
                }
                if !cell.text.is_empty() {
                    line.extend(std::iter::repeat_n(' ', blanks));
                    blanks = 0;
                    let style = cell.style;
                    line.push_str(&format!("{style}{}{style:#}", cell.text));
                }
                if align == Align::Left {
                    blanks += gap;
                }
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

/// Names of templates can fill pages; the middle is left out.
pub(crate) fn fitted(name: &str) -> String {
    const MAX_CHARS: usize = 80;
    let len = name.chars().count();
    if len <= MAX_CHARS {
        return name.to_owned();
    }
    let head: String = name.chars().take(MAX_CHARS / 2).collect();
    let tail: String = name.chars().skip(len - MAX_CHARS / 2 + 1).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_ones_vanish() {
        let mut table = Table::new([
            ("value", Align::Right),
            ("name", Align::Left),
            ("none", Align::Left),
            ("last", Align::Left),
        ]);
        table.row(vec!["1".into(), "aaaaaa".into(), "".into(), "x".into()]);
        table.row(vec!["1,000".into(), "é".into(), "".into(), "".into()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let mut stripped = Vec::new();
        anstream::StripStream::new(&mut stripped)
            .write_all(&out)
            .unwrap();
        assert_eq!(
            String::from_utf8(stripped).unwrap(),
            "  value  name    last\n      1  aaaaaa  x\n  1,000  é\n"
        );
    }
}
