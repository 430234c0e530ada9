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
    /// Names are not shortened: they are copied.
    whole: bool,
}

/// The last column is not broken into narrower lines than this.
const NARROWEST_LAST: usize = 16;

/// No name is shortened to less: before that a row takes several lines.
const SHORTEST_NAME: usize = 24;

/// What does not fit into the first line of a row stands this far in.
const CONTINUED: usize = 4;

/// A column that is shown: index, width, side.
type Column = (usize, usize, Align);

impl Table {
    pub(crate) fn new<'a>(head: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        let head = head.into_iter();
        Self {
            head: head.map(|(name, align)| (name.to_owned(), align)).collect(),
            rows: Vec::new(),
            window: None,
            spare: Vec::new(),
            whole: false,
        }
    }

    /// A table whose columns are known only at run time.
    pub(crate) fn of(head: Vec<(String, Align)>) -> Self {
        Self {
            head,
            rows: Vec::new(),
            window: None,
            spare: Vec::new(),
            whole: false,
        }
    }

    /// Fits the table into a window: the text of its last column is broken at words, and where that does not suffice
    /// the columns with these headings are left out, the first one first.
    pub(crate) fn within(mut self, window: Option<usize>, spare: &[&'static str]) -> Self {
        self.window = window;
        self.spare = spare.to_vec();
        self
    }

    /// Leaves names whole, for who copies them.
    pub(crate) fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The columns that are shown. Those in which every cell is empty are left out.
    fn columns(&self, window: Option<usize>) -> Vec<Column> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max()
        };
        let mut columns: Vec<Column> = self
            .head
            .iter()
            .enumerate()
            .map(|(index, (name, align))| (index, width(index).unwrap_or(0), name, *align))
            .filter(|(_, width, _, _)| *width > 0)
            .map(|(index, width, name, align)| (index, width.max(name.chars().count()), align))
            .collect();
        let Some(window) = window else {
            return columns;
        };
        // What the last column may have: all that the others leave.
        let last = |columns: &[Column]| -> Option<(usize, usize)> {
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
        // Names give way, the widest first, where that suffices.
        let mut shorter = columns.clone();
        while total(&shorter) > window && last(&shorter).is_none() && !self.whole {
            let names = shorter.iter_mut().rev().skip(1);
            let widest = names.filter(|c| c.2 == Align::Left).max_by_key(|c| c.1);
            let Some(widest) = widest.filter(|c| c.1 > SHORTEST_NAME) else {
                break;
            };
            widest.1 -= 1;
        }
        if total(&shorter) <= window || last(&shorter).is_some() {
            columns = shorter;
        }
        if let (Some((width, left)), Some(column)) = (last(&columns), columns.last_mut()) {
            column.1 = width.min(left);
        } else {
            for column in &mut columns {
                column.1 = column.1.min(window.saturating_sub(CONTINUED + 2));
            }
        }
        columns
    }

    /// Writes the table; columns in which every cell is empty are left out. In a window it is no wider than that: text is
    /// broken, names are shortened, and where that does not suffice a row takes several lines.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let window = self.window.or_else(super::width::columns);
        let columns = self.columns(window);
        let head: Vec<Cell> = self
            .head
            .iter()
            .map(|(name, _)| Cell::styled(super::style::DIM, name.clone()))
            .collect();
        let titled = self.head.iter().any(|(name, _)| !name.is_empty());
        let lines = lines_of_a_row(&columns, window);
        for row in titled.then_some(&head).into_iter().chain(&self.rows) {
            for (number, columns) in lines.iter().enumerate() {
                let empty = |(index, _, _): &Column| {
                    row.get(*index).is_none_or(|cell| cell.text.is_empty())
                };
                if number > 0 && columns.iter().all(empty) {
                    continue;
                }
                let indent = if number == 0 { 0 } else { CONTINUED };
                Self::write_line(out, row, columns, indent, window)?;
            }
        }
        Ok(())
    }

    /// One line of a row, and those that the text of its last column needs.
    fn write_line(
        out: &mut dyn Write,
        row: &[Cell],
        columns: &[Column],
        indent: usize,
        window: Option<usize>,
    ) -> io::Result<()> {
        let mut rest = match (window, columns.last()) {
            (Some(_), Some(&(index, width, Align::Left))) => row
                .get(index)
                .map(|cell| super::width::wrap(&cell.text, width))
                .filter(|lines| lines.len() > 1)
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        let first = (!rest.is_empty()).then(|| rest.remove(0));
        writeln!(out, "{}", line(row, columns, indent, first.as_deref()))?;
        for text in rest {
            let Some(&(last, _, _)) = columns.last() else {
                break;
            };
            let style = row.get(last).map_or(Style::new(), |cell| cell.style);
            let mut cells = vec![Cell::new(""); last];
            cells.push(Cell::styled(style, text));
            writeln!(out, "{}", line(&cells, columns, indent, None))?;
        }
        Ok(())
    }
}

/// How wide these columns are with the blanks before each.
fn total(columns: &[Column]) -> usize {
    columns.iter().map(|(_, width, _)| width + 2).sum()
}

/// The columns that stand in each line of a row: as many as fit.
fn lines_of_a_row(columns: &[Column], window: Option<usize>) -> Vec<Vec<Column>> {
    let mut lines: Vec<Vec<Column>> = vec![Vec::new()];
    let mut used = 0;
    for column in columns {
        let needs = column.1 + 2;
        if window.is_some_and(|window| used + needs > window) && used > 0 {
            lines.push(Vec::new());
            used = CONTINUED;
        }
        used += needs;
        if let Some(line) = lines.last_mut() {
            line.push(*column);
        }
    }
    lines
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

/// One line of a table; `last` stands for the text of the last column. What is wider than its column is shortened.
fn line(row: &[Cell], columns: &[Column], indent: usize, last: Option<&str>) -> String {
    let mut line = String::new();
    let mut blanks = indent;
    for (at, &(index, width, align)) in columns.iter().enumerate() {
        let (text, style) = match (row.get(index), last) {
            (Some(cell), Some(last)) if at + 1 == columns.len() => (last, cell.style),
            (Some(cell), _) => (cell.text.as_str(), cell.style),
            (None, _) => ("", Style::new()),
        };
        let text = &super::width::shortened(text, width);
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
