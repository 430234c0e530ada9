//! A flame graph (Brendan Gregg's picture) as one SVG file: the width of a box is its share of the whole, callers below,
//! callees above. It is as wide as the window; hovering tells the numbers, a click zooms, `/` searches, Esc goes back.
//!
//! Written here, not taken from a library: the crate `inferno` does not follow the reader's colour scheme, and its
//! licence (CDDL) is not a permissive one.

use super::markup::escape;
use super::stacks::Stacks;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Height of a row, and of what is above the rows, in pixels. Across, everything is a share of the window.
const ROW: usize = 18;
const HEAD: usize = 56;
/// Boxes of a smaller share (percent) are left out: a hundredth of a pixel row on any screen.
const NARROWEST: f64 = 0.02;
/// Narrower boxes (percent) have no name until they are zoomed into.
const NAMED: f64 = 1.5;
/// Rows drawn: a recursion may be deeper than any screen.
const MAX_ROWS: usize = 200;

const STYLE: &str = "\
svg.flame{--back:#fff;--text:#1d232b;--dim:#667080;background:var(--back)}\
@media(prefers-color-scheme:dark){svg.flame{--back:#14181d;--text:#e4e8ed;--dim:#93a0ae}}\
svg.flame text{fill:var(--text)}svg.flame text.d{fill:var(--dim)}.f text{fill:#111!important;pointer-events:none}\
.f{cursor:pointer}.f rect{stroke:var(--back);stroke-width:.5}.f:hover rect{stroke:var(--text);stroke-width:1.5}\
.f.below rect{fill-opacity:.45}.f.hit rect{fill:#c026d3}";

const SCRIPT: &str = r"
const all=[...document.querySelectorAll('svg.f')],h=document.getElementById('h'),d=document.getElementById('d'),head=h.firstChild.data||'',rest=d.textContent,num=(g,k)=>+g.dataset[k];
let zoom=all[0];
function put(t,s){if(!s)return;const n=t.firstChild,most=document.documentElement.getBoundingClientRect().width-20;n.data=s;
for(let k=s.length,w;k>3&&(w=t.getComputedTextLength())>most;){k=Math.min(k-1,Math.floor(k*most/w));n.data=s.slice(0,k)+'…'}}
function show(){put(h,head);put(d,rest);const X=num(zoom,'x'),W=num(zoom,'w'),D=num(zoom,'d');
for(const g of all){const x=num(g,'x'),w=num(g,'w'),below=num(g,'d')<D;
const inside=below?x<=X+1e-6&&x+w>=X+W-1e-6:x>=X-1e-6&&x+w<=X+W+1e-6;
g.style.display=inside?'':'none';if(!inside)continue;
const share=below?100:w/W*100;g.setAttribute('x',(below?0:(x-X)/W*100)+'%');g.setAttribute('width',share+'%');
g.classList.toggle('below',below);
const px=share/100*document.documentElement.getBoundingClientRect().width,k=Math.floor((px-6)/6.7),n=g.dataset.n,t=g.querySelector('text');
t.textContent=k<3?'':n.length<=k?n:n.slice(0,k-1)+'…'}}
for(const g of all){g.addEventListener('click',()=>{zoom=g;show()});
g.addEventListener('mouseenter',()=>put(d,g.querySelector('title').textContent));g.addEventListener('mouseleave',()=>put(d,rest))}
document.addEventListener('keydown',e=>{if(e.key==='Escape'){zoom=all[0];all.forEach(g=>g.classList.remove('hit'));show()}
if(e.key==='/'){e.preventDefault();const q=prompt('search');all.forEach(g=>g.classList.toggle('hit',!!q&&g.dataset.n.includes(q)))}});
addEventListener('resize',show);show();
";

/// A function in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level<'n> {
    /// Its name.
    pub name: &'n str,
    /// In the kernel.
    pub kernel: bool,
    /// Inlined into the one that called it.
    pub inlined: bool,
}

impl<'n> Level<'n> {
    /// A function of the program.
    #[must_use]
    pub fn new(name: &'n str) -> Self {
        Self {
            name,
            kernel: false,
            inlined: false,
        }
    }
}

#[derive(Default)]
struct Node {
    cost: u64,
    own: u64,
    count: u64,
    kernel: bool,
    inlined: bool,
    /// Of two results: what the chains here cost before and after.
    compared: Option<(u64, u64)>,
    children: BTreeMap<String, Node>,
}

impl Node {
    fn compare(&mut self, width: u64, before: u64, after: u64) {
        self.cost = self.cost.saturating_add(width);
        let (old, new) = self.compared.unwrap_or_default();
        self.compared = Some((old.saturating_add(before), new.saturating_add(after)));
    }
}

impl Drop for Node {
    /// Level by level: the compiler's own way is recursive, and a chain may be deeper than the stack.
    fn drop(&mut self) {
        let mut open: Vec<Node> = std::mem::take(&mut self.children).into_values().collect();
        while let Some(mut node) = open.pop() {
            open.extend(std::mem::take(&mut node.children).into_values());
        }
    }
}

/// Chains with their cost, added up.
pub struct FlameGraph {
    root: Node,
    name: String,
    unit: String,
    occurrences: Option<String>,
}

impl FlameGraph {
    /// An empty one. `name` stands on the box of the whole, `unit` says what costs are, `occurrences` what is counted
    /// beside them (samples, intervals), if anything is.
    #[must_use]
    pub fn new(name: &str, unit: &str, occurrences: Option<&str>) -> Self {
        Self {
            root: Node::default(),
            name: name.to_owned(),
            unit: unit.to_owned(),
            occurrences: occurrences.map(str::to_owned),
        }
    }

    /// Of the stacks of one measure. With `whole` it is the name of the lowest box, and the processes stand on it;
    /// without, the outermost function of all stacks is the lowest box.
    #[must_use]
    pub fn of(stacks: &Stacks, measure: usize, whole: Option<&str>, unit: &str) -> Self {
        let occurrences = stacks.measures.get(measure).map(|m| &*m.occurrences);
        let mut flame = Self::new(whole.unwrap_or(&stacks.title), unit, occurrences);
        for stack in stacks.stacks.iter().filter(|s| s.measure == measure) {
            let process = stack.owner.iter().map(|owner| Level::new(&owner.process));
            let functions = stacks.chain(stack).map(|frame| Level {
                name: &frame.function.name,
                kernel: frame.kernel,
                inlined: frame.inlined,
            });
            let skipped = usize::from(whole.is_none());
            let chain = process.chain(functions).skip(skipped);
            flame.add(chain, stack.cost, stack.count);
        }
        flame
    }

    /// Adds a chain, outermost first: `cost` makes its width, `count` is told beside it.
    pub fn add<'n>(&mut self, chain: impl IntoIterator<Item = Level<'n>>, cost: u64, count: u64) {
        let mut at = &mut self.root;
        at.cost = at.cost.saturating_add(cost);
        for level in chain {
            at = at.children.entry(level.name.to_owned()).or_default();
            at.cost = at.cost.saturating_add(cost);
            at.kernel = level.kernel;
            at.inlined = level.inlined;
            at.count = at.count.saturating_add(count);
        }
        at.own = at.own.saturating_add(cost);
        self.root.count = self.root.count.saturating_add(count);
    }

    /// Adds a chain of two results, outermost first: what its last box cost itself `before` and `after`. It is as wide
    /// as the larger of the two; red is what grew, blue what shrank.
    pub fn add_compared<'n>(
        &mut self,
        chain: impl IntoIterator<Item = Level<'n>>,
        before: u64,
        after: u64,
    ) {
        let width = before.max(after);
        let mut at = &mut self.root;
        at.compare(width, before, after);
        for level in chain {
            at = at.children.entry(level.name.to_owned()).or_default();
            at.compare(width, before, after);
        }
        at.own = at.own.saturating_add(width);
    }

    /// What all chains cost.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.root.cost
    }

    /// The picture.
    #[must_use]
    pub fn svg(&self, title: &str) -> String {
        let boxes = self.boxes();
        let rows = boxes.iter().map(|b| b.row + 1).max().unwrap_or(1);
        let height = HEAD + ROW * rows + 8;
        let mut svg = String::new();
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"flame\" width=\"100%\" height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\
             <style>{STYLE}</style><rect width=\"100%\" height=\"100%\" fill=\"var(--back)\"/>\
             <text x=\"10\" y=\"22\" id=\"h\" font-size=\"15\" font-weight=\"600\">{0}<title>{0}</title></text>\
             <text x=\"10\" y=\"42\" id=\"d\" class=\"d\">total {1} {2}; click: zoom, /: search, Esc: back</text>",
            escape(title),
            grouped(self.root.cost),
            escape(&self.unit)
        );
        for each in &boxes {
            self.draw(&mut svg, each, height);
        }
        let _ = writeln!(svg, "<script><![CDATA[{SCRIPT}]]></script></svg>");
        svg
    }

    /// Where the boxes stand, in percent of the width; the whole first.
    fn boxes(&self) -> Vec<Box<'_>> {
        let total = self.root.cost.max(1) as f64;
        let mut boxes = Vec::new();
        let mut open = vec![Box {
            name: &self.name,
            node: &self.root,
            x: 0.0,
            width: 100.0,
            row: 0,
        }];
        // Not recursive: a chain may be deeper than this program's stack.
        while let Some(each) = open.pop() {
            let mut x = each.x;
            for (name, node) in &each.node.children {
                let width = node.cost as f64 / total * 100.0;
                if width >= NARROWEST && each.row + 1 < MAX_ROWS {
                    open.push(Box {
                        name,
                        node,
                        x,
                        width,
                        row: each.row + 1,
                    });
                }
                x += width;
            }
            boxes.push(each);
        }
        boxes
    }

    fn draw(&self, svg: &mut String, each: &Box<'_>, height: usize) {
        let node = each.node;
        let note = match (node.kernel, node.inlined) {
            (true, _) => " (kernel)",
            (_, true) => " (inlined)",
            _ => "",
        };
        let mut tip = match node.compared {
            Some((old, new)) => format!(
                "{}: {}{} {} ({} → {})",
                each.name,
                if new < old { "−" } else { "+" },
                grouped(new.abs_diff(old)),
                self.unit,
                grouped(old),
                grouped(new)
            ),
            None => format!(
                "{}{note}: {:.2} %, {} {}",
                each.name,
                each.width,
                grouped(node.cost),
                self.unit
            ),
        };
        if node.own != node.cost && node.compared.is_none() {
            let _ = write!(tip, ", {} of its own", grouped(node.own));
        }
        if let Some(occurrences) = &self.occurrences {
            let _ = write!(tip, "; {} {occurrences}", grouped(node.count));
        }
        let name = escape(each.name);
        let _ = writeln!(
            svg,
            "<svg class=\"f\" x=\"{0:.3}%\" width=\"{1:.3}%\" y=\"{2}\" height=\"{3}\" data-x=\"{0:.5}\" data-w=\"{1:.5}\" data-d=\"{4}\" data-n=\"{name}\"><title>{5}</title><rect width=\"100%\" height=\"100%\" rx=\"1.5\" fill=\"{6}\"/><text x=\"3\" y=\"13\">{7}</text></svg>",
            each.x,
            each.width,
            height - 8 - ROW * (each.row + 1),
            ROW - 1,
            each.row,
            escape(&tip),
            color(each.name, node),
            if each.width >= NAMED { &name } else { "" },
        );
    }
}

struct Box<'n> {
    name: &'n str,
    node: &'n Node,
    x: f64,
    width: f64,
    row: usize,
}

/// Warm for user code, orange-red for the kernel, paler for inlined; the same name has the same shade.
fn color(name: &str, node: &Node) -> String {
    if let Some((old, new)) = node.compared {
        // Red grew, blue shrank; the paler the smaller its share of the box.
        let share = new.abs_diff(old) as f64 / node.cost.max(1) as f64;
        return match old.cmp(&new) {
            std::cmp::Ordering::Equal => "hsl(40 10% 85%)".to_owned(),
            less => {
                let hue = if less.is_lt() { 0 } else { 215 };
                format!("hsl({hue} 85% {:.0}%)", 88.0 - 30.0 * share.min(1.0).sqrt())
            }
        };
    }
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

/// `1,234,567`.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_window_and_text_is_escaped() {
        let mut flame = FlameGraph::new("all", "cycles", Some("samples"));
        flame.add([Level::new("main"), Level::new("a<b>")], 3_000, 3);
        flame.add([Level::new("main")], 1_000, 1);
        assert_eq!(flame.total(), 4_000);
        let svg = flame.svg("t & u");
        assert!(
            svg.contains("a&lt;b&gt;: 75.00 %, 3,000 cycles; 3 samples"),
            "{svg}"
        );
        assert!(
            svg.contains("main: 100.00 %, 4,000 cycles, 1,000 of its own; 4 samples"),
            "{svg}"
        );
        assert!(svg.contains("width=\"75.000%\"") && svg.contains("prefers-color-scheme:dark"));
        assert!(!svg.contains("viewBox"), "as wide as the window");
        assert_eq!(svg.matches("<svg ").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn what_grew_is_red_and_what_shrank_is_blue() {
        let mut flame = FlameGraph::new("all", "instructions", None);
        flame.add_compared([Level::new("main"), Level::new("f")], 100, 300);
        flame.add_compared([Level::new("main"), Level::new("g")], 50, 0);
        flame.add_compared([Level::new("main")], 10, 10);
        assert_eq!(flame.total(), 360);
        let svg = flame.svg("t");
        assert!(svg.contains("f: +200 instructions (100 → 300)"), "{svg}");
        assert!(svg.contains("g: −50 instructions (50 → 0)"), "{svg}");
        assert!(svg.contains("main: +150 instructions (160 → 310)"), "{svg}");
        assert!(
            svg.contains("hsl(0 85%") && svg.contains("hsl(215 85%"),
            "{svg}"
        );
    }

    #[test]
    fn an_empty_one_and_a_deep_one_are_drawn() {
        let empty = FlameGraph::new("all", "cycles", None);
        assert!(!empty.svg("").contains("NaN"));
        let mut deep = FlameGraph::new("all", "cycles", None);
        deep.add(std::iter::repeat_n(Level::new("f"), 100_000), 1, 1);
        assert_eq!(deep.svg("").matches("class=\"f\"").count(), MAX_ROWS);
    }
}
