//! Pictures of what a command prints: a line `<!-- picture: FILE.svg: COMMAND -->` in a page, `--pictures` makes them anew.
//! Where the picture needs more than the command that it shows, ` ||| SHELL` at the end is what runs.
//!
//! Text is drawn as SVG, as wide as the terminal that the command was told of, dark or light as the reader's screen.

use anyhow::{Context as _, Result, bail};
use std::path::Path;

const PICTURE: &str = "<!-- picture: ";

/// A picture that a page announces.
#[derive(Debug, PartialEq, Eq)]
pub struct Picture<'t> {
    /// Beside the page.
    pub file: &'t str,
    pub shown: &'t str,
    pub run: &'t str,
}

/// The pictures that a page announces.
pub fn announced(text: &str) -> Vec<Picture<'_>> {
    let lines = text.lines();
    let lines = lines.filter_map(|line| {
        line.strip_prefix(PICTURE)?
            .strip_suffix(" -->")?
            .split_once(": ")
    });
    lines
        .map(|(file, command)| {
            let (shown, run) = command.split_once(" ||| ").unwrap_or((command, command));
            Picture { file, shown, run }
        })
        .collect()
}

/// Pictures of a page that are not there, or that it does not show.
pub fn missing(page: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for Picture { file, .. } in announced(text) {
        if !page.with_file_name(file).is_file() {
            problems.push(format!(
                "{}: there is no {file}: cargo xtask docs --pictures makes it",
                page.display()
            ));
        }
        if !text.contains(&format!("]({file})")) {
            problems.push(format!("{}: {file} is not shown", page.display()));
        }
    }
    problems
}

/// Draws what a command printed below its command line.
pub fn draw(file: &Path, command: &str, printed: &str) -> Result<()> {
    if printed.trim().is_empty() {
        bail!("`{command}` prints nothing");
    }
    let text = format!("\u{1b}[1m$ {command}\u{1b}[0m\n{}\n", printed.trim_end());
    let svg = anstyle_svg::Term::new().min_width_px(880).render_svg(&text);
    let described = scaled(&svg).replacen(
        "<style>",
        &format!("<title>What {} prints</title>\n  <style>", escaped(command)),
        1,
    );
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(file, themed(&described))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// With its own measure, so that a narrow page shrinks the drawing instead of cutting it off.
fn scaled(svg: &str) -> String {
    let length = |name: &str| {
        let rest = svg.split_once(&format!("{name}=\""))?.1;
        Some(rest.split_once("px\"")?.0.to_owned())
    };
    match (length("width"), length("height")) {
        (Some(width), Some(height)) => svg.replacen(
            "<svg ",
            &format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" "),
            1,
        ),
        _ => svg.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The same drawing with dark text on a light ground where the reader's screen is light.
fn themed(svg: &str) -> String {
    const THEMES: &str = "\
  .fg { fill: #d4d7dd }
    .bg { fill: #14171c }
    .dimmed { opacity: 0.7 }
    .fg-green, .fg-bright-green { fill: #57c46b }
    .fg-yellow, .fg-bright-yellow { fill: #e0b04a }
    .fg-red, .fg-bright-red { fill: #ff7b72 }
    .fg-cyan, .fg-bright-cyan { fill: #56c8d8 }
    @media (prefers-color-scheme: light) {
      .fg { fill: #1f2328 }
      .bg { fill: #f6f8fa }
      .fg-green, .fg-bright-green { fill: #116329 }
      .fg-yellow, .fg-bright-yellow { fill: #7d4e00 }
      .fg-red, .fg-bright-red { fill: #a40e26 }
      .fg-cyan, .fg-bright-cyan { fill: #1b7c83 }
    }
  </style>";
    svg.replacen("</style>", THEMES, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_announced_and_shown() {
        let text = "<!-- picture: p/a.svg: truecount check ||| y; truecount check -->\n![check](p/a.svg)\n<!-- picture: p/b.svg: x -->\n";
        let picture = |file, shown, run| Picture { file, shown, run };
        assert_eq!(
            announced(text),
            [
                picture("p/a.svg", "truecount check", "y; truecount check"),
                picture("p/b.svg", "x", "x")
            ]
        );
        let problems = missing(Path::new("/nowhere/page.md"), text);
        assert_eq!(problems.len(), 3, "{problems:?}");
    }

    #[test]
    fn a_drawing_has_a_title_and_two_themes() {
        let file =
            std::env::temp_dir().join(format!("truecount-picture-{}.svg", std::process::id()));
        draw(&file, "a <b", "\u{1b}[32mgreen\u{1b}[0m <x>\n").unwrap();
        let svg = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        for part in [
            "<title>What a &lt;b prints</title>",
            "prefers-color-scheme: light",
            "viewBox=\"0 0 ",
            "green",
            "&lt;x&gt;",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(draw(&file, "true", "\n").is_err());
    }
}
