//! What is inside: an SPDX 2.3 document of the crates that the program is linked from, as cargo resolves them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// The document.
pub(super) fn document(root: &Path, version: &str, time: u64) -> Result<Vec<u8>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let inside = reachable(&metadata, "truecount-cli");
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut described = Vec::new();
    let mut relations = vec![json!({
        "spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-truecount-cli",
    })];
    for package in packages {
        let id = package["id"].as_str().unwrap_or_default();
        if !inside.contains(id) {
            continue;
        }
        let (name, number) = (text(package, "name"), text(package, "version"));
        let reference = if name == "truecount-cli" {
            "SPDXRef-truecount-cli".to_owned()
        } else {
            let reference = format!("SPDXRef-{name}-{}", number.replace('+', "-"));
            relations.push(json!({
                "spdxElementId": "SPDXRef-truecount-cli", "relationshipType": "CONTAINS", "relatedSpdxElement": reference,
            }));
            reference
        };
        let licence = package["license"]
            .as_str()
            .map(|licence| licence.replace('/', " OR "));
        described.push(json!({
            "SPDXID": reference, "name": name, "versionInfo": number,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
            "licenseDeclared": licence.unwrap_or_else(|| "NOASSERTION".into()),
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": format!("pkg:cargo/{name}@{number}"),
            }],
        }));
    }
    let document = json!({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("truecount-{version}"),
        "documentNamespace": format!("urn:truecount:{version}:{time}"),
        "creationInfo": {"created": date(time), "creators": ["Tool: cargo-xtask-dist"]},
        "packages": described, "relationships": relations,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?).into_bytes())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The packages that a package is linked from: its dependencies for building and testing apart.
fn reachable(metadata: &Value, from: &str) -> BTreeSet<String> {
    let nodes = metadata["resolve"]["nodes"].as_array();
    let nodes: Vec<&Value> = nodes.into_iter().flatten().collect();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut left: Vec<String> = packages
        .filter(|package| package["name"] == from)
        .map(|package| text(package, "id").to_owned())
        .collect();
    let mut found = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !found.insert(id.clone()) {
            continue;
        }
        for node in nodes.iter().filter(|node| node["id"] == *id) {
            for dependency in node["deps"].as_array().into_iter().flatten() {
                let kinds = dependency["dep_kinds"].as_array();
                if kinds
                    .into_iter()
                    .flatten()
                    .any(|kind| kind["kind"].is_null())
                {
                    left.push(text(dependency, "pkg").to_owned());
                }
            }
        }
    }
    found
}

/// RFC 3339, from seconds since the epoch (the civil calendar from days, as Howard Hinnant's paper on date algorithms
/// has it).
fn date(time: u64) -> String {
    let (days, second) = (time / 86_400, time % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(super::date(0), "1970-01-01T00:00:00Z");
        assert_eq!(super::date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(super::date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(super::date(1_795_305_600), "2026-11-22T00:00:00Z");
    }
}
