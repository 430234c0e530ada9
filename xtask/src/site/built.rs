//! Looks at the pages that mdBook made: nothing is fetched from elsewhere when they are opened.

use super::links;
use anyhow::{Context as _, Result};
use std::path::Path;

/// Resources that a page would fetch from the network when it is opened.
pub fn check(book: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in links::files(book, &["html", "css"])? {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path.strip_prefix(book).unwrap_or(&path).display();
        let addresses = fetched(&text).into_iter();
        problems.extend(addresses.map(|address| format!("{shown}: fetches {address}")));
    }
    Ok(problems)
}

/// Addresses of the network that opening a page or a style sheet fetches; links are not among them.
fn fetched(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (before, after) in [
        ("src=\"", '"'),
        ("url(\"", '"'),
        ("url('", '\''),
        ("url(", ')'),
        ("@import \"", '"'),
    ] {
        for rest in text.split(before).skip(1) {
            let address = rest.split(after).next().unwrap_or(rest);
            if address.starts_with("http:")
                || address.starts_with("https:")
                || address.starts_with("//")
            {
                found.push(address.to_owned());
            }
        }
    }
    for tag in text.split("<link ").skip(1) {
        let tag = tag.split('>').next().unwrap_or(tag);
        let address = tag
            .split("href=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        if let Some(address) =
            address.filter(|address| address.contains("//") && !tag.contains("canonical"))
        {
            found.push(address.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_fetched_counts() {
        let page = "<a href=\"https://a.example/\">x</a><img src=\"https://b.example/p.png\"><img src=\"p.png\">\
                    <link rel=\"stylesheet\" href=\"//c.example/s.css\"><link rel=\"icon\" href=\"favicon.svg\">\
                    <style>@font-face { src: url('https://d.example/f') }</style>";
        assert_eq!(
            fetched(page),
            [
                "https://b.example/p.png",
                "https://d.example/f",
                "//c.example/s.css"
            ]
        );
    }
}
