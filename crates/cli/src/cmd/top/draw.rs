//! Draws the model. All widths are those of the terminal; what does not fit is cut off at the right.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::model::{Detail, EventInfo, Model, Row};
use truecount_model::number::{compact, grouped, size, time};
use truecount_record::live::{Tab, Weight};
use truecount_record::names::short;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const WARN: Style = Style::new().fg(Color::Yellow);
const KEY: Style = Style::new().fg(Color::Cyan);
const BAR: Style = Style::new().fg(Color::Green);

/// Draws everything, and notes how many rows fit.
pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let area = frame.area();
    let head = head(model, usize::from(area.width));
    let head_height = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let [top, body, foot] = Layout::vertical([
        Constraint::Length(head_height.min(area.height.saturating_sub(4))),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(head), top);
    // One line is the table's head.
    model.page = usize::from(body.height.saturating_sub(1)).max(1);
    match &mut model.detail {
        Some(detail) => {
            let lines = detail_lines(detail, model.page);
            frame.render_widget(Paragraph::new(lines), body);
        }
        None => {
            let lines = table(model, usize::from(body.width));
            frame.render_widget(Paragraph::new(lines), body);
        }
    }
    frame.render_widget(Paragraph::new(foot_line(model)), foot);
    if model.help {
        help(frame, area);
    }
}

/// The head: what is sampled and how, what was lost, what it costs.
fn head(model: &Model, width: usize) -> Vec<Line<'static>> {
    let about = &model.about;
    let span = if model.accumulated {
        format!("since the start, {:.0} s", model.time.as_secs_f64())
    } else {
        format!("last {:.1} s", model.time.as_secs_f64())
    };
    let mut first = vec![
        Span::styled("truecount top", BOLD),
        Span::raw(format!("  {}  by {}  {span}", about.scope, model.by.name())),
    ];
    if model.paused {
        first.push(Span::styled("  PAUSED", WARN.add_modifier(Modifier::BOLD)));
    }
    if model.ended {
        first.push(Span::styled("  the process has ended", WARN));
    }
    let mut out = vec![Line::from(first)];
    for (i, event) in about.events.iter().enumerate() {
        let all = model.all.get(i).copied().unwrap_or_default();
        let marker = if i == model.sort && about.events.len() > 1 {
            "▼ "
        } else {
            "  "
        };
        out.push(Line::from(vec![
            Span::raw(marker),
            Span::styled(event.name.clone(), BOLD),
            Span::raw(format!(
                "  {}  {} samples  ≈ {}",
                event.rate,
                grouped(all.samples),
                amount(event, all)
            )),
        ]));
    }
    out.push(losses(model));
    let room = width.saturating_sub(2).max(20);
    for note in &about.notes {
        for line in wrap(note, room) {
            out.push(Line::styled(format!("  {line}"), WARN));
        }
    }
    out.push(Line::default());
    out
}

fn losses(model: &Model) -> Line<'static> {
    let (lost, throttled, broken) = model.losses;
    let counted = |n: u64, text: String| {
        let style = if n > 0 { WARN } else { DIM };
        Span::styled(text, style)
    };
    let mut spans = vec![
        Span::raw("  "),
        counted(lost, format!("{} lost", grouped(lost))),
        counted(
            throttled,
            format!(" · throttled {} times", grouped(throttled)),
        ),
    ];
    if broken > 0 {
        spans.push(Span::styled(
            format!(" · {} records not understood", grouped(broken)),
            WARN,
        ));
    }
    if model.waiting > 0 {
        let text = format!(
            " · finding the names of {} places",
            grouped(model.waiting as u64)
        );
        spans.push(Span::styled(text, WARN));
    }
    if model.folded > 0 {
        let text = format!(
            " · {} small rows added up as “others”",
            grouped(model.folded)
        );
        spans.push(Span::styled(text, DIM));
    }
    spans.push(Span::styled(
        format!(
            " · top itself: {:.1} % of a CPU, {}",
            100.0 * model.own.cpu,
            size(model.own.memory as f64)
        ),
        DIM,
    ));
    Line::from(spans)
}

/// Events of samples, in their unit.
pub(super) fn amount(event: &EventInfo, weight: Weight) -> String {
    if event.is_time {
        time(weight.events as f64)
    } else {
        compact(weight.events as f64)
    }
}

fn share(weight: Weight, all: Weight) -> f64 {
    weight.events as f64 / all.events.max(1) as f64
}

/// Events of the first per event of the second, where both have samples.
pub(super) fn ratio(first: Weight, second: Weight) -> Option<f64> {
    (first.samples > 0 && second.samples > 0 && second.events > 0)
        .then(|| first.events as f64 / second.events as f64)
}

fn table(model: &Model, width: usize) -> Vec<Line<'static>> {
    let bar = if width >= 90 { 12 } else { 0 };
    let events = &model.about.events;
    let mut head = String::new();
    let name = |e: usize, width: usize| {
        let name = events.get(e).map_or("", |e| e.name.as_str());
        format!("{:>width$}", cut(name, width))
    };
    head.push_str(&name(model.sort, 14));
    head.push_str(&" ".repeat(bar));
    head.push_str(&format!("{:>12}{:>9}", "≈ events", "samples"));
    if let Some(second) = model.second() {
        head.push_str(&format!("{}{:>10}", name(second, 16), "ratio"));
    }
    head.push_str(&format!("  {}", super::heading(model.by)));
    let mut out = vec![Line::styled(head, DIM)];
    let cursor = model.cursor();
    let first = cursor.saturating_sub(model.page.saturating_sub(1));
    let rows = model.rows.iter().enumerate().skip(first).take(model.page);
    for (i, row) in rows {
        let line = table_row(model, row, bar);
        out.push(if i == cursor {
            line.style(Style::new().add_modifier(Modifier::REVERSED))
        } else {
            line
        });
    }
    let other = model.others.iter().map(|w| w.samples).sum::<u64>();
    if other > 0 && model.filter.is_empty() && model.rows.len() < first + model.page {
        let row = Row {
            key: truecount_record::live::Key::new("(others)", ""),
            weights: model.others.clone(),
        };
        out.push(table_row(model, &row, bar).style(DIM));
    }
    if model.rows.is_empty() {
        let why = if model.filter.is_empty() {
            "no sample in this time: nothing ran, or the event did not occur"
        } else {
            "no row matches the filter"
        };
        out.push(Line::styled(format!("  {why}"), DIM));
    }
    out
}

fn table_row(model: &Model, row: &Row, bar: usize) -> Line<'static> {
    let of = |e: usize| {
        let weight = row.weights.get(e).copied().unwrap_or_default();
        (weight, model.all.get(e).copied().unwrap_or_default())
    };
    let (weight, all) = of(model.sort);
    let part = share(weight, all);
    let style = if part >= 0.1 { WARN } else { Style::new() };
    let mut spans = vec![Span::styled(format!("{:>12.2} %", 100.0 * part), style)];
    if bar > 0 {
        let full = bar - 2;
        let filled = (part * full as f64).round() as usize;
        spans.push(Span::styled(
            format!("  {:<full$}", "█".repeat(filled.min(full))),
            BAR,
        ));
    }
    let shown = model
        .about
        .events
        .get(model.sort)
        .map_or_else(String::new, |e| amount(e, weight));
    spans.push(Span::raw(format!(
        "{shown:>12}{:>9}",
        grouped(weight.samples)
    )));
    if let Some(second) = model.second() {
        let (other, all) = of(second);
        let ratio = ratio(weight, other).map_or_else(|| "–".to_owned(), |r| format!("{r:.3}"));
        spans.push(Span::raw(format!(
            "{:>14.2} %{ratio:>10}",
            100.0 * share(other, all)
        )));
    }
    spans.push(Span::raw(format!("  {}", short(&row.key.name))));
    if !row.key.of.is_empty() {
        spans.push(Span::styled(
            format!("  [{}]", row.key.of.trim_matches(['[', ']'])),
            DIM,
        ));
    }
    Line::from(spans)
}

fn detail_lines(detail: &mut Detail, page: usize) -> Vec<Line<'static>> {
    if detail.seek && !detail.lines.is_empty() {
        detail.seek = false;
        let hottest = detail
            .lines
            .iter()
            .enumerate()
            .filter_map(|(i, l)| Some((i, l.share?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        detail.scroll = hottest.map_or(0, |(i, _)| i.saturating_sub(page / 2));
    }
    let end = detail.lines.len().saturating_sub(page);
    detail.scroll = detail.scroll.min(end);
    let what = match detail.tab {
        Tab::Code => "code (Tab: callers)",
        Tab::Callers => "callers (Tab: code)",
        Tab::Functions => "functions",
    };
    let mut out = vec![Line::from(vec![
        Span::styled(short(&detail.key.name), BOLD),
        Span::styled(
            format!("  [{}]  {what}", detail.key.of.trim_matches(['[', ']'])),
            DIM,
        ),
    ])];
    if detail.lines.is_empty() {
        out.push(Line::styled("  Looking for it …", DIM));
    }
    for line in detail.lines.iter().skip(detail.scroll).take(page) {
        let margin = match line.share {
            Some(share) => format!("{:>8.1} %{:>9}", 100.0 * share, grouped(line.samples)),
            None => " ".repeat(19),
        };
        let hot = line.share.is_some_and(|s| s >= 0.1);
        out.push(Line::from(vec![
            Span::styled(margin, if hot { WARN } else { Style::new() }),
            Span::styled(" │ ", DIM),
            Span::styled(line.text.clone(), if line.dim { DIM } else { Style::new() }),
        ]));
    }
    out
}

fn foot_line(model: &Model) -> Line<'static> {
    if model.typing {
        return Line::from(vec![
            Span::styled(" filter: ", KEY),
            Span::raw(format!("{}▏", model.filter)),
            Span::styled("  Enter keeps it, Esc clears it", DIM),
        ]);
    }
    let keys: &[(&str, &str)] = if model.detail.is_some() {
        &[
            ("q", "back"),
            ("Tab", "code/callers"),
            ("↑↓", "scroll"),
            ("n", "next event"),
            ("a", "last/since the start"),
            ("space", "pause"),
        ]
    } else {
        &[
            ("q", "quit"),
            ("a", "last/since the start"),
            ("space", "pause"),
            ("n", "next event"),
            ("/", "filter"),
            ("⏎", "look into"),
            ("b", "by …"),
            ("z", "restart"),
            ("?", "help"),
        ]
    };
    let mut spans = Vec::new();
    if !model.filter.is_empty() {
        spans.push(Span::styled(
            format!(" filter: {} (Esc clears it) ", model.filter),
            WARN,
        ));
    }
    for (key, what) in keys {
        spans.push(Span::styled(format!(" {key}"), KEY));
        spans.push(Span::styled(format!(" {what} "), DIM));
    }
    Line::from(spans)
}

const HELP: &[&str] = &[
    "q, Ctrl-C   quit (q: first leave what is looked into)",
    "a           the last interval, or all since the start",
    "space       pause: sampling goes on, the screen stands still",
    "n           sort by the next event",
    "/           show only rows with this text; Esc shows all",
    "↑ ↓ j k g G PgUp PgDn   choose a row, or scroll",
    "Enter       look into the row: code and callers, or functions",
    "Tab         code or callers of a function",
    "b           by symbol, process, thread, CPU, line (begins anew)",
    "z           begin anew",
    "",
    "Shares and events are estimates from samples (period × samples).",
    "ratio: events of the first column per event of the second.",
];

fn help(frame: &mut Frame<'_>, area: Rect) {
    let longest = HELP.iter().map(|l| l.chars().count()).max().unwrap_or(0);
    let width = u16::try_from(longest + 4)
        .unwrap_or(u16::MAX)
        .min(area.width);
    let height = u16::try_from(HELP.len() + 2)
        .unwrap_or(u16::MAX)
        .min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let block = ratatui::widgets::Block::bordered().title(" truecount top ");
    let lines: Vec<Line<'_>> = HELP.iter().map(|l| Line::raw(format!(" {l}"))).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Breaks a text at spaces.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let needed = line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && needed > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}
