//! What a registry and its readers want of every package that is published: its metadata, a page, and a word about each
//! feature on it.

use super::Finding;
use serde_json::Value;
use std::path::Path;

/// All packages that are published.
pub fn check(metadata: &Value) -> Vec<Finding> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let list = metadata["packages"].as_array();
    let published = list.into_iter().flatten().filter(|package| {
        // `publish = false` is an empty list of registries.
        package["publish"]
            .as_array()
            .is_none_or(|to| !to.is_empty())
    });
    published
        .flat_map(|package| {
            let manifest = package["manifest_path"].as_str().unwrap_or_default();
            let directory = Path::new(manifest).parent().unwrap_or(Path::new(""));
            let page = package["readme"].as_str();
            let page = page.and_then(|page| std::fs::read_to_string(directory.join(page)).ok());
            let path = manifest.strip_prefix(root).unwrap_or(manifest);
            of(package, page.as_deref())
                .into_iter()
                .map(move |message| Finding::new(path.trim_start_matches('/'), 0, message))
        })
        .collect()
}

/// What is missing in one of them, whose page is this.
fn of(package: &Value, page: Option<&str>) -> Vec<String> {
    let mut missing = Vec::new();
    for field in ["description", "license", "rust_version"] {
        if package[field].as_str().is_none_or(str::is_empty) {
            missing.push(format!("a package that is published has a {field}"));
        }
    }
    for field in ["keywords", "categories", "authors"] {
        if package[field].as_array().is_none_or(Vec::is_empty) {
            missing.push(format!("a package that is published has {field}"));
        }
    }
    let Some(page) = page else {
        missing.push("a package that is published has a README, and names it".to_owned());
        return missing;
    };
    let features = package["features"].as_object();
    for feature in features.into_iter().flatten().map(|(feature, _)| feature) {
        if feature != "default" && !page.contains(&format!("`{feature}`")) {
            missing.push(format!(
                "its README says nothing of the feature `{feature}`"
            ));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn whole() -> Value {
        json!({
            "name": "one", "description": "what it is", "license": "MIT", "rust_version": "1.88",
            "keywords": ["a"], "categories": ["b"], "authors": ["c"],
            "features": {"default": [], "symbols": ["dep:other"]},
        })
    }

    #[test]
    fn what_is_missing_is_named() {
        let page = "# one\n\nFeatures: `symbols`.\n";
        assert_eq!(of(&whole(), Some(page)), [""; 0]);
        assert_eq!(of(&whole(), None).len(), 1);
        assert_eq!(
            of(&whole(), Some("# one\n\nsymbols\n")),
            ["its README says nothing of the feature `symbols`"]
        );
        let mut bare = whole();
        bare["description"] = Value::Null;
        bare["keywords"] = json!([]);
        let found = of(&bare, Some(page)).join("\n");
        assert!(
            found.contains("a description") && found.contains("has keywords"),
            "{found}"
        );
    }

    #[test]
    fn what_is_not_published_needs_none() {
        let mut package = json!({"manifest_path": "/w/crates/one/Cargo.toml", "publish": null});
        let found =
            |package: &Value| check(&json!({"workspace_root": "/w", "packages": [package]}));
        let findings = found(&package);
        assert!(
            findings.len() > 3 && findings[0].path == "crates/one/Cargo.toml",
            "{findings:?}"
        );
        package["publish"] = json!([]);
        assert_eq!(found(&package), []);
    }
}
