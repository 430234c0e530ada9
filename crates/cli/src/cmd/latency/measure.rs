//! Runs the command and reports.

use truecount_engine::virt::Watched;

use super::{Args, document, html, text};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Picture, programs_stdout};
use crate::render::{self, charts::Frame};
use truecount_run::latency::{self, Timed};
use truecount_run::runner::{Launch, Signals, resolve};
use truecount_run::source::virtual_pmu;

/// Measures, then writes what was asked for: the result first.
pub(crate) fn run(args: &Args) -> CmdResult {
    virtual_pmu::available().map_err(|reason| {
        Failure::new(
            1,
            format!("latency needs the virtual PMU: {}", reason.cause),
        )
        .hint("record branch stacks where the CPU has them: truecount record -b -- CMD")
    })?;
    let Some(first) = args.command.first() else {
        return Err(Failure::new(2, "no command to time")
            .hint("write it after --, as in: truecount latency work -- ./program"));
    };
    if args.blocks.len() > Watched::MAX {
        return Err(Failure::new(
            2,
            format!(
                "{} blocks: at most {} at a time",
                args.blocks.len(),
                Watched::MAX
            ),
        )
        .hint("time the others in another run"));
    }
    let program = resolve(first)?;
    let timed = args.binary.as_deref().unwrap_or(&program);
    let intervals = args
        .blocks
        .iter()
        .map(|spec| latency::parse(spec, timed))
        .collect::<Result<Vec<_>, _>>()?;
    let watched = Watched::new(timed, &intervals).map_err(|error| {
        Failure::new(1, format!("cannot time {}: {error}", timed.display()))
            .hint("if CMD is a script or a wrapper, name the program with --binary PATH")
    })?;
    // Read and opened before the run: a wrong path must not cost one.
    let other = match &args.compare {
        Some(path) => Some(document::read(path)?),
        None => None,
    };
    let mut out = Output::result(args.json.as_deref(), args.output.as_deref(), true)?;
    let svg = Picture::create(args.svg.as_deref())?;
    let page = Picture::create(args.html.as_deref())?;
    let moved = programs_stdout(args.json.as_deref(), args.output.as_deref())?;
    let launch = Launch {
        argv: &args.command,
        stdio: [None, moved.as_ref(), None],
        ..Launch::default()
    };
    // Not before: Ctrl-C ends the reading of a large program's symbols at once.
    let signals = Signals::block()
        .map_err(|error| Failure::new(125, format!("cannot block signals: {error}")))?;
    let ran = virtual_pmu::execute_timed(&signals, &program, &launch, watched)?;
    let times = ran.executed.times.clone().unwrap_or_default();
    let mut run = Timed::new(&args.blocks, &intervals, &times);
    for row in &mut run.rows {
        row.loads = latency::loads(timed, &row.at);
    }
    run.command = truecount_run::runner::command_line(&args.command);
    run.program = timed.display().to_string();
    run.exit = ran.exit().shell_code();
    run.notes = notes(&run, ran.virtual_notes());
    let other = other.as_ref();
    // The result first: a picture that fails must not cost it.
    let shown = if args.json.is_some() {
        render::json::write(&mut out, &document::of(&run, other))
    } else {
        text::print(&mut out, &run, other)
    };
    let picture = svg.map_or(Ok(()), |svg| match run.rows.first() {
        Some(row) if !row.cycles.is_empty() => {
            svg.write(&html::draw(&run, row, 0, other, Frame::File))
        }
        _ => Err(Failure::new(
            1,
            "no chart: the block was never executed twice",
        )),
    });
    let page = page.map_or(Ok(()), |page| page.write(&html::page(&run, other)));
    Failure::of_all([shown.map_err(Failure::from), picture, page])?;
    Ok(Outcome(run.exit))
}

/// What a reader must know.
fn notes(run: &Timed, mut notes: Vec<String>) -> Vec<String> {
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
