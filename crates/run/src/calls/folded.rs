//! What a tree has no paths for.

use super::{CallTree, Kind};
use truecount_model::number::grouped;

impl CallTree {
    /// One sentence for what is in [`Kind::Other`], and one for calls that were too deep.
    pub fn folded_sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let others = || self.nodes.iter().filter(|node| node.kind == Kind::Other);
        if self.folded > 0 {
            let (calls, own) = others().fold((0u64, 0u64), |(calls, own), node| {
                (calls + node.calls, own.wrapping_add(node.own))
            });
            let share = 100.0 * own as f64 / self.total.max(1) as f64;
            let largest = others().max_by_key(|node| (node.own, node.calls));
            let below = largest
                .and_then(|node| self.nodes.get(node.parent?))
                .map_or_else(String::new, |above| {
                    format!(" (the largest one below {})", self.name(above))
                });
            let places = others().count() as u64;
            sentences.push(format!(
                "there was no room for more paths: {} calls that executed {} instructions ({share:.2} %) are in {} nodes \
                 [other], each below who called them{below}",
                grouped(calls),
                grouped(own),
                grouped(places)
            ));
        }
        if self.too_deep > 0 {
            sentences.push(format!(
                "{} calls were deeper than what is kept of a stack: what they cost is their callers'",
                grouped(self.too_deep)
            ));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    #[test]
    fn what_is_folded_is_told_with_calls_and_place() {
        let nodes = [
            (None, 0, 1, 100),
            (Some(0), 1, 2, 200),
            (Some(1), 2, 1234, 5000),
            (Some(0), 2, 6, 700),
        ];
        let mut tree = tree(&["main", "f", "[other]"], &nodes);
        assert_eq!(tree.folded_sentences(), Vec::<String>::new());
        for node in &mut tree.nodes {
            if node.function == 2 {
                node.kind = Kind::Other;
            }
        }
        (tree.folded, tree.too_deep) = (9, 1000);
        assert_eq!(
            tree.folded_sentences(),
            [
                "there was no room for more paths: 1,240 calls that executed 5,700 instructions (95.00 %) are in 2 nodes \
                 [other], each below who called them (the largest one below f)",
                "1,000 calls were deeper than what is kept of a stack: what they cost is their callers'",
            ]
        );
    }
}
