//! `cargo xtask docs [--check|--long|--pictures] [PAGE]…`: output that the pages show is made by the command, not by hand.
//!
//! A code block below a line `<!-- output: truecount … -->` is what that shell command prints (stdout and stderr), behind
//! a line with the command itself; ` ||| FILTER` at its end shortens the output by another command (`head -5`) without
//! being shown. It runs in the workspace's directory, or, on a page with lines `<!-- prepare: … -->`, in a scratch
//! directory where these shell commands ran before (`$ROOT` is the workspace).
//!
//! `--check` compares, with numbers and the width of columns masked: another machine counts other numbers, not other
//! words. Of a block `output, varying:` only the first line is compared, because which rows come out varies. A block
//! `output, long:` takes long or needs what few machines have: only `--long` makes it. Every other `truecount …` in a
//! code block is looked at too: the subcommand and the options that it names must be there. `--pictures` draws the
//! pictures of [`pictures`] anew, and nothing else.

mod pictures;

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const OUTPUT: &str = "<!-- output";
const PREPARE: &str = "<!-- prepare: ";

/// How a block is made and compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Varying,
    Long,
}

/// A marked block: how it is compared, the command that is shown, what shortens its output.
struct Block<'t> {
    kind: Kind,
    command: &'t str,
    filter: Option<&'t str>,
}

/// The task.
pub fn main(root: &Path, arguments: &[String]) -> Result<()> {
    let (mode, named) = match arguments {
        [mode, named @ ..] if mode.starts_with("--") => (mode.as_str(), named),
        named => ("", named),
    };
    let (check, long) = match mode {
        "" => (false, false),
        "--check" => (true, false),
        "--long" => (false, true),
        "--pictures" if named.is_empty() => return draw(root),
        _ => bail!("usage: cargo xtask docs [--check|--long] [PAGE]…, or --pictures"),
    };
    let wanted = match named {
        [] => pages(root)?,
        named => named.iter().map(|page| root.join(page)).collect(),
    };
    let program = build(root)?;
    let mut problems = Vec::new();
    let (mut blocks, mut lines) = (0, 0);
    let mut helps = BTreeMap::new();
    for path in wanted {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        let place = Place::new(root, &program)?;
        if let Some(why) = place.prepare(&text)? {
            println!("skipped: {shown}: {why}");
            continue;
        }
        let made = remake(&text, long, &mut |block| {
            blocks += 1;
            place.output(block.command, block.filter)
        })
        .with_context(|| shown.clone())?;
        problems.extend(pictures::missing(&path, &text));
        if made.contains("```text\n```") {
            problems.push(format!("{shown}: a block was never made"));
        }
        for (new, old) in masked(&made).iter().zip(masked(&text)) {
            if *new != old {
                problems.push(format!(
                    "{shown}: a block differs from what its command prints:\n{old}\nand now:\n{new}"
                ));
            }
        }
        if !check && made != text {
            std::fs::write(&path, &made)?;
        }
        for (number, line) in commands(&made) {
            lines += 1;
            let wrong = unknown(line, &mut |subcommand| {
                let help = helps.entry(subcommand.to_owned()).or_insert_with(|| {
                    let line = format!("truecount {subcommand} --help");
                    place.output(&line, None).unwrap_or_default()
                });
                help.clone()
            });
            problems
                .extend(wrong.map(|what| format!("{shown}:{number}: there is no {what}: {line}")));
        }
    }
    if !check {
        problems.retain(|problem| !problem.contains("a block differs"));
    }
    if !problems.is_empty() {
        bail!("{}\ncargo xtask docs makes the blocks", problems.join("\n"));
    }
    println!(
        "docs: {blocks} blocks are what their commands print; {lines} command lines name what exists"
    );
    Ok(())
}

/// Makes the pictures of all pages anew.
fn draw(root: &Path) -> Result<()> {
    let program = build(root)?;
    for path in pages(root)? {
        let text = std::fs::read_to_string(&path)?;
        let place = Place::new(root, &program)?;
        let wanted = pictures::announced(&text);
        if let Some(why) = place.prepare(if wanted.is_empty() { "" } else { &text })? {
            println!("skipped: {}: {why}", path.display());
            continue;
        }
        for picture in wanted {
            let colour = "CLICOLOR_FORCE=1; export CLICOLOR_FORCE; unset NO_COLOR";
            let line = format!("{colour}; {{ {}; }} 2>/dev/null", picture.run);
            let target = path.with_file_name(picture.file);
            pictures::draw(&target, picture.shown, &place.output(&line, None)?)?;
            println!("{}", target.display());
        }
    }
    Ok(())
}

/// Cargo's directory for what it makes.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Builds the command; the program. (With its tests, and the features of the whole workspace: what `cargo test --workspace`
/// built serves, where it was run.)
pub fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args([
            "test",
            "--no-run",
            "--quiet",
            "--workspace",
            "--test",
            "cli",
        ])
        .status()
        .context("cannot start cargo test")?;
    if !status.success() {
        bail!("truecount does not build");
    }
    Ok(target(root).join("debug/truecount"))
}

/// The README and everything below `docs`.
fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = crate::site::pages(&root.join("docs"))?;
    pages.push(root.join("README.md"));
    pages.sort();
    Ok(pages)
}

/// Where a page's commands run: a scratch directory, removed at the end, and the workspace.
struct Place {
    root: PathBuf,
    scratch: PathBuf,
    path: std::ffi::OsString,
    prepared: std::cell::Cell<bool>,
}

impl Place {
    fn new(root: &Path, program: &Path) -> Result<Self> {
        let scratch = std::env::temp_dir().join(format!("truecount-docs-{}", std::process::id()));
        std::fs::create_dir_all(&scratch)
            .with_context(|| format!("cannot make {}", scratch.display()))?;
        let mut path = program.parent().unwrap_or(root).as_os_str().to_owned();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        Ok(Self {
            root: root.to_owned(),
            scratch,
            path,
            prepared: std::cell::Cell::new(false),
        })
    }

    /// Runs the page's preparations; why they cannot be made on this machine.
    fn prepare(&self, text: &str) -> Result<Option<String>> {
        for line in text.lines() {
            let Some(command) = line
                .strip_prefix(PREPARE)
                .and_then(|rest| rest.strip_suffix(" -->"))
            else {
                continue;
            };
            self.prepared.set(true);
            let output = self.shell(command)?;
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr);
                return Ok(Some(format!("`{command}`: {}", why.trim_end())));
            }
        }
        Ok(None)
    }

    /// What a command line of a page prints: `truecount` is the one just built.
    fn output(&self, line: &str, filter: Option<&str>) -> Result<String> {
        let whole = match filter {
            Some(filter) => format!("{{ {line}; }} 2>&1 | {filter}"),
            None => format!("{{ {line}; }} 2>&1"),
        };
        let output = self.shell(&whole)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn shell(&self, line: &str) -> Result<std::process::Output> {
        let directory = match self.prepared.get() {
            true => &self.scratch,
            false => &self.root,
        };
        Command::new("sh")
            .args(["-c", line])
            .current_dir(directory)
            .env("PATH", &self.path)
            .env("ROOT", &self.root)
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            // Commits of a page have the same names whenever and by whomever they are made.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs(["AUTHOR", "COMMITTER"].into_iter().flat_map(|role| {
                [
                    (format!("GIT_{role}_NAME"), "You"),
                    (format!("GIT_{role}_EMAIL"), "you@example.org"),
                    (format!("GIT_{role}_DATE"), "2026-01-01T12:00:00Z"),
                ]
            }))
            .stdin(std::process::Stdio::null())
            .output()
            .context("cannot start sh")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// The block that a line announces.
fn announced(line: &str) -> Option<Block<'_>> {
    let rest = line.strip_prefix(OUTPUT)?.strip_suffix(" -->")?;
    let (kind, rest) = rest.split_once(": ")?;
    let kind = match kind {
        "" => Kind::Whole,
        ", varying" => Kind::Varying,
        ", long" => Kind::Long,
        _ => return None,
    };
    let (command, filter) = match rest.split_once(" ||| ") {
        Some((command, filter)) => (command, Some(filter)),
        None => (rest, None),
    };
    Some(Block {
        kind,
        command,
        filter,
    })
}

/// The page with its marked blocks made anew.
fn remake(
    text: &str,
    long: bool,
    run: &mut dyn FnMut(&Block<'_>) -> Result<String>,
) -> Result<String> {
    let mut made = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        made.push_str(line);
        made.push('\n');
        if !line.starts_with(OUTPUT) {
            continue;
        }
        let Some(block) = announced(line) else {
            bail!("`{line}`: write `output: …`, `output, varying: …` or `output, long: …`");
        };
        if block.kind == Kind::Long && !long {
            continue;
        }
        if !lines.next().is_some_and(|fence| fence.starts_with("```")) {
            bail!("`{line}`: a code block must follow at once");
        }
        if !lines.by_ref().any(|line| line == "```") {
            bail!("`{line}`: its code block has no end");
        }
        let printed = run(&block)?;
        let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let printed = printed.join("\n");
        made.push_str(&format!("```text\n$ {}\n", block.command));
        match printed.trim_matches('\n') {
            "" => {}
            printed => {
                made.push_str(printed);
                made.push('\n');
            }
        }
        made.push_str("```\n");
    }
    Ok(made)
}

/// The marked blocks that are compared, with numbers and runs of spaces as one sign each.
fn masked(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(block) = announced(line) else {
            continue;
        };
        if block.kind == Kind::Long {
            continue;
        }
        let inside = lines.by_ref().skip(1).take_while(|line| *line != "```");
        let kept = match block.kind {
            Kind::Varying => 2,
            _ => usize::MAX,
        };
        let inside: Vec<String> = inside
            .collect::<Vec<_>>()
            .into_iter()
            .take(kept)
            .map(mask)
            .collect();
        blocks.push(inside.join("\n"));
    }
    blocks
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
    if ["profile", "history"].contains(&subcommand.as_str())
        && let Some(inner) = words.peek().filter(|word| !word.starts_with('-'))
    {
        subcommand = format!("{subcommand} {inner}");
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
        let made = remake(PAGE, false, &mut |block| {
            asked.push(block.command.to_owned());
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
        let again = remake(&made, false, &mut |_| Ok("a       77\nb".to_owned())).unwrap();
        assert_eq!(masked(&again), masked(&made));
        let other = remake(&made, false, &mut |_| Ok("a 77\nc".to_owned())).unwrap();
        assert_ne!(masked(&other), masked(&made));
        assert!(
            remake("<!-- output: truecount -->\ntext\n", false, &mut |_| Ok(
                String::new()
            ))
            .is_err()
        );
    }

    #[test]
    fn varying_blocks_keep_their_first_line_and_long_ones_are_left() {
        let page = "<!-- output, varying: truecount noise -- a ||| head -9 -->\n```\n$ x\nhead 1\nrow\n```\n\
                    <!-- output, long: truecount noise -- b -->\n```\nold\n```\n";
        let mut filters = Vec::new();
        let made = remake(page, false, &mut |block| {
            filters.push(block.filter.map(str::to_owned));
            Ok("head 2\nother row".to_owned())
        });
        let made = made.unwrap();
        assert_eq!(filters, [Some("head -9".to_owned())]);
        assert!(
            made.contains("$ truecount noise -- a\nhead 2\nother row\n```\n"),
            "{made}"
        );
        assert!(made.ends_with("old\n```\n"), "{made}");
        let rows = made.replace("other row", "third");
        assert_eq!(masked(&made), masked(&rows));
        assert_ne!(masked(&made), masked(&made.replace("head 2", "tail 2")));
        let whole = remake(page, true, &mut |_| Ok("new".to_owned())).unwrap();
        assert!(
            whole.ends_with("$ truecount noise -- b\nnew\n```\n"),
            "{whole}"
        );
        let wrong = "<!-- output, sometimes: truecount -->\n```\n```\n";
        assert!(remake(wrong, false, &mut |_| Ok(String::new())).is_err());
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
