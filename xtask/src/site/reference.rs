//! Pages that the command prints: its options, exit statuses, metrics, CPU models, and the documents of `--json`.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// A page below `reference/`.
pub struct Page {
    pub title: String,
    pub file: String,
}

/// Writes all pages into `sources/reference`.
pub fn write(program: &Path, schemas: &Path, sources: &Path) -> Result<Vec<Page>> {
    let directory = sources.join("reference");
    std::fs::create_dir_all(&directory)?;
    let ask = |arguments: &[&str]| print(program, arguments);
    let mut pages = Vec::new();
    let mut page = |title: &str, file: &str, text: String| -> Result<()> {
        std::fs::write(directory.join(file), text)
            .with_context(|| format!("cannot write {file}"))?;
        pages.push(Page {
            title: title.to_owned(),
            file: file.to_owned(),
        });
        Ok(())
    };
    let main = ask(&["--help"])?;
    page(
        "Commands and options",
        "commands.md",
        commands(&main, &ask)?,
    )?;
    page("Exit statuses", "exit-statuses.md", statuses(&main)?)?;
    page("Metrics", "metrics.md", metrics(&ask)?)?;
    page("CPU models", "cpus.md", cpus(&ask)?)?;
    page("JSON documents", "documents.md", documents(schemas)?)?;
    Ok(pages)
}

/// What the command prints, 90 columns wide and without colour.
fn print(program: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("COLUMNS", "90")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "truecount {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The names below "Commands:" of a help text.
fn subcommands(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

type Ask<'a> = dyn Fn(&[&str]) -> Result<String> + 'a;

fn commands(main: &str, ask: &Ask<'_>) -> Result<String> {
    let mut names: Vec<Vec<String>> = subcommands(main)
        .into_iter()
        .map(|name| vec![name.to_owned()])
        .collect();
    names.sort();
    let mut text = String::from(
        "# Commands and options\n\nThe help of every command, as `--help` prints it.\n\n",
    );
    text.push_str(&fenced(main));
    let mut at = 0;
    while let Some(name) = names.get(at).cloned() {
        let mut arguments: Vec<&str> = name.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = ask(&arguments)?;
        text.push_str(&format!(
            "## truecount {}\n\n{}",
            name.join(" "),
            fenced(&help)
        ));
        let inner = subcommands(&help).into_iter().map(|inner| {
            let mut longer = name.clone();
            longer.push(inner.to_owned());
            longer
        });
        names.splice(at + 1..at + 1, inner);
        at += 1;
    }
    if at < 2 {
        bail!("`truecount --help` lists no commands");
    }
    Ok(text)
}

fn fenced(text: &str) -> String {
    format!("```text\n{}\n```\n\n", text.trim_matches('\n'))
}

fn statuses(main: &str) -> Result<String> {
    let Some((_, section)) = main.split_once("EXIT STATUS\n") else {
        bail!("`truecount --help` has no section EXIT STATUS");
    };
    let mut rows = String::new();
    let mut rest = String::new();
    for line in section.lines() {
        match line.strip_prefix("  ").and_then(|row| row.split_once(' ')) {
            Some((status, meaning)) if status.parse::<u8>().is_ok() => {
                rows.push_str(&format!("| {status} | {} |\n", cell(meaning)));
            }
            _ => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
    }
    Ok(format!(
        "# Exit statuses\n\n| status | meaning |\n|---|---|\n{rows}\n{}\n",
        rest.trim()
    ))
}

/// Text as a table's cell: nothing in it is markup.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for character in text.trim().chars() {
        if matches!(character, '|' | '<' | '>' | '*' | '_' | '`' | '[' | ']') {
            out.push('\\');
        }
        out.push(if character == '\n' { ' ' } else { character });
    }
    out
}

/// The metrics of the CPUs that show most of them.
fn metrics(ask: &Ask<'_>) -> Result<String> {
    let mut text = String::from(
        "# Metrics\n\nWhat `-M NAME` takes, for one CPU of each kind; `truecount events --metrics --cpu MODEL` prints those of any other, \
         `--long` the formula and the events of each. [Metrics and the whole machine](../metrics.md) explains them.\n\n",
    );
    for cpu in ["spr", "zen4", "neoverse-n1"] {
        let printed = ask(&["events", "--metrics", "--cpu", cpu])?;
        text.push_str(&format!("## {cpu}\n\n{}", fenced(&printed)));
    }
    Ok(text)
}

fn cpus(ask: &Ask<'_>) -> Result<String> {
    let printed = ask(&["events", "--cpu", "list"])?;
    Ok(format!(
        "# CPU models\n\nThe CPUs whose events have names here. `truecount events --cpu MODEL --long` lists them with encodings and sources.\n\n{}",
        fenced(&printed)
    ))
}

/// One section for each schema: its title, and the members of the document.
fn documents(schemas: &Path) -> Result<String> {
    let mut files: Vec<_> = std::fs::read_dir(schemas)
        .with_context(|| format!("cannot read {}", schemas.display()))?
        .collect::<std::io::Result<Vec<_>>>()?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let mut text = String::from(
        "# JSON documents\n\nEvery command that measures prints one document with `--json`; `--json=FILE` writes it there. Each has a \
         schema (JSON Schema 2020-12), whose number grows when a member changes its meaning or goes.\n\n",
    );
    for file in files {
        let schema: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)
            .with_context(|| format!("{} is not JSON", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let title = schema["title"].as_str().unwrap_or(&name);
        text.push_str(&format!(
            "## {}\n\n[schemas/{name}](../schemas/{name})\n\n",
            cell(title)
        ));
        let Some(properties) = schema["properties"].as_object() else {
            continue;
        };
        text.push_str("| member | type | meaning |\n|---|---|---|\n");
        for (name, property) in properties {
            text.push_str(&format!(
                "| {} | {} | {} |\n",
                cell(name),
                cell(&kind(property)),
                cell(property["description"].as_str().unwrap_or(""))
            ));
        }
        text.push('\n');
    }
    Ok(text)
}

/// The type of a member in a few words.
fn kind(property: &Value) -> String {
    if let Some(value) = property.get("const") {
        return value.to_string();
    }
    if let Some(reference) = property["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap_or(reference).to_owned();
    }
    if let Some(values) = property["enum"].as_array() {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return values.join(", ");
    }
    match &property["type"] {
        Value::String(name) if name == "array" => {
            let inner = kind(&property["items"]);
            format!(
                "array of {}",
                if inner.is_empty() { "values" } else { &inner }
            )
        }
        Value::String(name) => name.clone(),
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Say\n\nUsage: truecount <COMMAND>\n\nCommands:\n  bench        Measure\n               and more\n  help         Print\n\nOptions:\n  -h\n\nEXIT STATUS\n  0    success\n  123  void <now>\n`stat` exits\n";

    #[test]
    fn help_is_taken_apart() {
        assert_eq!(subcommands(HELP), ["bench"]);
        let text = statuses(HELP).unwrap();
        assert!(
            text.contains("| 0 | success |\n| 123 | void \\<now\\> |\n\n`stat` exits\n"),
            "{text}"
        );
        assert!(statuses("no section").is_err());
    }

    #[test]
    fn inner_commands_follow_theirs() {
        let main = "Commands:\n  b  x\n  a  y\n\n";
        let ask = |arguments: &[&str]| -> Result<String> {
            Ok(match arguments {
                ["a", "--help"] => "Commands:\n  inner  z\n\n".to_owned(),
                other => other.join(" "),
            })
        };
        let text = commands(main, &ask).unwrap();
        let headings: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("## "))
            .collect();
        assert_eq!(
            headings,
            ["## truecount a", "## truecount a inner", "## truecount b"]
        );
    }

    #[test]
    fn types_of_members() {
        for (schema, expected) in [
            (r#"{"const":"a/1"}"#, "\"a/1\""),
            (r##"{"$ref":"common.json#/$defs/reading"}"##, "reading"),
            (r#"{"type":["string","null"]}"#, "string or null"),
            (
                r#"{"type":"array","items":{"type":"string"}}"#,
                "array of string",
            ),
            (r#"{"enum":["a","b"]}"#, "\"a\", \"b\""),
        ] {
            assert_eq!(kind(&serde_json::from_str(schema).unwrap()), expected);
        }
    }
}
