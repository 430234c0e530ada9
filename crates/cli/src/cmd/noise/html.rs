//! The result of `noise` as one self-contained page: the picture, the verdicts, the functions in which runs differ, what
//! was not tested. No script and nothing from elsewhere.

use std::fmt::Write as _;

use super::document::Document;
use super::svg;
use super::text::{counted_by, path, plus_minus, remedy, said, signed};
use crate::render::charts::Frame;
use crate::render::markup::escape;
use crate::render::page;
use truecount_lab::noise::Spread;
use truecount_model::number::grouped;
use truecount_run::determinism::Factor;

/// What only this page has.
const MORE: &str = "\
.remedy{background:var(--card);border-radius:8px;padding:10px 16px;margin:12px 0 0;overflow-x:auto}\
.bar{display:flex;width:150px}.bar i{flex:1;display:flex;height:11px}.bar i:first-child{justify-content:flex-end;border-right:1px solid var(--dim)}\
.bar u{display:block;height:100%;background:var(--bad);opacity:.75;min-width:1px}.bar i:first-child u{background:var(--s0)}\
h3 b{font-weight:600}";

/// The whole page.
pub(super) fn page(document: &Document) -> String {
    let command = truecount_run::runner::command_line(&document.command);
    let mut h = page::open(&format!("truecount noise: {command}"), MORE);
    let command = escape(&command);
    let environment = &document.environment;
    let _ = write!(
        h,
        "<header><h1>What makes identical runs differ</h1>\n<p><code>{command}</code><br>\n\
         {} by {}, {} runs of each setting, seed {}<br>{}, Linux {}</p></header>\n",
        escape(&document.findings.event),
        counted_by(document),
        document.findings.runs,
        document.seed,
        escape(environment.cpu_model.as_deref().unwrap_or("unknown CPU")),
        escape(
            environment
                .kernel
                .as_deref()
                .unwrap_or("of unknown release")
        ),
    );
    if document.findings.interrupted.is_some() {
        h.push_str("<p class=\"warn\">Interrupted: what was measured until then.</p>");
    }
    if let Some(cause) = &document.stopped {
        let _ = writeln!(
            h,
            "<p class=\"warn\">Stopped: what was measured until then; {}.</p>",
            escape(cause)
        );
    }
    cards(&mut h, document);
    let _ = write!(
        h,
        "<section><h2>Every run</h2>\n<p class=\"dim\">One factor varied, all others held constant. One dot a run, \
         from top to bottom in their order, at its distance from the median of its setting, in \
         instructions; the axis is logarithmic to both sides. ± is half the distance between the min \
         and the max run.</p>\n<figure>{}</figure>{}</section>\n",
        svg::picture(document, Frame::Page),
        at_a_glance(document)
    );
    functions(&mut h, document);
    paths(&mut h, document);
    regions(&mut h, document);
    not_tested(&mut h, document);
    notes(&mut h, document);
    h.push_str(page::CLOSE);
    h
}

/// What the picture says at its right edge, for windows that do not show that.
fn at_a_glance(document: &Document) -> String {
    let mut h = "<table class=\"phone\"><tr><th>varied<th class=r>varies by<th></tr>".to_owned();
    for spread in &document.findings.factors {
        let name = spread.factor.map_or("", Factor::title);
        let _ = write!(
            h,
            "<tr><td>{}<td class=r>{}<td class=dim>{}</tr>",
            escape(name),
            escape(&plus_minus(spread)),
            escape(&said(spread))
        );
    }
    h.push_str("</table>");
    h
}

fn cards(h: &mut String, document: &Document) {
    let of = |factor: Factor| {
        document
            .findings
            .factors
            .iter()
            .find(|s| s.factor == Some(factor))
    };
    let mut tiles: Vec<(String, String, &str)> = Vec::new();
    match document.findings.dominant_factor {
        Some(main) => tiles.push((
            of(main).map(plus_minus).unwrap_or_default(),
            format!("dominant factor: {}", main.title()),
            "bad",
        )),
        None => tiles.push(("none seen".into(), "dominant factor".into(), "good")),
    }
    let still = document.findings.residual.plus_minus == Some(0.0);
    let class = if still { "good" } else { "warn" };
    tiles.push((
        plus_minus(&document.findings.residual),
        "residual: with everything held constant".into(),
        class,
    ));
    tiles.push((
        plus_minus(&document.findings.together),
        "as usual: with everything varied".into(),
        "",
    ));
    let tiles = tiles.iter();
    h.push_str(&page::tiles(tiles.map(|(value, what, class)| {
        (value.as_str(), what.as_str(), *class)
    })));
    if let Some(remedy) = remedy(document) {
        let _ = writeln!(
            h,
            "<p class=\"remedy\"><span class=\"dim\">to hold it constant</span> <code>{}</code></p>",
            escape(&remedy)
        );
    }
}

/// The settings in which runs differ, dominant factor first.
fn differing(document: &Document) -> Vec<(&str, &Spread)> {
    let mut differ: Vec<(&str, &Spread)> = document
        .findings
        .factors
        .iter()
        .filter(|spread| spread.cause == Some(true))
        .map(|spread| (spread.factor.map_or("", Factor::title), spread))
        .collect();
    differ.sort_by(|a, b| {
        let size = |spread: &Spread| spread.plus_minus.unwrap_or(0.0);
        size(b.1).total_cmp(&size(a.1))
    });
    differ.push(("with everything held constant", &document.findings.residual));
    differ
}

/// What is compared in one line of a table.
struct Line<'d> {
    name: &'d str,
    /// Module of a function.
    of: Option<&'d str>,
    least: String,
    largest: String,
    difference: i64,
}

fn functions(h: &mut String, document: &Document) {
    let mut differ = differing(document);
    differ.retain(|(_, spread)| !spread.functions.is_empty());
    if differ.is_empty() {
        return;
    }
    h.push_str(
        "<section><h2>Functions in which runs differ</h2>\n<p class=\"dim\">Instructions of each function in the min \
         and in the max run.</p>\n",
    );
    for (name, spread) in differ {
        let lines: Vec<Line<'_>> = spread
            .functions
            .iter()
            .map(|each| Line {
                name: &each.function,
                of: Some(each.module.rsplit('/').next().unwrap_or_default()),
                least: grouped(each.min_run),
                largest: grouped(each.max_run),
                difference: each.difference(),
            })
            .collect();
        let head = (name, "function", spread.diverging_functions);
        table(h, head, spread, &lines);
    }
    h.push_str("</section>\n");
}

fn paths(h: &mut String, document: &Document) {
    let mut differ = differing(document);
    differ.retain(|(_, spread)| !spread.paths.is_empty());
    if differ.is_empty() {
        return;
    }
    h.push_str(
        "<section><h2>Paths of calls in which runs differ</h2>\n<p class=\"dim\">What was executed on each path itself in \
         the min and in the max run.</p>\n",
    );
    for (name, spread) in differ {
        let paths: Vec<String> = spread.paths.iter().map(|each| path(&each.path)).collect();
        let lines = spread.paths.iter().zip(&paths).map(|(each, path)| Line {
            name: path,
            of: None,
            least: grouped(each.min_run.own),
            largest: grouped(each.max_run.own),
            difference: each.difference(),
        });
        let head = (name, "path", spread.diverging_paths.unwrap_or(0));
        table(h, head, spread, &lines.collect::<Vec<_>>());
    }
    h.push_str("</section>\n");
}

fn regions(h: &mut String, document: &Document) {
    let mut differ = differing(document);
    differ.retain(|(_, spread)| !spread.regions.is_empty());
    let Some(counter) = differ
        .iter()
        .find_map(|(_, spread)| spread.region_counter.as_ref())
    else {
        return;
    };
    let _ = writeln!(
        h,
        "<section><h2>Regions in which runs differ</h2>\n<p class=\"dim\">What the program's own profiles count of {} \
         in each region itself, without regions inside it, in the min and in the max run.</p>",
        escape(counter)
    );
    for (name, spread) in differ {
        let lines: Vec<Line<'_>> = spread
            .regions
            .iter()
            .map(|each| Line {
                name: &each.region,
                of: None,
                least: signed(each.min_run),
                largest: signed(each.max_run),
                difference: each.difference(),
            })
            .collect();
        table(
            h,
            (name, "region", spread.diverging_regions),
            spread,
            &lines,
        );
    }
    h.push_str("</section>\n");
}

/// What differs in one setting; `head` is its name, what a line is, and how many there are in all.
fn table(h: &mut String, head: (&str, &str, usize), spread: &Spread, lines: &[Line<'_>]) {
    let (name, thing, all) = head;
    let module = lines.iter().any(|line| line.of.is_some());
    let _ = write!(
        h,
        "<h3><b>{}</b> {} <span class=\"dim\">{} of {all} {thing}s</span></h3>\n<div class=\"wide\"><table><thead><tr><th>{thing}</th>\
         {}<th class=\"r\">min run</th><th class=\"r\">max run</th>\
         <th class=\"r\">difference</th><th></th></tr></thead><tbody>",
        escape(name),
        escape(&plus_minus(spread)),
        lines.len(),
        if module { "<th>module</th>" } else { "" },
    );
    let sizes = lines.iter().map(|each| each.difference.unsigned_abs());
    let most = sizes.max().unwrap_or(0);
    for each in lines {
        line(h, each, most);
    }
    h.push_str("</tbody></table></div>\n");
}

fn line(h: &mut String, each: &Line<'_>, most: u64) {
    let size = each.difference.unsigned_abs();
    let share = size as f64 / most.max(1) as f64 * 100.0;
    let bar = format!("<u style=\"width:{share:.1}%\"></u>");
    let (left, right, sign) = if each.difference < 0 {
        (bar.as_str(), "", "−")
    } else {
        ("", bar.as_str(), "+")
    };
    let _ = write!(h, "<tr><td><code>{}</code></td>", escape(each.name));
    if let Some(module) = each.of {
        let _ = write!(h, "<td class=\"dim\">{}</td>", escape(module));
    }
    let _ = write!(
        h,
        "<td class=\"r\">{}</td><td class=\"r\">{}</td>\
         <td class=\"r\">{sign}{}</td><td><div class=\"bar\"><i>{left}</i><i>{right}</i></div></td></tr>",
        each.least,
        each.largest,
        grouped(size)
    );
}

fn not_tested(h: &mut String, document: &Document) {
    if document.findings.not_tested.is_empty() {
        return;
    }
    h.push_str("<section><h2>Not tested</h2>\n<div class=\"wide\"><table><tbody>");
    for each in &document.findings.not_tested {
        let _ = write!(
            h,
            "<tr><td>{}</td><td class=\"dim\">{}</td></tr>",
            escape(each.title),
            escape(&each.reason)
        );
    }
    h.push_str("</tbody></table></div></section>\n");
}

fn notes(h: &mut String, document: &Document) {
    if !document.findings.notes.is_empty() {
        h.push_str("<section><h2>Notes</h2><ul>");
        for line in &document.findings.notes {
            let _ = write!(h, "<li>{}</li>", escape(line));
        }
        h.push_str("</ul></section>\n");
    }
    let environment = serde_json::to_string_pretty(&document.environment).unwrap_or_default();
    let _ = writeln!(
        h,
        "<section><details><summary>Environment</summary><pre>{}</pre></details></section>",
        escape(&environment)
    );
}
