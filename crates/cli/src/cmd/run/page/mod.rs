//! The tree of calls as a page (`run --html`): a flame graph that zooms and searches, functions, who calls whom, and the
//! code of those that cost most, with the exact count of every line and instruction.

mod code;

use serde::Serialize;
use std::collections::BTreeMap;
use truecount_model::number::grouped;
use truecount_run::calls::CallTree;
use truecount_run::functions::FunctionCosts;

use super::INSTRUCTIONS;
use crate::render::markup::escape;
use crate::render::page;
use code::Code;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Paths in the page: a browser takes some 20 bytes of text for each. The smallest are left to their callers.
const MAX_NODES: usize = 250_000;

/// What the script reads.
#[derive(Serialize)]
struct Data<'a> {
    functions: Vec<(&'a str, &'a str)>,
    /// By node: index of the caller's, or -1; the function; calls; own cost.
    parent: Vec<i64>,
    node: Vec<usize>,
    calls: Vec<u64>,
    own: Vec<u64>,
    total: u64,
    /// By name and module.
    code: BTreeMap<String, Code>,
}

/// The page.
pub(super) fn page(tree: &CallTree, command: &str, costs: &[FunctionCosts]) -> String {
    let (kept, left_out) = kept(tree);
    let mut data = Data {
        functions: tree
            .functions
            .iter()
            .map(|called| (called.name.as_str(), called.module.as_str()))
            .collect(),
        parent: Vec::new(),
        node: Vec::new(),
        calls: Vec::new(),
        own: Vec::new(),
        total: tree.total,
        code: code::of(costs),
    };
    // Where each node is in the page: itself, or its caller.
    let mut places: Vec<Option<usize>> = Vec::with_capacity(tree.nodes.len());
    for (node, kept) in tree.nodes.iter().zip(&kept) {
        let parent = node.parent.and_then(|parent| places.get(parent)).copied();
        let parent = parent.flatten();
        if !kept && let Some(parent) = parent {
            if let Some(own) = data.own.get_mut(parent) {
                *own = own.wrapping_add(node.own);
            }
            places.push(Some(parent));
            continue;
        }
        places.push(Some(data.node.len()));
        data.parent
            .push(parent.map_or(-1, |parent| i64::try_from(parent).unwrap_or(-1)));
        data.node.push(node.function);
        data.calls.push(node.calls);
        data.own.push(node.own);
    }
    // In a script element nothing ends it but its own end.
    let json = serde_json::to_string(&data)
        .unwrap_or_else(|_| "null".to_owned())
        .replace("</", "<\\/")
        .replace("<!--", "<\\u0021--");
    let title = format!("{command}: calls");
    let mut html = page::open(&title, STYLE);
    html.push_str(&format!(
        "<header><h1>{}</h1><p>Exact counts of {INSTRUCTIONS}, by path of calls</p></header>\n",
        escape(command)
    ));
    let (total, paths) = (grouped(tree.total), grouped(tree.nodes.len() as u64));
    let functions = grouped(tree.functions.len() as u64);
    html.push_str(&page::tiles([
        (total.as_str(), INSTRUCTIONS, ""),
        (paths.as_str(), "paths", ""),
        (functions.as_str(), "functions", ""),
    ]));
    let mut note = |text: String| html.push_str(&format!("<p class=\"warn\">{text}</p>\n"));
    for sentence in tree.folded_sentences() {
        note(format!("{}.", escape(&sentence)));
    }
    if left_out > 0 {
        note(format!(
            "The {} smallest paths are not in this page: their cost is shown as their callers' own.",
            grouped(left_out as u64)
        ));
    }
    html.push_str(BODY);
    html.push_str(&format!(
        "<script type=\"application/json\" id=\"data\">{json}</script>\n<script>{SCRIPT}</script>\n{}",
        page::CLOSE
    ));
    html
}

const BODY: &str = "<div class=\"bar\"><input id=\"search\" type=\"search\" placeholder=\"search functions\" aria-label=\"Search functions\">\
<button id=\"out\" type=\"button\">whole run</button></div>\n\
<div id=\"tip\" aria-live=\"polite\"></div>\n\
<div id=\"flame\"><canvas id=\"canvas\" role=\"img\" aria-label=\"Flame graph: callers above, callees below, as wide as their inclusive cost\"></canvas></div>\n\
<h2>Functions</h2>\n<div class=\"wide\"><table><thead><tr><th class=\"r\"><button type=\"button\" data-key=\"all\">inclusive</button></th>\
<th class=\"r\">share</th><th class=\"r\"><button type=\"button\" data-key=\"own\">self</button></th>\
<th class=\"r spare\"><button type=\"button\" data-key=\"calls\">calls</button></th><th>function</th></tr></thead>\
<tbody id=\"functions\"></tbody></table></div>\n<p><button id=\"more\" type=\"button\" hidden></button></p>\n\
<section id=\"function\"></section>\n";

/// Which nodes are shown, and how many are not: with many, those of the largest inclusive cost. (Callers cost as much as
/// what they call, and come before it.)
fn kept(tree: &CallTree) -> (Vec<bool>, usize) {
    let nodes = &tree.nodes;
    if nodes.len() <= MAX_NODES {
        return (vec![true; nodes.len()], 0);
    }
    let mut kept: Vec<bool> = nodes.iter().map(|node| node.parent.is_none()).collect();
    let mut by_cost: Vec<usize> = (0..nodes.len()).filter(|&at| !kept[at]).collect();
    by_cost.sort_by_key(|&at| std::cmp::Reverse(nodes[at].inclusive));
    by_cost.truncate(MAX_NODES.saturating_sub(nodes.len() - by_cost.len()));
    for at in by_cost {
        kept[at] = true;
    }
    let shown = kept.iter().filter(|&&kept| kept).count();
    (kept, nodes.len() - shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_run::calls::{Called, Kind, Node};

    /// A tree of many paths, all called from one.
    pub(crate) fn wide(paths: usize) -> CallTree {
        let called = |name: &str| Called {
            name: name.to_owned(),
            module: "/bin/prog".to_owned(),
        };
        let node = |parent, own| Node {
            parent,
            function: usize::from(parent.is_some()),
            kind: Kind::Function,
            site: None,
            site_line: None,
            calls: 1,
            own,
            inclusive: 0,
            events: Vec::new(),
        };
        let mut tree = CallTree {
            functions: vec![called("main"), called("</script><b>")],
            nodes: vec![node(None, 1)],
            ..CallTree::default()
        };
        let more = (0..paths).map(|at| node(Some(0), at as u64));
        tree.nodes.extend(more);
        tree.sum();
        tree
    }

    #[test]
    fn names_do_not_end_the_script_and_nothing_is_lost() {
        let tree = wide(MAX_NODES + 1000);
        let html = page(&tree, "./prog <1>", &[]);
        assert_eq!(html.matches("</script>").count(), 2);
        assert!(html.contains("./prog &lt;1&gt;") && html.contains("smallest paths"));
        let data = html.split("id=\"data\">").nth(1).expect("data");
        let data = data.split("</script>").next().expect("data");
        let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
        let own = data["own"].as_array().expect("array");
        assert_eq!(own.len(), MAX_NODES);
        let sum: u64 = own.iter().filter_map(serde_json::Value::as_u64).sum();
        assert_eq!(sum, tree.total);
    }
}
