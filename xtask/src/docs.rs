//! `cargo xtask docs [--check]`: output that the pages show is made by the command, not by hand.
//!
//! A code block below a line `<!-- output: truecount … -->` is what that command prints (stdout, then stderr) in the
//! workspace's directory, behind a line with the command itself. `--check` compares, with numbers and the width of columns
//! masked: another machine counts other numbers, not other words. Every other `truecount …` in a code block is looked at
//! too: the subcommand and the options that it names must be there.

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const MARK: &str = "<!-- output: ";

/// The task.
pub fn main(root: &Path, arguments: &[String]) -> Result<()> {
    let check = match arguments {
        [] => false,
        [only] if only == "--check" => true,
        _ => bail!("usage: cargo xtask docs [--check]"),
    };
    let program = build(root)?;
    let mut problems = Vec::new();
    let (mut blocks, mut lines) = (0, 0);
    let mut helps = BTreeMap::new();
    for path in pages(root)? {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        let made = remake(&text, &mut |command| {
            blocks += 1;
            output(root, &program, command)
        })?;
        if masked(&made) != masked(&text) {
            problems.push(format!(
                "{shown}: a block differs from what its command prints"
            ));
        }
        if !check && made != text {
            std::fs::write(&path, &made)?;
        }
        for (number, line) in commands(&made) {
            lines += 1;
            let wrong = unknown(line, &mut |subcommand| {
                let help = helps.entry(subcommand.to_owned()).or_insert_with(|| {
                    let line = format!("truecount {subcommand} --help");
                    output(root, &program, &line).unwrap_or_default()
                });
                help.clone()
            });
            problems
                .extend(wrong.map(|what| format!("{shown}:{number}: there is no {what}: {line}")));
        }
    }
    if !check {
        problems.retain(|problem| problem.contains("there is no"));
    }
    if !problems.is_empty() {
        bail!("{}\ncargo xtask docs makes the blocks", problems.join("\n"));
    }
    println!(
        "docs: {blocks} blocks are what their commands print; {lines} command lines name what exists"
    );
    Ok(())
}

fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "-p", "truecount-cli"])
        .status()
        .context("cannot start cargo build")?;
    if !status.success() {
        bail!("truecount does not build");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("debug/truecount"))
}

/// The README and everything below `docs`.
fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = vec![root.join("README.md")];
    for entry in std::fs::read_dir(root.join("docs"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// What a command line of a page prints: `truecount` is the one just built; there is no shell.
fn output(root: &Path, program: &Path, line: &str) -> Result<String> {
    let mut words = line.split_whitespace();
    if words.next() != Some("truecount") {
        bail!("`{line}`: output is made of truecount's commands only");
    }
    let output = Command::new(program)
        .args(words)
        .current_dir(root)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// The page with its marked blocks made anew.
fn remake(text: &str, run: &mut dyn FnMut(&str) -> Result<String>) -> Result<String> {
    let mut made = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        made.push_str(line);
        made.push('\n');
        let Some(command) = line
            .strip_prefix(MARK)
            .and_then(|rest| rest.strip_suffix(" -->"))
        else {
            continue;
        };
        if !lines.next().is_some_and(|fence| fence.starts_with("```")) {
            bail!("`{line}`: a code block must follow at once");
        }
        if !lines.by_ref().any(|line| line == "```") {
            bail!("`{line}`: its code block has no end");
        }
        let printed = run(command)?;
        let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let printed = printed.join("\n");
        made.push_str(&format!(
            "```text\n$ {command}\n{}\n```\n",
            printed.trim_matches('\n')
        ));
    }
    Ok(made)
}

/// The marked blocks alone, with numbers and runs of spaces as one sign each.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    let mut marked = false;
    for line in text.lines() {
        match line {
            line if line.starts_with(MARK) => marked = true,
            line if marked && !inside && line.starts_with("```") => inside = true,
            "```" if inside => (inside, marked) = (false, false),
            line if inside => {
                out.push_str(&mask(line));
                out.push('\n');
            }
            _ => {}
        }
    }
    out
}

fn mask(line: &str) -> String {
    let mut out = String::new();
    for word in line.split_whitespace() {
        let number = word.chars().any(|c| c.is_ascii_digit());
        let digits: String = word
            .chars()
            .map(|c| {
                if c.is_ascii_digit() || matches!(c, ',' | '.') {
                    'N'
                } else {
                    c
                }
            })
            .collect();
        let mut digits: Vec<char> = digits.chars().collect();
        digits.dedup_by(|a, b| *a == 'N' && *b == 'N');
        match number {
            true => out.extend(digits),
            false => out.push_str(word),
        }
        out.push(' ');
    }
    out
}

/// Lines of code blocks that call truecount: number and command line, without prompt.
fn commands(text: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            let line = line.trim_start().trim_start_matches("$ ");
            if line.starts_with("truecount ") {
                found.push((at + 1, line));
            }
        }
    }
    found
}

/// The subcommand or the first option of a command line that its help does not have.
fn unknown(line: &str, help: &mut dyn FnMut(&str) -> String) -> Option<String> {
    let mut words = line.split_whitespace().skip(1).peekable();
    let mut subcommand = (*words.peek()?).to_owned();
    if subcommand.starts_with('-') || !subcommand.chars().all(|c| c.is_ascii_lowercase()) {
        return None;
    }
    words.next();
    let mut text = help(&subcommand);
    if !text.contains("Usage:") {
        return Some(format!("subcommand {subcommand}"));
    }
    if subcommand == "profile"
        && let Some(inner) = words.peek().filter(|word| !word.starts_with('-'))
    {
        subcommand = format!("profile {inner}");
        text = help(&subcommand);
    }
    let options = words.take_while(|word| *word != "--" && !word.starts_with('#'));
    for option in options.filter(|word| word.starts_with("--")) {
        let name = option.split('=').next().unwrap_or(option);
        let name: String = name
            .chars()
            .take_while(|c| *c == '-' || c.is_ascii_alphanumeric())
            .collect();
        let known = text
            .split(|c: char| c != '-' && !c.is_ascii_alphanumeric())
            .any(|word| word == name);
        if !known {
            return Some(format!("{name} in {subcommand}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Text\n\n<!-- output: truecount stat -- true -->\n```\nold\n```\n\n```\ntruecount run --json\n```\n";

    #[test]
    fn a_block_is_made_by_its_command() {
        let mut asked = Vec::new();
        let made = remake(PAGE, &mut |command| {
            asked.push(command.to_owned());
            Ok("\na  1,234\nb \n\n".to_owned())
        });
        let made = made.unwrap();
        assert_eq!(asked, ["truecount stat -- true"]);
        assert!(
            made.contains(
                "-->\n```text\n$ truecount stat -- true\na  1,234\nb\n```\n\n```\ntruecount run"
            ),
            "{made}"
        );
        // Made again it is the same, and numbers and columns are no difference.
        let again = remake(&made, &mut |_| Ok("a       77\nb".to_owned())).unwrap();
        assert_eq!(masked(&again), masked(&made));
        let other = remake(&made, &mut |_| Ok("a 77\nc".to_owned())).unwrap();
        assert_ne!(masked(&other), masked(&made));
        assert!(
            remake("<!-- output: truecount -->\ntext\n", &mut |_| Ok(
                String::new()
            ))
            .is_err()
        );
    }

    #[test]
    fn options_and_subcommands_must_exist() {
        let mut help = |name: &str| match name {
            "stat" => "Usage: x\n  -o, --output <FILE>\n  --json[=<FILE>]".to_owned(),
            "profile" | "profile diff" => "Usage: x\n --run".to_owned(),
            _ => "error".to_owned(),
        };
        let mut unknown = |line| unknown(line, &mut help);
        assert_eq!(
            unknown("truecount stat --json=x --output f -- ls --all"),
            None
        );
        assert_eq!(unknown("truecount profile diff --run"), None);
        assert_eq!(
            unknown("truecount stat --out f"),
            Some("--out in stat".to_owned())
        );
        assert_eq!(
            unknown("truecount hold"),
            Some("subcommand hold".to_owned())
        );
        assert_eq!(commands(PAGE), [(5 + 4, "truecount run --json")]);
    }
}
