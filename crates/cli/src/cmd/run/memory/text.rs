//! Facts of memory, a model's and the order of references as text.

use std::io::{self, Write};

use truecount_model::number::grouped;
use truecount_run::functions::base_name;
use truecount_run::references::{
    CodeMemory, DataPlace, FunctionLocality, Locality, Memory, Model, SharedLine,
};

use crate::render::style::{HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};

/// Rows that a table shows.
const SHOWN: usize = 10;

fn heads() -> Table {
    Table::new([
        ("value", Align::Right),
        ("memory", Align::Left),
        ("source", Align::Left),
        ("", Align::Left),
    ])
}

/// Prints facts and model.
pub(in crate::cmd::run) fn write(
    out: &mut dyn Write,
    memory: &Memory,
    precision: &str,
) -> io::Result<()> {
    let facts = &memory.facts;
    let whole = memory.missing.is_empty() && memory.lost == 0;
    let precision = if whole { precision } else { "at least" };
    let mut table = heads();
    let rows = [
        (facts.totals.loads, "loads", "references that read"),
        (facts.totals.load_bytes, "load-bytes", "bytes read"),
        (facts.totals.stores, "stores", "references that write"),
        (facts.totals.store_bytes, "store-bytes", "bytes written"),
        (
            facts.lines_touched,
            "lines-touched",
            "distinct, of 64 bytes",
        ),
        (facts.lines_written, "lines-written", ""),
        (
            facts.pages_touched,
            "pages-touched",
            "distinct, of 4,096 bytes",
        ),
        (
            facts.totals.line_splits,
            "line-splits",
            "references in two lines",
        ),
        (facts.totals.page_splits, "page-splits", "in two pages"),
        (
            facts.totals.unaligned,
            "unaligned",
            "no multiple of their size",
        ),
        (facts.taken_branches, "taken-branches", ""),
    ];
    for (value, name, what) in rows {
        let precision = match what {
            "" => precision.to_owned(),
            what => format!("{precision}: {what}"),
        };
        table.row(vec![
            grouped(value).into(),
            Cell::styled(HEAD, name.to_owned()),
            "virtual".into(),
            precision.into(),
        ]);
    }
    table.write(out)?;
    writeln!(out)?;
    for missing in &memory.missing {
        let line = format!(
            "not in these: {} ({} instructions)",
            missing.what,
            grouped(missing.instructions)
        );
        writeln!(out, "{}", paint(WARN, &line))?;
    }
    if memory.lost != 0 {
        let line = format!(
            "not in these: {} part(s) of what threads noted, which nobody could read",
            memory.lost
        );
        writeln!(out, "{}", paint(WARN, &line))?;
    }
    if !whole {
        writeln!(out)?;
    }
    if let Some(model) = &memory.model {
        write_model(out, model)?;
    }
    write_places(out, memory)?;
    write_data(out, memory)?;
    if let Some(lines) = &memory.sharing {
        write_sharing(out, lines)?;
    }
    if let Some(locality) = &memory.locality {
        write_locality(out, locality)?;
    }
    Ok(())
}

/// Functions and lines: those with the most misses, or without a model those with the most bytes, first.
fn write_places(out: &mut dyn Write, memory: &Memory) -> io::Result<()> {
    let modelled = memory.model.is_some();
    let heads = |place| {
        let counts = match modelled {
            true => ["l1d-misses", "lld-misses", "mispredicts"],
            false => ["load-bytes", "store-bytes", "taken-branches"],
        };
        let counts = counts.map(|name| (name, Align::Right));
        let places = [(place, Align::Left)];
        Table::new(counts.into_iter().chain(places))
    };
    let counts = |of: &CodeMemory| -> Vec<Cell> {
        let counts = match &of.model {
            Some(model) => [model.l1d_misses, model.lld_misses, model.mispredicted],
            None => [
                of.totals.load_bytes,
                of.totals.store_bytes,
                of.taken_branches,
            ],
        };
        counts.map(|count| grouped(count).into()).into()
    };
    let named = |module: &str, function: &str| format!("{function}  {}", base_name(module));
    let mut table = heads("function");
    for function in memory.functions.iter().take(SHOWN) {
        let mut cells = counts(&function.of);
        cells.push(named(&function.module, &function.function).into());
        table.row(cells);
    }
    if !memory.functions.is_empty() {
        table.write(out)?;
        writeln!(out)?;
    }
    let mut table = heads("line");
    let mut known = memory.lines.iter().filter(|line| line.line != 0).peekable();
    if known.peek().is_none() {
        return Ok(());
    }
    for line in known.take(SHOWN) {
        let mut cells = counts(&line.of);
        let place = format!("{}:{}", base_name(&line.file), line.line);
        cells.push(format!("{place}  {}", line.function).into());
        table.row(cells);
    }
    table.write(out)?;
    writeln!(out)
}

/// Whose data a line is.
fn whose(data: &DataPlace) -> String {
    match data.symbols.as_slice() {
        [] => base_name(&data.module).to_owned(),
        symbols => format!("{}  {}", symbols.join(", "), base_name(&data.module)),
    }
}

/// Whose data it was: that with the most misses, or without a model that with the most lines, first.
fn write_data(out: &mut dyn Write, memory: &Memory) -> io::Result<()> {
    let Some(first) = memory.data.first() else {
        return Ok(());
    };
    let modelled = ["l1d-misses", "lld-misses"];
    let modelled = modelled.iter().filter(|_| first.model.is_some());
    let counts = modelled.chain(&["lines-touched", "lines-written"]);
    let counts = counts.map(|name| (*name, Align::Right));
    let mut table = Table::new(counts.chain([("data", Align::Left)]));
    for of in memory.data.iter().take(SHOWN) {
        let misses = of.model.iter();
        let misses = misses.flat_map(|model| [model.l1d_misses, model.lld_misses]);
        let counts = misses.chain([of.lines_touched, of.lines_written]);
        let mut cells: Vec<Cell> = counts.map(|count| grouped(count).into()).collect();
        let name = match (&of.allocated, of.symbol.as_str()) {
            (Some(site), _) => format!("{}  {}", site.blocks_text(), of.module),
            (None, "") => base_name(&of.module).to_owned(),
            (None, symbol) => format!("{symbol}  {}", base_name(&of.module)),
        };
        cells.push(name.into());
        table.row(cells);
    }
    table.write(out)?;
    if let Some(beyond) = memory
        .heap
        .map(|heap| heap.beyond)
        .filter(|&beyond| beyond != 0)
    {
        let beyond = grouped(beyond);
        writeln!(
            out,
            "{beyond} blocks of the heap are [other]: there were too many at the same time"
        )?;
    }
    writeln!(out)
}

fn share(part: u64, of: u64) -> String {
    match of {
        0 => String::new(),
        of => format!("{:.2} %", 100.0 * part as f64 / of as f64),
    }
}

fn write_model(out: &mut dyn Write, model: &Model) -> io::Result<()> {
    let mut table = heads();
    let mut row = |value: u64, name: &str, note: String| {
        table.row(vec![
            grouped(value).into(),
            Cell::styled(HEAD, name.to_owned()),
            model.source.into(),
            note.into(),
        ]);
    };
    let (i, r, w) = (&model.instructions, &model.reads, &model.writes);
    let data = r.references + w.references;
    let (d1, ll) = (r.l1_misses + w.l1_misses, r.ll_misses + w.ll_misses);
    row(i.l1_misses, "l1i-misses", share(i.l1_misses, i.references));
    row(i.ll_misses, "lli-misses", share(i.ll_misses, i.references));
    row(d1, "l1d-misses", share(d1, data));
    if let Some(l2) = &model.l2 {
        let (instructions, l2d) = (l2.instruction_misses, l2.data_misses);
        row(
            instructions,
            "l2i-misses",
            share(instructions, i.references),
        );
        row(l2d, "l2d-misses", share(l2d, data));
    }
    row(ll, "lld-misses", share(ll, data));
    if let Some(tlb) = &model.tlb {
        row(tlb.data_misses, "dtlb-misses", share(tlb.data_misses, data));
    }
    if let Some(itlb) = &model.itlb {
        let misses = itlb.instruction_misses;
        row(misses, "itlb-misses", share(misses, i.references));
    }
    if let Some(prefetch) = &model.prefetch {
        let note = format!("{} from memory", grouped(prefetch.from_memory));
        row(prefetch.lines, "prefetched-lines", note);
    }
    let branches = [
        (model.conditional, "conditional-mispredicts"),
        (model.indirect, "indirect-mispredicts"),
    ];
    for (predicted, name) in branches {
        let note = share(predicted.mispredicted, predicted.branches);
        row(predicted.mispredicted, name, note);
    }
    row(
        model.estimated_cycles,
        "estimated-cycles",
        "gungraun's and CodSpeed's formula".to_owned(),
    );
    table.write(out)?;
    writeln!(
        out,
        "a model after {} rules ({}), one set of caches a thread: not what this CPU did",
        model.rules,
        model.sizes()
    )?;
    writeln!(out)
}

fn write_sharing(out: &mut dyn Write, lines: &[SharedLine]) -> io::Result<()> {
    if lines.is_empty() {
        return writeln!(out, "no line that one thread writes is used by another\n");
    }
    let mut table = Table::new([
        ("references", Align::Right),
        ("line", Align::Left),
        ("shared", Align::Left),
        ("data", Align::Left),
        ("threads: bytes", Align::Left),
    ]);
    for line in lines.iter().take(SHOWN) {
        let threads: Vec<String> = line
            .threads
            .iter()
            .map(|thread| {
                let used = thread.read | thread.written;
                format!(
                    "{}: {}{}",
                    thread.tid,
                    ranges(used),
                    if thread.written == 0 { " (reads)" } else { "" }
                )
            })
            .collect();
        table.row(vec![
            grouped(line.references).into(),
            Cell::styled(HEAD, format!("{:#x}", line.address)),
            match line.false_sharing {
                true => Cell::styled(WARN, "the line only".to_owned()),
                false => "data".into(),
            },
            line.data.as_ref().map_or_else(String::new, whose).into(),
            threads.join("; ").into(),
        ]);
    }
    table.write(out)?;
    if let Some(more) = lines.len().checked_sub(SHOWN).filter(|&more| more > 0) {
        writeln!(out, "… and {more} more lines: --json has them")?;
    }
    writeln!(out)
}

/// Functions by the order of their references.
fn write_orders(out: &mut dyn Write, functions: &[FunctionLocality]) -> io::Result<()> {
    if functions.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([
        ("touches", Align::Right),
        ("beyond 32 KiB", Align::Right),
        ("references", Align::Right),
        ("stride: 0", Align::Right),
        ("next", Align::Right),
        ("as before", Align::Right),
        ("another", Align::Right),
        ("function", Align::Left),
    ]);
    for function in functions.iter().take(SHOWN) {
        let (order, strides) = (&function.order, &function.order.strides);
        let another = strides.changing + strides.first;
        let followed = [strides.same, strides.next, strides.constant, another];
        let references: u64 = followed.iter().sum();
        let mut cells: Vec<Cell> = vec![
            grouped(order.touches).into(),
            share(order.far(), order.touches).into(),
            grouped(references).into(),
        ];
        cells.extend(followed.map(|count| share(count, references).into()));
        let name = format!("{}  {}", function.function, base_name(&function.module));
        cells.push(name.into());
        table.row(cells);
    }
    table.write(out)?;
    let what = "beyond 32 KiB: of lines that 512 others or more were touched after, or that were never touched before";
    writeln!(out, "{what}")?;
    writeln!(out)
}

/// The order of references: distances of reuse, strides, working sets.
fn write_locality(out: &mut dyn Write, locality: &Locality) -> io::Result<()> {
    let mut table = Table::new([
        ("touches", Align::Right),
        ("of lines used last", Align::Left),
        ("up to here", Align::Right),
        ("a cache of", Align::Right),
    ]);
    let mut sum = 0;
    for reuse in &locality.reuse {
        sum += reuse.touches;
        let what = match (reuse.from, reuse.to) {
            (0, _) => "at once".to_owned(),
            (1, 1) => "1 other line ago".to_owned(),
            (from, to) => format!("{} to {} lines ago", grouped(from), grouped(to)),
        };
        table.row(vec![
            grouped(reuse.touches).into(),
            Cell::styled(HEAD, what),
            share(sum, locality.touches).into(),
            bytes((reuse.to + 1) * truecount_memory::LINE).into(),
        ]);
    }
    table.row(vec![
        grouped(locality.first_touches).into(),
        Cell::styled(HEAD, "never before".to_owned()),
        share(sum + locality.first_touches, locality.touches).into(),
        "".into(),
    ]);
    table.write(out)?;
    writeln!(
        out,
        "exact, for each thread alone: a cache of that size, least recently used line replaced, any line anywhere, has so many"
    )?;
    writeln!(out)?;
    let strides = &locality.strides;
    let mut table = Table::new([("references", Align::Right), ("stride", Align::Left)]);
    for (count, what) in [
        (
            strides.same,
            "0: where the instruction's operand was before",
        ),
        (strides.next, "next to it, on or back"),
        (strides.constant, "as far as the time before"),
        (strides.changing, "another"),
        (strides.first, "the operand's first"),
    ] {
        table.row(vec![
            grouped(count).into(),
            Cell::styled(HEAD, what.to_owned()),
        ]);
    }
    table.write(out)?;
    writeln!(out)?;
    write_orders(out, &locality.functions)?;
    let heads = [
        ("thread", Align::Right),
        ("whole windows of", Align::Right),
        ("lines: min", Align::Right),
        ("median", Align::Right),
        ("max", Align::Right),
        ("pages: min", Align::Right),
        ("median", Align::Right),
        ("max", Align::Right),
    ];
    let mut table = Table::new(heads);
    for set in locality.working_sets.iter().take(SHOWN) {
        let mut cells: Vec<Cell> = vec![
            set.tid.to_string().into(),
            format!("{} touches", grouped(set.window_touches)).into(),
        ];
        for counts in [&set.lines, &set.pages] {
            // The last window is a short one.
            let whole = counts.len().saturating_sub(1).max(1);
            let mut sorted: Vec<u32> = counts.iter().copied().take(whole).collect();
            sorted.sort_unstable();
            let middle = sorted.len() / 2;
            for count in [sorted.first(), sorted.get(middle), sorted.last()] {
                let count = count.copied().unwrap_or(0);
                cells.push(grouped(u64::from(count)).into());
            }
        }
        table.row(cells);
    }
    table.write(out)?;
    writeln!(out)
}

/// A power of two of bytes.
fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..0x10_0000 => format!("{} KiB", count >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", count >> 20),
        _ => format!("{} GiB", count >> 30),
    }
}

/// Which bytes of a line: `0-7, 16-23`.
fn ranges(bits: u64) -> String {
    let mut ranges: Vec<String> = Vec::new();
    let mut at = 0;
    while at < 64 {
        let rest = bits >> at;
        if rest == 0 {
            break;
        }
        let first = at + rest.trailing_zeros();
        let length = (bits >> first).trailing_ones();
        let last = first + length - 1;
        ranges.push(match length {
            1 => first.to_string(),
            _ => format!("{first}-{last}"),
        });
        at = last + 1;
    }
    ranges.join(", ")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn bytes_of_a_line() {
        assert_eq!(ranges(0), "");
        assert_eq!(ranges(0xff), "0-7");
        assert_eq!(ranges(1 << 63 | 1 << 5 | 0x300), "5, 8-9, 63");
        assert_eq!(ranges(u64::MAX), "0-63");
    }
}
