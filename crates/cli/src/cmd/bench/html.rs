//! The result of `bench` as one self-contained page: distributions, comparisons, raw values, the
//! environment. No script and nothing from elsewhere.

use std::io::{self, Write};

use super::document::{Compared, Document};
use super::svg::{self, Strip};
use super::text::{
    conclusion, extent, good, interval, median, missing, of_instructions, p, plural, remarks,
    spread,
};
use crate::render::markup::escape;
use crate::render::page;
use truecount_model::number;
use truecount_run::rounds::{Command, Metric};

/// Writes the page.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let names: Vec<&str> = document
        .commands
        .iter()
        .map(|command| command.name.as_str())
        .collect();
    let environment = &document.environment;
    let title = format!("truecount bench: {}", names.join(", "));
    out.write_all(page::open(&title, "").as_bytes())?;
    writeln!(
        out,
        "<header><h1>truecount bench</h1>\n<p>{} of {}, {} of warm-up, seed {}<br>\n{}, Linux {}</p></header>",
        plural(document.rounds, "round"),
        plural(document.commands.len(), "command"),
        plural(document.warmup, "round"),
        document.seed,
        escape(environment.cpu_model.as_deref().unwrap_or("unknown CPU")),
        escape(
            environment
                .kernel
                .as_deref()
                .unwrap_or("of unknown release")
        ),
    )?;
    if let Some(stopped) = &document.stopped {
        writeln!(
            out,
            "<p class=\"warn\">Stopped early: {}</p>",
            escape(stopped)
        )?;
    }
    comparisons(out, document)?;
    distributions(out, document)?;
    raw(out, document)?;
    notes(out, document)?;
    out.write_all(page::CLOSE.as_bytes())
}

/// The metrics that were counted for any command, in their order.
fn metrics(document: &Document) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, metric) in document
        .commands
        .iter()
        .flat_map(|command| command.metrics.iter())
    {
        if !metric.samples.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn comparisons(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    if document.comparisons.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section><h2>Comparisons</h2>\n<p class=\"dim\">The bar is the interval of the change, the \
         band the changes too small to matter. A change is called only when the adjusted p is below \
         0.05 and the whole interval lies outside the band.</p>"
    )?;
    let mut pair: Option<(&str, &str)> = None;
    for compared in &document.comparisons {
        let this = (compared.base.as_str(), compared.other.as_str());
        if pair != Some(this) {
            if pair.is_some() {
                writeln!(out, "</tbody></table></div>")?;
            }
            pair = Some(this);
            writeln!(
                out,
                "<h3><code>{}</code> against <code>{}</code></h3>\n<div class=\"wide\"><table><thead><tr><th>metric</th>\
                 <th class=\"r\">change</th><th class=\"spare\"></th><th class=\"spare\">interval</th><th class=\"r spare\">p adjusted</th>\
                 <th>verdict</th></tr></thead><tbody>",
                escape(&compared.other),
                escape(&compared.base)
            )?;
        }
        comparison(out, compared)?;
    }
    writeln!(out, "</tbody></table></div></section>")
}

fn comparison(out: &mut dyn Write, compared: &Compared) -> io::Result<()> {
    let picture = match (compared.ratio, compared.interval) {
        (Some(ratio), Some((low, high))) => svg::change(
            low.map_or(f64::NEG_INFINITY, |low| low - 1.0),
            ratio - 1.0,
            high.map_or(f64::INFINITY, |high| high - 1.0),
            compared.floor,
        ),
        _ => String::new(),
    };
    let class = match good(compared) {
        Some(true) => "good",
        Some(false) => "bad",
        None if compared.verdict == "incomparable" => "warn",
        None => "dim",
    };
    writeln!(
        out,
        "<tr><td>{}</td><td class=\"r\">{}</td><td class=\"spare\">{picture}</td><td class=\"n spare\">{}</td><td class=\"r spare\">{}</td>\
         <td class=\"{class}\">{}</td></tr>",
        escape(&compared.metric),
        compared.ratio.map_or(String::new(), number::change),
        interval(compared),
        escape(&p(compared.p_adjusted)),
        escape(&conclusion(compared))
    )
}

fn distributions(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    writeln!(
        out,
        "<section><h2>Distributions</h2>\n<p class=\"dim\">One dot a run, from top to bottom in the \
         order measured; the box holds the middle half, the line is the median; hollow dots at the edge lie beyond \
         the axis.</p>"
    )?;
    for name in metrics(document) {
        let measured: Vec<(&Command, &Metric)> = document
            .commands
            .iter()
            .filter_map(|command| Some((command, command.metrics.get(name)?)))
            .filter(|(_, metric)| !metric.samples.is_empty())
            .collect();
        let strips: Vec<Strip<'_>> = measured
            .iter()
            .filter_map(|(command, metric)| {
                let summary = metric.summary()?;
                Some(Strip {
                    name: &command.name,
                    samples: metric.samples.iter().map(|&sample| sample as f64).collect(),
                    median: summary.median.to_f64(),
                    q1: summary.q1,
                    q3: summary.q3,
                })
            })
            .collect();
        let Some((_, first)) = measured.first() else {
            continue;
        };
        let label = |value: f64| number::quantity(value, first.scale, &first.unit);
        let source = first.source.map_or("", |source| source.name());
        writeln!(
            out,
            "<figure><figcaption><b>{}</b> <span class=\"dim\">{source}</span></figcaption>\n{}",
            escape(name),
            svg::strips(&strips, label)
        )?;
        numbers(out, name, &measured)?;
        writeln!(out, "</tbody></table></div></figure>")?;
    }
    writeln!(out, "</section>")
}

/// The table under a picture; the share of instructions only where there is one.
fn numbers(out: &mut dyn Write, name: &str, measured: &[(&Command, &Metric)]) -> io::Result<()> {
    let share = |command, metric| of_instructions(name, metric, command);
    let shares = measured
        .iter()
        .any(|(command, metric)| !share(command, metric).is_empty());
    let of = if shares {
        "<th class=\"r\">of instr.</th>"
    } else {
        ""
    };
    writeln!(
        out,
        "<div class=\"wide\"><table><thead><tr><th>command</th><th class=\"r\">median</th>{of}\
         <th class=\"r\">spread</th><th>min … max</th><th class=\"r\">n</th><th></th></tr></thead><tbody>"
    )?;
    for (command, metric) in measured {
        let of = if shares {
            format!("<td class=\"r\">{}</td>", share(command, metric))
        } else {
            String::new()
        };
        writeln!(
            out,
            "<tr><td><code>{}</code></td><td class=\"r\">{}</td>{of}<td class=\"r\">{}</td>\
             <td class=\"n\">{}</td><td class=\"r\">{}</td><td class=\"dim\">{}</td></tr>",
            escape(&command.name),
            median(metric),
            spread(metric),
            extent(metric),
            metric.samples.len(),
            escape(&remarks(metric))
        )?;
    }
    Ok(())
}

fn raw(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    writeln!(out, "<section><h2>Raw values</h2>")?;
    for command in &document.commands {
        writeln!(
            out,
            "<details><summary><code>{}</code></summary>\n<div class=\"scroll\"><table class=\"raw\"><tbody>",
            escape(&command.name)
        )?;
        for (name, metric) in command
            .metrics
            .iter()
            .filter(|(_, metric)| !metric.samples.is_empty())
        {
            let values: Vec<String> = metric.samples.iter().map(ToString::to_string).collect();
            let scale = if truecount_model::is_one(&metric.scale) {
                String::new()
            } else {
                format!(" × {}", metric.scale)
            };
            writeln!(
                out,
                "<tr><th>{}<br><span class=\"dim\">{}{scale}</span></th><td>{}</td></tr>",
                escape(name),
                escape(&metric.unit),
                values.join(" ")
            )?;
        }
        writeln!(out, "</tbody></table></div></details>")?;
    }
    let environment = serde_json::to_string_pretty(&document.environment)?;
    writeln!(
        out,
        "<details><summary>Environment</summary><pre>{}</pre></details></section>",
        escape(&environment)
    )
}

fn notes(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let missing = missing(document);
    if missing.is_empty() && document.notes.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section><h2>Notes</h2><ul>")?;
    for line in missing.iter().chain(&document.notes) {
        writeln!(out, "<li>{}</li>", escape(line))?;
    }
    writeln!(out, "</ul></section>")
}
