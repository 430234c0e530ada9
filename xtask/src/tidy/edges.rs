//! The dependency edges: `cargo metadata` against the table in `docs/architecture.md`.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::Finding;

const DOCUMENT: &str = "docs/architecture.md";

/// The crate that users embed, and all that it and the crates under it may pull in.
const EMBEDDED: &[&str] = &[
    "truecount",
    "truecount-model",
    "truecount-perf",
    "truecount-events",
];
const EMBEDDED_MAY_USE: &[&str] = &["libc", "perf-event-open-sys"];

/// The directory's short name (`perf`) to the short names it may use; `None`: all.
type Table = BTreeMap<String, Option<BTreeSet<String>>>;

/// A workspace crate with what it depends on, except for tests.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    /// `crates/perf`
    directory: String,
    /// Name, and whether it is optional.
    dependencies: BTreeSet<(String, bool)>,
}

/// Reads the table and compares.
pub fn check(root: &Path, metadata: &Value) -> Result<Vec<Finding>> {
    let document = root.join(DOCUMENT);
    let text = std::fs::read_to_string(&document)
        .with_context(|| format!("cannot read {}", document.display()))?;
    Ok(compare(&parse_table(&text), &packages(metadata)))
}

/// What cargo says of the workspace's packages.
pub fn metadata(root: &Path) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .output()
        .context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")
}

/// The library crates, by the same table: all but those that may use everything.
pub fn libraries(root: &Path) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(root.join(DOCUMENT))
        .with_context(|| format!("cannot read {DOCUMENT}"))?;
    let table = parse_table(&text);
    Ok(table
        .into_iter()
        .filter_map(|(name, uses)| uses.map(|_| name))
        .collect())
}

/// Rows `| `crates/X` | … | … | uses |` of the document.
fn parse_table(text: &str) -> Table {
    let mut table = Table::new();
    for line in text.lines().filter(|line| line.starts_with("| `crates/")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
            continue;
        };
        let directory = first
            .trim_matches('`')
            .trim_start_matches("crates/")
            .trim_end_matches('/');
        let uses = match *last {
            "all" => None,
            "–" | "-" | "" => Some(BTreeSet::new()),
            list => Some(
                list.split(',')
                    .map(|name| name.trim().trim_matches('`').to_owned())
                    .collect(),
            ),
        };
        table.insert(directory.to_owned(), uses);
    }
    table
}

fn packages(metadata: &Value) -> Vec<Package> {
    let list = metadata["packages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let package = |value: &Value| {
        let manifest = value["manifest_path"].as_str()?;
        let directory = manifest.strip_suffix("/Cargo.toml")?;
        let root = metadata["workspace_root"].as_str()?;
        let dependencies = value["dependencies"].as_array()?;
        Some(Package {
            name: value["name"].as_str()?.to_owned(),
            directory: directory
                .strip_prefix(root)?
                .trim_start_matches('/')
                .to_owned(),
            dependencies: dependencies
                .iter()
                .filter(|dependency| dependency["kind"] != "dev")
                .filter_map(|dependency| {
                    let optional = dependency["optional"].as_bool().unwrap_or(false);
                    Some((dependency["name"].as_str()?.to_owned(), optional))
                })
                .collect(),
        })
    };
    list.iter().filter_map(package).collect()
}

fn compare(table: &Table, packages: &[Package]) -> Vec<Finding> {
    let short = |directory: &str| directory.strip_prefix("crates/").map(str::to_owned);
    let by_name: BTreeMap<&str, Option<String>> = packages
        .iter()
        .map(|package| (package.name.as_str(), short(&package.directory)))
        .collect();
    let mut findings = Vec::new();
    for package in packages {
        // Development tasks may use what they like.
        let Some(own) = short(&package.directory) else {
            continue;
        };
        let path = format!("{}/Cargo.toml", package.directory);
        let Some(allowed) = table.get(&own) else {
            findings.push(Finding::new(
                DOCUMENT,
                0,
                format!("crates/{own} is not in the table of crates"),
            ));
            continue;
        };
        for (dependency, optional) in &package.dependencies {
            let inside = by_name.get(dependency.as_str());
            if let Some(target) = inside {
                let target = target.clone().unwrap_or_else(|| dependency.clone());
                if allowed
                    .as_ref()
                    .is_some_and(|allowed| !allowed.contains(&target))
                {
                    let message =
                        format!("{own} must not depend on {target} (the table in {DOCUMENT})");
                    findings.push(Finding::new(&path, 0, message));
                }
            } else if EMBEDDED.contains(&package.name.as_str())
                && !optional
                && !EMBEDDED_MAY_USE.contains(&dependency.as_str())
            {
                let message = format!(
                    "{dependency}: what users embed depends on {} only",
                    EMBEDDED_MAY_USE.join(" and ")
                );
                findings.push(Finding::new(&path, 0, message));
            }
        }
    }
    for directory in table.keys() {
        if !packages
            .iter()
            .any(|package| short(&package.directory).as_ref() == Some(directory))
        {
            findings.push(Finding::new(
                DOCUMENT,
                0,
                format!("crates/{directory} does not exist"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| directory | crate | what lives there | may use |
|---|---|---|---|
| `crates/perf` | `truecount-perf` | system calls | – |
| `crates/count` | `truecount` | counters | perf, events |
| `crates/cli` | `truecount-cli` | the command | all |
| `xtask` | – | tasks | – |
";

    fn package(name: &str, directory: &str, dependencies: &[(&str, bool)]) -> Package {
        Package {
            name: name.to_owned(),
            directory: directory.to_owned(),
            dependencies: dependencies
                .iter()
                .map(|&(name, optional)| (name.to_owned(), optional))
                .collect(),
        }
    }

    #[test]
    fn the_table_is_read() {
        let table = parse_table(TABLE);
        assert_eq!(table.keys().collect::<Vec<_>>(), ["cli", "count", "perf"]);
        assert_eq!(table["cli"], None);
        assert_eq!(table["perf"], Some(BTreeSet::new()));
        assert!(table["count"].as_ref().unwrap().contains("events"));
    }

    #[test]
    fn edges_against_the_table() {
        let table = parse_table(TABLE);
        let good = [
            package(
                "truecount-perf",
                "crates/perf",
                &[("libc", false), ("zstd", true)],
            ),
            package("truecount", "crates/count", &[("truecount-perf", false)]),
            package(
                "truecount-cli",
                "crates/cli",
                &[("truecount", false), ("clap", false)],
            ),
            package("xtask", "xtask", &[("truecount-cli", false)]),
        ];
        assert_eq!(compare(&table, &good), []);
        let bad = [
            package(
                "truecount-perf",
                "crates/perf",
                &[("truecount", false), ("anyhow", false)],
            ),
            package("truecount", "crates/count", &[]),
            package("truecount-new", "crates/new", &[]),
        ];
        let found: Vec<String> = compare(&table, &bad)
            .into_iter()
            .map(|f| f.message)
            .collect();
        assert_eq!(found.len(), 4, "{found:?}");
        for (message, words) in found.iter().zip([
            "anyhow",
            "perf must not depend on count",
            "crates/new",
            "crates/cli does not exist",
        ]) {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
    }

    #[test]
    fn cargos_metadata_is_read() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [{
                "name": "truecount-perf",
                "manifest_path": "/w/crates/perf/Cargo.toml",
                "dependencies": [
                    {"name": "libc", "kind": null, "optional": false},
                    {"name": "proptest", "kind": "dev", "optional": false},
                    {"name": "cc", "kind": "build", "optional": true},
                ],
            }],
        });
        let expected = package(
            "truecount-perf",
            "crates/perf",
            &[("libc", false), ("cc", true)],
        );
        assert_eq!(packages(&metadata), [expected]);
    }
}
