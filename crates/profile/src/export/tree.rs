//! The tree of labels: each node a different stack, with its own (self) cost.

use crate::event::Payload;
use crate::file::Profile;
use crate::labels::Labels;
use crate::threads::Threads;
use rustc_hash::FxHashMap;

/// One stack.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Number of the label; of the root it means nothing.
    pub(super) label: u32,
    /// The stack without its last label; the root's is itself.
    pub(super) parent: u32,
    /// Cost in it but not in what is nested.
    pub(super) own: i64,
    /// How many intervals have exactly this stack.
    pub(super) count: u64,
}

/// The tree; node 0 is the root, and a parent's number is below its children's.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) labels: Vec<String>,
}

struct Open {
    start: u64,
    end: u64,
    node: u32,
}

#[derive(Default)]
struct Thread {
    stack: Vec<Open>,
    extent: Option<(u64, u64)>,
    top_level: u64,
}

impl Tree {
    /// Of a profile. The root's own cost is the gaps between the intervals of a thread that nothing encloses.
    pub(super) fn new(profile: &Profile) -> Self {
        let mut labels = Labels::new(profile);
        let mut nodes = vec![Node {
            label: 0,
            parent: 0,
            own: 0,
            count: 0,
        }];
        let mut children: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut threads = Threads::<Thread>::new();
        profile.events().each_back(|event| {
            let Payload::Interval { start, end } = event.payload else {
                return;
            };
            if start > end {
                return;
            }
            let label = labels.of(event.id);
            let thread = threads.get(event.thread);
            while let Some(top) = thread.stack.last() {
                if top.start <= start && end <= top.end {
                    break;
                }
                thread.stack.pop();
            }
            let extent = thread.extent.get_or_insert((start, end));
            *extent = (extent.0.min(start), extent.1.max(end));
            let duration = end - start;
            let parent = thread.stack.last().map_or(0, |top| top.node);
            if parent == 0 {
                thread.top_level = thread.top_level.saturating_add(duration);
            } else if let Some(node) = nodes.get_mut(parent as usize) {
                node.own = node.own.saturating_sub(duration as i64);
            }
            let next = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            let node = *children.entry((parent, label)).or_insert(next);
            if node == next {
                nodes.push(Node {
                    label,
                    parent,
                    own: 0,
                    count: 0,
                });
            }
            if let Some(node) = nodes.get_mut(node as usize) {
                node.own = node.own.saturating_add(duration as i64);
                node.count += 1;
            }
            thread.stack.push(Open { start, end, node });
        });
        for (_, thread) in threads.into_sorted() {
            let (start, end) = thread.extent.unwrap_or((0, 0));
            let gaps = (end - start) as i64 - thread.top_level as i64;
            if let Some(root) = nodes.first_mut() {
                root.own = root.own.saturating_add(gaps);
            }
        }
        let count = u32::try_from(labels.len()).unwrap_or(u32::MAX);
        Self {
            nodes,
            labels: (0..count)
                .map(|number| labels.text(number).to_owned())
                .collect(),
        }
    }
}
