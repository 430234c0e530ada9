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
    /// Columns of the window, where the table has to fit one.
    window: Option<usize>,
    /// Headings of columns that may be left out, the first one first.
    spare: Vec<&'static str>,
}

/// The last column is not broken into narrower lines than this.
const NARROWEST_LAST: usize = 16;

impl Table {
    pub(crate) fn new<'a>(head: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        let head = head.into_iter();
        Self {
            head: head.map(|(name, align)| (name.to_owned(), align)).collect(),
            rows: Vec::new(),
            window: None,
            spare: Vec::new(),
        }
    }

    /// A table whose columns are known only at run time.
    pub(crate) fn of(head: Vec<(String, Align)>) -> Self {
        Self {
            head,
            rows: Vec::new(),
            window: None,
            spare: Vec::new(),
        }
    }

    /// Fits the table into a window: the text of its last column is broken at words, and where that does not suffice
    /// the columns with these headings are left out, the first one first.
    pub(crate) fn within(mut self, window: Option<usize>, spare: &[&'static str]) -> Self {
        self.window = window;
        self.spare = spare.to_vec();
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The columns that are shown: index, width, side. Those in which every cell is empty are left out.
    fn columns(&self) -> Vec<(usize, usize, Align)> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max()
        };
        let mut columns: Vec<(usize, usize, Align)> = self
            .head
            .iter()
            .enumerate()
            .map(|(index, (name, align))| (index, width(index).unwrap_or(0), name, *align))
            .filter(|(_, width, _, _)| *width > 0)
            .map(|(index, width, name, align)| (index, width.max(name.chars().count()), align))
            .collect();
        let Some(window) = self.window else {
            return columns;
        };
        let total = |columns: &[(usize, usize, Align)]| -> usize {
            columns.iter().map(|(_, width, _)| width + 2).sum()
        };
        // What the last column may have: all that the others leave.
        let last = |columns: &[(usize, usize, Align)]| -> Option<(usize, usize)> {
            let (_, width, align) = *columns.last()?;
            let others = total(columns) - width - 2;
            let left = window.saturating_sub(others + 2);
            (align == Align::Left && left >= NARROWEST_LAST.min(width)).then_some((width, left))
        };
        for name in &self.spare {
            if total(&columns) <= window || last(&columns).is_some() {
                break;
            }
            let named = |index: usize| self.head.get(index).is_some_and(|(head, _)| head == name);
            columns.retain(|(index, _, _)| !named(*index));
        }
        if let (Some((width, left)), Some(column)) = (last(&columns), columns.last_mut()) {
            column.1 = width.min(left);
        }
        columns
    }

    /// Writes the table; columns in which every cell is empty are left out.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let columns = self.columns();
        let head: Vec<Cell> = self
            .head
            .iter()
            .map(|(name, _)| Cell::styled(super::style::DIM, name.clone()))
            .collect();
        let titled = self.head.iter().any(|(name, _)| !name.is_empty());
        for row in titled.then_some(&head).into_iter().chain(&self.rows) {
            let mut rest = match (self.window, columns.last()) {
                (Some(_), Some(&(index, width, Align::Left))) => row
                    .get(index)
                    .map(|cell| super::width::wrap(&cell.text, width))
                    .filter(|lines| lines.len() > 1)
                    .unwrap_or_default(),
                _ => Vec::new(),
            };
            let first = (!rest.is_empty()).then(|| rest.remove(0));
            writeln!(out, "{}", line(row, &columns, first.as_deref()))?;
            for text in rest {
                let Some(&(last, _, _)) = columns.last() else {
                    break;
                };
                let style = row.get(last).map_or(Style::new(), |cell| cell.style);
                let mut cells = vec![Cell::new(""); last];
                cells.push(Cell::styled(style, text));
                writeln!(out, "{}", line(&cells, &columns, None))?;
            }
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

/// One line of a table; `last` stands for the text of the last column.
fn line(row: &[Cell], columns: &[(usize, usize, Align)], last: Option<&str>) -> String {
    let mut line = String::new();
    let mut blanks = 0;
    for (at, &(index, width, align)) in columns.iter().enumerate() {
        let (text, style) = match (row.get(index), last) {
            (Some(cell), Some(last)) if at + 1 == columns.len() => (last, cell.style),
            (Some(cell), _) => (cell.text.as_str(), cell.style),
            (None, _) => ("", Style::new()),
        };
        let gap = width.saturating_sub(text.chars().count());
        blanks += 2;
        if align == Align::Right {
            blanks += gap;
        }
        if !text.is_empty() {
            line.extend(std::iter::repeat_n(' ', blanks));
            blanks = 0;
            line.push_str(&format!("{style}{text}{style:#}"));
        }
        if align == Align::Left {
            blanks += gap;
        }
    }
    line
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

    fn plain(table: &Table) -> String {
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let mut stripped = Vec::new();
        anstream::StripStream::new(&mut stripped)
            .write_all(&out)
            .unwrap();
        String::from_utf8(stripped).unwrap()
    }

    #[test]
    fn a_table_fits_its_window() {
        for window in [60, 70, 80, 100, 200] {
            let mut table = Table::new([
                ("metric", Align::Left),
                ("median", Align::Right),
                ("of instr.", Align::Right),
                ("min … max", Align::Left),
                ("source", Align::Left),
                ("", Align::Left),
            ])
            .within(Some(window), &["of instr.", "min … max", "source"]);
            table.row(vec![
                "instructions:u".into(),
                "1,234,567".into(),
                "12.34 %".into(),
                "1,234,560 … 1,234,999".into(),
                "virtual".into(),
                "2 modes: 40 % at 1,234,560, 60 % at 1,234,999, 2 outliers".into(),
            ]);
            let text = plain(&table);
            assert!(text.contains("1,234,567"), "{text}");
            assert!(text.contains("outliers"), "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= window, "{window}: {text}");
            }
            assert_eq!(text.contains("of instr."), window > 80, "{text}");
        }
    }
}
