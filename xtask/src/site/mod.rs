//! `cargo xtask site [--check]`: the site, a book made by mdBook from `docs/` and from the command itself.
//!
//! The reference (options, exit statuses, metrics, CPU models, documents) is not written but printed by the command that was just
//! built, so that it cannot say anything else. `--check` makes the sources of the book and follows every link in
//! them, and in the README, without mdBook; where mdBook is installed, its pages are looked at too.

mod built;
mod links;
mod reference;

pub use links::pages;

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The task.
pub fn main(root: &Path, arguments: &[String]) -> Result<()> {
    let check = match arguments {
        [] => false,
        [only] if only == "--check" => true,
        _ => bail!("usage: cargo xtask site [--check]"),
    };
    let program = crate::docs::build(root)?;
    let site = crate::docs::target(root).join("site");
    let sources = site.join("src");
    if sources.exists() {
        std::fs::remove_dir_all(&sources)
            .with_context(|| format!("cannot empty {}", sources.display()))?;
    }
    copy(&root.join("docs"), &sources)?;
    for file in ["CHANGELOG.md", "SECURITY.md"] {
        let name = file.to_lowercase();
        std::fs::copy(root.join(file), sources.join(&name))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    let made = reference::write(&program, &root.join("docs/schemas"), &sources)?;
    let summary = summary(&std::fs::read_to_string(sources.join("SUMMARY.md"))?, &made);
    std::fs::write(sources.join("SUMMARY.md"), &summary)?;
    let book = std::fs::read_to_string(root.join("book.toml"))?;
    let book = book.replace("src = \"docs\"", "src = \"src\"");
    let book = book.replace("build-dir = \"target/book\"", "build-dir = \"book\"");
    let book = book.replace("\"docs/", "\"src/");
    std::fs::write(site.join("book.toml"), book)?;

    let mut problems = links::check(&sources)?;
    problems.extend(links::check_page(root, &root.join("README.md"))?);
    problems.extend(links::unlisted(&sources, &summary)?);
    let book = match mdbook(&site)? {
        Some(book) => {
            problems.extend(built::check(&book)?);
            Some(book)
        }
        None if check => {
            println!(
                "skipped: the pages as HTML: mdBook is not installed (cargo install mdbook --locked)"
            );
            None
        }
        None => bail!("mdBook is not installed: cargo install mdbook --locked"),
    };
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    println!(
        "site: {} pages, {} of them printed by the command; every link leads somewhere",
        links::pages(&sources)?.len(),
        made.len()
    );
    if let Some(book) = book {
        println!("{}", book.join("index.html").display());
    }
    Ok(())
}

/// Copies a directory with all below it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in
        std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?
    {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)
                .with_context(|| format!("cannot copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// The table of contents with the printed pages, which come before the part for developers.
fn summary(text: &str, made: &[reference::Page]) -> String {
    let mut list = String::from("# Reference\n\n");
    for page in made {
        list.push_str(&format!("- [{}](reference/{})\n", page.title, page.file));
    }
    list.push('\n');
    match text.split_once("# Development") {
        Some((before, after)) => format!("{before}{list}# Development{after}"),
        None => format!("{text}\n{list}"),
    }
}

/// Runs mdBook, where there is one; the directory of the pages.
fn mdbook(site: &Path) -> Result<Option<PathBuf>> {
    let output = match Command::new("mdbook").arg("build").arg(site).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("cannot start mdbook"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || said.contains("WARN") {
        bail!("mdbook: {}", said.trim_end());
    }
    Ok(Some(site.join("book")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_pages_stand_before_the_part_for_developers() {
        let made = [reference::Page {
            title: "Options".to_owned(),
            file: "options.md".to_owned(),
        }];
        let text = summary("- [a](a.md)\n\n# Development\n\n- [b](b.md)\n", &made);
        assert_eq!(
            text,
            "- [a](a.md)\n\n# Reference\n\n- [Options](reference/options.md)\n\n# Development\n\n- [b](b.md)\n"
        );
        assert!(
            summary("- [a](a.md)\n", &made)
                .ends_with("# Reference\n\n- [Options](reference/options.md)\n\n")
        );
    }
}
