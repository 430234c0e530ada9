//! Follows the links of Markdown pages: to files, and to headings in them. Addresses of the network are not fetched.

use anyhow::{Context as _, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a page offers and what it refers to.
#[derive(Debug, Default)]
struct Page {
    /// The anchors of its headings.
    anchors: BTreeSet<String>,
    /// Where its links and images lead.
    links: Vec<String>,
    /// Images that say nothing to those who cannot see them.
    silent: Vec<String>,
}

fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    let mut image: Option<(String, bool)> = None;
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let count = seen.entry(anchor.clone()).or_default();
                page.anchors.insert(match *count {
                    0 => anchor,
                    times => format!("{anchor}-{times}"),
                });
                *count += 1;
            }
            Event::Start(Tag::Link { dest_url, .. }) => page.links.push(dest_url.into_string()),
            Event::Start(Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.to_string());
                image = Some((dest_url.into_string(), false));
            }
            Event::End(TagEnd::Image) => {
                if let Some((destination, false)) = image.take() {
                    page.silent.push(destination);
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
                if let Some((_, told)) = &mut image {
                    *told |= !text.trim().is_empty();
                }
            }
            _ => {}
        }
    }
    page
}

/// The anchor that mdBook and forges make of a heading.
fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            other if other.is_alphanumeric() => Some(other),
            _ => None,
        })
        .collect()
}

/// All files below a directory whose names end so, sorted.
pub fn files(directory: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)
            .with_context(|| format!("cannot read {}", directory.display()))?
        {
            let path = entry?.path();
            let ending = path.extension().and_then(|ending| ending.to_str());
            if path.is_dir() {
                open.push(path);
            } else if ending.is_some_and(|ending| endings.contains(&ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// All pages below a directory.
pub fn pages(directory: &Path) -> Result<Vec<PathBuf>> {
    files(directory, &["md"])
}

/// The links of all pages below `directory` that lead nowhere, or out of it.
pub fn check(directory: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in pages(directory)? {
        problems.extend(check_page(directory, &path)?);
    }
    Ok(problems)
}

/// The links of one page that lead nowhere, or out of `directory`.
pub fn check_page(directory: &Path, path: &Path) -> Result<Vec<String>> {
    let page = read(
        &std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?,
    );
    let shown = path.strip_prefix(directory).unwrap_or(path).display();
    let mut problems: Vec<String> = page
        .silent
        .iter()
        .map(|image| format!("{shown}: the image {image} has no text beside it"))
        .collect();
    for link in &page.links {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, wanted) = match link.split_once('#') {
            Some((file, wanted)) => (file, Some(wanted)),
            None => (link.as_str(), None),
        };
        let target = match file {
            "" => path.to_owned(),
            file => path.parent().unwrap_or(directory).join(file),
        };
        let inside = target.canonicalize().is_ok_and(|target| {
            directory
                .canonicalize()
                .is_ok_and(|root| target.starts_with(root))
        });
        if !inside {
            problems.push(format!("{shown}: {link} leads nowhere"));
            continue;
        }
        if let Some(wanted) = wanted
            && target
                .extension()
                .is_some_and(|extension| extension == "md")
            && !read(&std::fs::read_to_string(&target)?)
                .anchors
                .contains(wanted)
        {
            problems.push(format!("{shown}: {link}: there is no such heading"));
        }
    }
    Ok(problems)
}

/// Pages that the table of contents does not list: nobody would find them.
pub fn unlisted(directory: &Path, summary: &str) -> Result<Vec<String>> {
    let listed = read(summary).links;
    let mut problems = Vec::new();
    for path in pages(directory)? {
        let name = path
            .strip_prefix(directory)
            .unwrap_or(&path)
            .display()
            .to_string();
        if name != "SUMMARY.md" && !listed.contains(&name) {
            problems.push(format!("{name} is not in SUMMARY.md"));
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_links_and_images() {
        let page = read(
            "# One `run --x`, two\n\n## Same\n\n## Same\n\n[a](b.md#c) ![](p.svg) ![told](q.svg)\n\n```\n[no](n.md)\n```\n",
        );
        let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["one-run---x-two", "same", "same-1"]);
        assert_eq!(page.links, ["b.md#c", "p.svg", "q.svg"]);
        assert_eq!(page.silent, ["p.svg"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_told() {
        let directory =
            std::env::temp_dir().join(format!("truecount-links-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("in")).unwrap();
        std::fs::write(
            directory.join("a.md"),
            "# Top\n[1](in/b.md#there) [2](in/b.md#missing) [3](c.md) [4](#top) [5](../x) [6](https://example.org/)\n",
        )
        .unwrap();
        std::fs::write(directory.join("in/b.md"), "# There\n[up](../a.md)\n").unwrap();
        let problems = check(&directory).unwrap();
        let unlisted = unlisted(&directory, "- [a](a.md)\n").unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(
            problems,
            [
                "a.md: in/b.md#missing: there is no such heading",
                "a.md: c.md leads nowhere",
                "a.md: ../x leads nowhere",
            ]
        );
        assert_eq!(unlisted, ["in/b.md is not in SUMMARY.md"]);
    }
}
