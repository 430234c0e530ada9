//! A flame graph (Brendan Gregg's picture) as one SVG: each rectangle's width is its share of the events, callers
//! below, callees above. Hovering tells the numbers, a click zooms, `/` searches; all in the file itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::markup::escape;
use truecount_model::number::grouped;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
/// Narrower rectangles are left out.
const NARROWEST: f64 = 0.2;

#[derive(Default)]
struct Node {
    events: u64,
    samples: u64,
    kernel: bool,
    inlined: bool,
    children: BTreeMap<String, Node>,
}

/// One level of a chain.
pub(crate) struct Level {
    pub(crate) name: String,
    pub(crate) kernel: bool,
    pub(crate) inlined: bool,
}

impl Level {
    /// A name in user mode.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kernel: false,
            inlined: false,
        }
    }
}

/// Chains with their weights, added up.
#[derive(Default)]
pub(crate) struct Flame {
    root: Node,
}

impl Flame {
    /// Adds a chain, outermost first: `events` make its width, `samples` are told.
    pub(crate) fn add(
        &mut self,
        chain: impl IntoIterator<Item = Level>,
        events: u64,
        samples: u64,
    ) {
        let mut at = &mut self.root;
        at.events = at.events.saturating_add(events);
        at.samples = at.samples.saturating_add(samples);
        for level in chain {
            at = at.children.entry(level.name).or_default();
            at.events = at.events.saturating_add(events);
            at.samples = at.samples.saturating_add(samples);
            at.kernel = level.kernel;
            at.inlined = level.inlined;
        }
    }

    /// What all chains tell: the sum of `samples`.
    pub(crate) fn samples(&self) -> u64 {
        self.root.samples
    }

    /// The picture; `unit` says what `samples` are.
    pub(crate) fn svg(&self, title: &str, unit: &str) -> String {
        let depth = depth(&self.root).min(200);
        let height = 70.0 + ROW * depth as f64;
        let mut svg = String::new();
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\
         <style>rect{{stroke:#fff;stroke-width:.5}}g.f{{cursor:pointer}}g.f:hover rect{{stroke:#111;stroke-width:1}}.hit rect{{fill:#c026d3}}text{{pointer-events:none;fill:#111}}</style>\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
         <text x=\"10\" y=\"22\" font-size=\"15\" font-weight=\"600\">{}</text>\
         <text x=\"10\" y=\"42\" id=\"d\" fill=\"#6b7280\">width: share of the events; click to zoom, / to search, Esc to go back</text>",
            escape(title)
        );
        draw(&mut svg, &self.root, unit, height);
        let _ = write!(svg, "<script><![CDATA[{SCRIPT}]]></script></svg>");
        svg
    }
}

fn depth(node: &Node) -> usize {
    // Iterative: a chain may be deeper than this program's stack.
    let mut deepest = 0;
    let mut open = vec![(node, 1)];
    while let Some((node, level)) = open.pop() {
        deepest = deepest.max(level);
        open.extend(node.children.values().map(|c| (c, level + 1)));
    }
    deepest
}

#[derive(Clone, Copy)]
struct Place {
    x: f64,
    width: f64,
    level: usize,
}

fn draw(svg: &mut String, root: &Node, unit: &str, height: f64) {
    let total = root.events.max(1);
    let place = Place {
        x: 0.0,
        width: WIDTH,
        level: 0,
    };
    let mut open = vec![("all".to_owned(), root, place)];
    while let Some((name, node, p)) = open.pop() {
        if p.width < NARROWEST || p.level >= 200 {
            continue;
        }
        let y = height - 14.0 - ROW * (p.level + 1) as f64;
        let percent = 100.0 * node.events as f64 / total as f64;
        let note = match (node.kernel, node.inlined) {
            (true, _) => " (kernel)",
            (_, true) => " (inlined)",
            _ => "",
        };
        let _ = write!(
            svg,
            "<g class=\"f\" data-x=\"{0:.3}\" data-w=\"{1:.3}\"><title>{2}{note}: {percent:.2} %, {3} {9}</title><rect x=\"{0:.2}\" y=\"{y:.1}\" width=\"{1:.2}\" height=\"{4}\" rx=\"1.5\" fill=\"{5}\"/><text x=\"{6:.2}\" y=\"{7:.1}\" data-n=\"{2}\">{8}</text></g>",
            p.x,
            p.width,
            escape(&name),
            grouped(node.samples),
            ROW - 1.0,
            color(&name, node),
            p.x + 3.0,
            y + 13.0,
            escape(&fitted(&name, p.width)),
            unit
        );
        let mut x = p.x;
        for (name, child) in &node.children {
            let width = p.width * child.events as f64 / node.events.max(1) as f64;
            open.push((
                name.clone(),
                child,
                Place {
                    x,
                    width,
                    level: p.level + 1,
                },
            ));
            x += width;
        }
    }
}

/// As much of a name as a width holds.
fn fitted(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / 6.6).max(0.0) as usize;
    if name.chars().count() <= room {
        return name.to_owned();
    }
    if room < 3 {
        return String::new();
    }
    let mut out: String = name.chars().take(room - 1).collect();
    out.push('…');
    out
}

/// Warm for user code, orange-red for the kernel, paler for inlined; the same name has the same shade.
fn color(name: &str, node: &Node) -> String {
    let hash = name
        .bytes()
        .fold(5381u32, |h, b| h.wrapping_mul(33) ^ u32::from(b));
    let shade = hash % 22;
    let (hue, light) = match (node.kernel, node.inlined) {
        (true, _) => (12 + hash % 8, 66 + shade / 3),
        (_, true) => (48 + hash % 8, 82 + shade / 4),
        _ => (32 + hash % 16, 66 + shade / 2),
    };
    format!("hsl({hue} 90% {light}%)")
}

const SCRIPT: &str = r#"
const W=1200,all=[...document.querySelectorAll('g.f')],d=document.getElementById('d'),rest=d.textContent;
function show(x,w){for(const g of all){const gx=+g.dataset.x,gw=+g.dataset.w,r=g.querySelector('rect'),t=g.querySelector('text');
const a=Math.max(0,(gx-x)/w*W),b=Math.min(W,(gx+gw-x)/w*W);if(b<=0||a>=W||b-a<.2){g.style.display='none';continue}
g.style.display='';r.setAttribute('x',a);r.setAttribute('width',b-a);t.setAttribute('x',a+3);
const n=t.dataset.n,k=Math.max(0,Math.floor((b-a-6)/6.6));t.textContent=n.length<=k?n:k<3?'':n.slice(0,k-1)+'…'}}
for(const g of all){g.addEventListener('click',()=>show(+g.dataset.x,+g.dataset.w));
g.addEventListener('mouseenter',()=>d.textContent=g.querySelector('title').textContent);g.addEventListener('mouseleave',()=>d.textContent=rest)}
document.addEventListener('keydown',e=>{if(e.key==='Escape'){show(0,W);all.forEach(g=>g.classList.remove('hit'))}
if(e.key==='/'){e.preventDefault();const q=prompt('search');all.forEach(g=>g.classList.toggle('hit',!!q&&g.querySelector('text').dataset.n.includes(q)))}});
"#;
