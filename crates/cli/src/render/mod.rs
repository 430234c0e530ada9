//! Ways to show results: text tables, JSON, CSV, Markdown, SVG, HTML.
