//! `truecount blocks --time`: chosen blocks of a program under the virtual PMU, by inline time stamps. For
//! machines without a PMU or branch stacks.

mod result;
mod spec;

use std::fmt::Write as _;
use std::io::{self, Write};

use truecount_engine::virt::Watched;
use truecount_sample::blocks::PrefetchWindow;

use super::chart::{Series, chart};
use super::view::{base_name, cycles, modes, percentiles};
use super::{Args, detail, html};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Picture};
use crate::render;
use crate::render::markup::escape;
use crate::render::style::{DIM, HEAD, paint};
use result::{Result as Run, Row};
use truecount_model::number::grouped;
use truecount_run::runner::{Launch, Signals, resolve};
use truecount_run::source::virtual_pmu;

/// Runs the command and reports.
pub(super) fn run(args: &Args) -> CmdResult {
    virtual_pmu::available().map_err(|reason| Failure::new(1, reason.to_string()))?;
    let Some(first) = args.command.first() else {
        return Err(Failure::new(2, "no command to time")
            .hint("write it after --, as in: truecount blocks --time work -- ./program"));
    };
    if args.time.len() > Watched::MAX {
        return Err(
            Failure::new(2, format!("--time can be given {} times", Watched::MAX))
                .hint("time the others in another run"),
        );
    }
    let signals = Signals::block()
        .map_err(|error| Failure::new(125, format!("cannot block signals: {error}")))?;
    let program = resolve(first)?;
    let timed = args.binary.as_deref().unwrap_or(&program);
    let intervals = args
        .time
        .iter()
        .map(|spec| spec::parse(spec, timed))
        .collect::<Result<Vec<_>, Failure>>()?;
    let watched = Watched::new(timed, &intervals).map_err(|error| {
        Failure::new(1, format!("cannot time {}: {error}", timed.display()))
            .hint("if CMD is a script or a wrapper, name the program with --binary PATH")
    })?;
    // Read and opened before the run: a wrong path must not cost one.
    let other = match &args.compare {
        Some(path) => Some(Run::read(path)?),
        None => None,
    };
    let mut out = Output::open(args.output.as_deref(), true)?;
    let svg = Picture::create(args.svg.as_deref())?;
    let page = Picture::create(args.html.as_deref())?;
    let launch = Launch {
        argv: &args.command,
        stdio: [None, None, None],
        cpus: &[],
        keep_aslr: false,
        own_group: false,
        timeout: None,
        fixed: None,
    };
    let ran = virtual_pmu::execute_timed(&signals, &program, &launch, watched)?;
    let times = ran.times.clone().unwrap_or_default();
    let mut run = Run::new(&args.time, &intervals, &times);
    run.command = truecount_run::runner::command_line(&args.command);
    run.program = timed.display().to_string();
    run.exit = ran.ended.exit.shell_code();
    run.notes = notes(&run, ran.notes());
    let other = other.as_ref();
    // The result first: a picture that fails must not cost it.
    let shown = if args.json {
        render::json::write(&mut out, &run.document(other))
    } else {
        print(&mut out, &run, other)
    };
    let picture = svg.map_or(Ok(()), |svg| match run.rows.first() {
        Some(row) if !row.cycles.is_empty() => svg.write(&draw(&run, row, 0, other)),
        _ => Err(Failure::new(
            1,
            "no chart: the block was never executed twice",
        )),
    });
    let page = page.map_or(Ok(()), |page| page.write(&html_page(&run, other)));
    Failure::of_all([shown.map_err(Failure::from), picture, page])?;
    Ok(Outcome(run.exit))
}

/// What a reader must know.
fn notes(run: &Run, mut notes: Vec<String>) -> Vec<String> {
    if run.processes == 0 {
        notes.push(format!(
            "{} was not executed under the virtual PMU: nothing was timed.",
            run.program
        ));
    } else {
        for row in run
            .rows
            .iter()
            .filter(|r| r.cycles.is_empty() && r.longer == 0)
        {
            notes.push(format!(
                "{}: no interval was completed. Is {:#x} the start of an instruction that is executed{}?",
                row.name,
                row.at.start,
                match row.at.end {
                    Some(end) => format!(", and {end:#x} after it"),
                    None => " more than once".to_owned(),
                }
            ));
        }
    }
    if run.exit != 0 {
        notes.push(format!("The program ended with status {}.", run.exit));
    }
    notes
}

/// The command, short enough for a legend.
fn label(run: &Run) -> String {
    let mut words = run.command.split(' ');
    let first = base_name(words.next().unwrap_or_default()).to_owned();
    let text = words.fold(first, |all, word| all + " " + word);
    match text.char_indices().nth(28) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text,
    }
}

/// The earlier run first, as in a story.
fn draw(run: &Run, row: &Row, at: usize, other: Option<&Run>) -> String {
    let before = other.and_then(|other| Some((other, other.like(&row.name, at)?)));
    let series: Vec<Series> = before
        .into_iter()
        .chain([(run, row)])
        .map(|(run, row)| Series {
            name: label(run),
            median: row.cycles.percentile(0.5),
            cycles: row.smooth(run.step()),
        })
        .collect();
    chart(&format!("{}: TSC cycles", title(row)), &series, 960, 420)
}

fn title(row: &Row) -> String {
    match row.at.end {
        None => format!("{}, from one execution to the next", row.name),
        Some(_) => row.name.clone(),
    }
}

fn cost(run: &Run) -> String {
    match run.cost {
        Some(c) => format!(
            "the stamps' own time is subtracted: {} cycles (median of {} empty intervals, 80 % in {} to {}); the counter \
             advances by {} at a time: modes and bars are spread over that",
            c.cycles,
            grouped(c.measured),
            c.p10,
            c.p90,
            c.step
        ),
        None => "the stamps' own time is not known and not subtracted".to_owned(),
    }
}

fn print(out: &mut dyn Write, run: &Run, other: Option<&Run>) -> io::Result<()> {
    writeln!(out, "{}  {}", paint(HEAD, "TIMED"), run.command)?;
    writeln!(
        out,
        "  {}",
        paint(
            DIM,
            "TSC cycles between inline time stamps under the virtual PMU; each waits for what came before"
        )
    )?;
    writeln!(out, "  {}", paint(DIM, &cost(run)))?;
    for (at, row) in run.rows.iter().enumerate() {
        writeln!(out, "\n{}  {:#x}", paint(HEAD, &title(row)), row.at.start)?;
        let total = row.cycles.total().saturating_add(row.longer);
        writeln!(out, "  {} timed", grouped(total))?;
        if row.longer > 0 {
            writeln!(
                out,
                "  {} of 65535 cycles or more (counted, not in the histogram)",
                grouped(row.longer)
            )?;
        }
        if row.below_cost > 0 {
            writeln!(
                out,
                "  {} took no longer than the stamps themselves (shown as 1 cycle)",
                grouped(row.below_cost)
            )?;
        }
        if let [Some(p50), Some(p90), Some(p99)] = percentiles(&row.cycles) {
            writeln!(
                out,
                "  cycles p50 {p50}, p90 {p90}, p99 {p99}; modes {}\n",
                modes(&row.smooth(run.step()).modes())
            )?;
            detail::bars(out, &row.smooth(run.step()))?;
        }
        if let Some(w) = PrefetchWindow::of(&row.smooth(run.step()), row.at.end.is_none()) {
            writeln!(
                out,
                "\n  Between the first mode ({}) and the costliest later one ({}): {} cycles, which a prefetch could win if they are cache misses.",
                cycles(w.base),
                cycles(w.miss),
                cycles(w.window)
            )?;
        }
        if let Some(before) = other.and_then(|other| other.like(&row.name, at)) {
            let (a, b) = (&before.cycles, &row.cycles);
            if let (Some(mean_a), Some(mean_b)) = (a.mean(), b.mean()) {
                writeln!(
                    out,
                    "\n{}  {} → {}",
                    paint(HEAD, "COMPARED"),
                    other.map(label).unwrap_or_default(),
                    label(run)
                )?;
                let p = |q| (a.percentile(q).unwrap_or(0), b.percentile(q).unwrap_or(0));
                let ((a50, b50), (a90, b90)) = (p(0.5), p(0.9));
                writeln!(
                    out,
                    "  mean {} → {} cycles ({:+.1} %), p50 {a50} → {b50}, p90 {a90} → {b90}\n  modes {}  →  {}",
                    cycles(mean_a),
                    cycles(mean_b),
                    100.0 * (mean_b / mean_a - 1.0),
                    modes(&before.smooth(other.map_or(1, Run::step)).modes()),
                    modes(&row.smooth(run.step()).modes())
                )?;
            }
        }
    }
    for note in &run.notes {
        writeln!(out, "\n{note}")?;
    }
    out.flush()
}

fn html_page(run: &Run, other: Option<&Run>) -> String {
    let mut h = String::new();
    let title_text = format!("Timed blocks of {}", label(run));
    let _ = write!(
        h,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title><style>{1}</style><h1>{0}</h1>\
         <p class=\"sub\">{2}<br>TSC cycles between inline time stamps under the virtual PMU; {3}</p>",
        escape(&title_text),
        html::STYLE,
        escape(&run.command),
        escape(&cost(run))
    );
    for (at, row) in run.rows.iter().enumerate() {
        let _ = write!(h, "<h2><code>{}</code></h2>", escape(&title(row)));
        if !row.cycles.is_empty() {
            h.push_str(&draw(run, row, at, other));
        }
        h.push_str("<table><tr><th>run<th class=n>timed<th class=n>p50<th class=n>p90<th class=n>p99<th>modes<th class=n>65535 or more</tr>");
        let before = other.and_then(|other| Some((other, other.like(&row.name, at)?)));
        for (run, row) in before.into_iter().chain([(run, row)]) {
            let [p50, p90, p99] =
                percentiles(&row.cycles).map(|p| p.map_or(String::new(), |p| p.to_string()));
            let _ = write!(
                h,
                "<tr><td>{}<td class=n>{}<td class=n>{p50}<td class=n>{p90}<td class=n>{p99}<td>{}<td class=n>{}</tr>",
                escape(&label(run)),
                grouped(row.cycles.total().saturating_add(row.longer)),
                modes(&row.smooth(run.step()).modes()),
                grouped(row.longer)
            );
        }
        h.push_str("</table>");
    }
    for note in &run.notes {
        let _ = write!(h, "<p class=\"warn\">{}</p>", escape(note));
    }
    h.push_str("</html>\n");
    h
}
