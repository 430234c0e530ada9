//! Ways to show results: text tables, JSON, CSV, Markdown, SVG, HTML.

pub(crate) mod callgrind;
pub(crate) mod calls_diff;
pub(crate) mod charts;
pub(crate) mod csv;
pub(crate) mod cycles;
pub(crate) mod json;
pub(crate) mod markup;
pub(crate) mod page;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod waiting;
pub(crate) mod width;
