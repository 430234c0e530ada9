//! A flame graph as one SVG file: the width of a box is its share of the total, its own cost and
//! that of what it encloses; the process is at the bottom. A click zooms, a click at the bottom zooms back.

use super::process_name;
use super::tree::Tree;
use crate::file::Profile;
use std::io::{self, Write};

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 44.0;
/// Width of a letter of the font used, about.
const LETTER: f64 = 6.7;
/// Narrower boxes are not drawn.
const NARROWEST: f64 = 0.2;

const SCRIPT: &str = r#"<script><![CDATA[
const W = 1180, M = 10, boxes = [...document.querySelectorAll('g.f')];
const num = (g, k) => Number(g.dataset[k]);
function show(zoom) {
  const x0 = num(zoom, 'x'), w0 = num(zoom, 'w'), d0 = num(zoom, 'd');
  for (const g of boxes) {
    const x = num(g, 'x'), w = num(g, 'w'), below = num(g, 'd') < d0;
    const inside = below ? x <= x0 + 1e-9 && x + w >= x0 + w0 - 1e-9 : x >= x0 - 1e-9 && x + w <= x0 + w0 + 1e-9;
    g.style.display = inside ? '' : 'none';
    if (!inside) continue;
    const left = below ? M : M + (x - x0) / w0 * W, width = below ? W : w / w0 * W;
    const rect = g.querySelector('rect'), text = g.querySelector('text');
    rect.setAttribute('x', left); rect.setAttribute('width', Math.max(width - 0.5, 0.1));
    g.style.opacity = below ? 0.5 : 1;
    const room = Math.floor((width - 6) / 6.7), name = g.dataset.n;
    text.setAttribute('x', left + 3);
    text.textContent = room < 3 ? '' : name.length <= room ? name : name.slice(0, room - 1) + '…';
  }
}
for (const g of boxes) g.addEventListener('click', () => show(g));
]]></script>
"#;

struct Frame {
    node: usize,
    x: f64,
    width: f64,
    depth: usize,
}

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let tree = Tree::new(profile);
    // A node's number is above its parent's, so one pass from the back adds everything up.
    let mut totals: Vec<u64> = tree
        .nodes
        .iter()
        .map(|node| u64::try_from(node.own).unwrap_or(0))
        .collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); tree.nodes.len()];
    for (number, node) in tree.nodes.iter().enumerate().skip(1).rev() {
        let total = totals.get(number).copied().unwrap_or(0);
        if let Some(parent) = totals.get_mut(node.parent as usize) {
            *parent = parent.saturating_add(total);
        }
        if let Some(siblings) = children.get_mut(node.parent as usize) {
            siblings.push(number);
        }
    }
    let total = totals.first().copied().unwrap_or(0);
    let frames = layout(&tree, &totals, &mut children);
    let deepest = frames.iter().map(|frame| frame.depth).max().unwrap_or(0);
    let height = HEAD + ROW * (deepest + 1) as f64 + MARGIN;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fdfdf8\"/>"
    )?;
    let unit = profile.unit();
    let title = format!(
        "{}: {} by self time of regions",
        process_name(profile),
        unit.counter
    );
    writeln!(
        out,
        "<text x=\"{}\" y=\"20\" font-size=\"15\" text-anchor=\"middle\">{}</text>",
        WIDTH / 2.0,
        escape(&title)
    )?;
    let below = format!(
        "total {total} {}; a click zooms, the bottom row zooms back",
        unit.name
    );
    writeln!(
        out,
        "<text x=\"{}\" y=\"36\" fill=\"#666\" text-anchor=\"middle\">{}</text>",
        WIDTH / 2.0,
        escape(&below)
    )?;
    for frame in &frames {
        let (Some(node), Some(&cost)) = (tree.nodes.get(frame.node), totals.get(frame.node)) else {
            continue;
        };
        let name = if frame.node == 0 {
            process_name(profile)
        } else {
            tree.label(node)
        };
        let share = if total == 0 {
            0.0
        } else {
            cost as f64 / total as f64 * 100.0
        };
        let own = node.own.max(0);
        let times = if frame.node == 0 {
            String::new()
        } else {
            format!(", {} times", node.count)
        };
        let tip = format!(
            "{name}: {cost} {unit} ({share:.2} %), of which its own {own}{times}",
            unit = unit.name
        );
        let (x, y) = (
            MARGIN + frame.x,
            height - MARGIN - ROW * (frame.depth + 1) as f64,
        );
        let room = ((frame.width - 6.0) / LETTER).max(0.0) as usize;
        let shown: String = match name.chars().count() {
            _ if room < 3 => String::new(),
            length if length <= room => name.to_owned(),
            _ => name.chars().take(room - 1).chain(['…']).collect(),
        };
        writeln!(
            out,
            "<g class=\"f\" data-x=\"{:.3}\" data-w=\"{:.3}\" data-d=\"{}\" data-n=\"{}\"><title>{}</title><rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{}\" rx=\"1.5\" fill=\"{}\"/><text x=\"{:.2}\" y=\"{:.1}\">{}</text></g>",
            frame.x,
            frame.width,
            frame.depth,
            escape(name),
            escape(&tip),
            (frame.width - 0.5).max(0.1),
            ROW - 1.0,
            color(name),
            x + 3.0,
            y + 12.0,
            escape(&shown)
        )?;
    }
    writeln!(out, "{SCRIPT}</svg>")
}

/// Where the boxes stand, siblings by name.
fn layout(tree: &Tree, totals: &[u64], children: &mut [Vec<usize>]) -> Vec<Frame> {
    let width = WIDTH - 2.0 * MARGIN;
    let total = totals.first().copied().unwrap_or(0).max(1) as f64;
    let mut frames = vec![Frame {
        node: 0,
        x: 0.0,
        width,
        depth: 0,
    }];
    let mut next = 0;
    while let Some(&Frame { node, x, depth, .. }) = frames.get(next) {
        next += 1;
        let mut inner = children
            .get_mut(node)
            .map(std::mem::take)
            .unwrap_or_default();
        inner.sort_by_key(|&child| tree.nodes.get(child).map(|node| tree.label(node)));
        let mut left = x;
        for child in inner {
            let wide = totals
                .get(child)
                .map_or(0.0, |&cost| cost as f64 / total * width);
            if wide >= NARROWEST {
                frames.push(Frame {
                    node: child,
                    x: left,
                    width: wide,
                    depth: depth + 1,
                });
            }
            left += wide;
        }
    }
    frames
}

/// A warm colour that depends on the name only.
fn color(name: &str) -> String {
    let hash = name.bytes().fold(2_166_136_261_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(16_777_619)
    });
    let (hue, light) = (hash % 48 + 8, hash / 64 % 14 + 62);
    format!("hsl({hue},78%,{light}%)")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
