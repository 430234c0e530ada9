//! The profile format of Callgrind, read by KCachegrind, QCachegrind and `callgrind_annotate`
//! (<https://valgrind.org/docs/manual/cl-format.html>).
//!
//! The format knows no call paths, only functions with their own cost and, for each pair of caller and callee, what the
//! calls cost in all. A function that stands twice in a stack (recursion) pays for that stack once, where it is innermost:
//! so its own cost and its calls sum to its inclusive cost.

use super::stacks::Stacks;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// What one function costs, by line, and what it calls: callee, line of the call.
#[derive(Default)]
struct Cost {
    own: BTreeMap<u32, u64>,
    calls: BTreeMap<(usize, u32), Calls>,
}

#[derive(Default)]
struct Calls {
    count: u64,
    inclusive: u64,
}

impl Stacks {
    /// Writes the stacks of one measure in Callgrind's profile format. `called`: the occurrences of a stack are calls of
    /// its innermost function (regions), not samples; without it the numbers of calls are 0, which viewers take for
    /// "not known".
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_callgrind(
        &self,
        measure: usize,
        called: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (costs, total) = self.costs(measure, called);
        let name = self
            .measures
            .get(measure)
            .map_or("cost", |m| m.name.as_str());
        let event: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        writeln!(out, "# callgrind format\nversion: 1\ncreator: truecount")?;
        writeln!(out, "cmd: {}", one_line(&self.title))?;
        writeln!(
            out,
            "positions: line\nevent: {event} : {}\nevents: {event}",
            one_line(name)
        )?;
        writeln!(out, "summary: {total}")?;
        for (&function, cost) in &costs {
            writeln!(out)?;
            self.write_position(function, "", out)?;
            for (line, own) in &cost.own {
                writeln!(out, "{line} {own}")?;
            }
            for (&(callee, line), calls) in &cost.calls {
                self.write_position(callee, "c", out)?;
                writeln!(out, "calls={} 0\n{line} {}", calls.count, calls.inclusive)?;
            }
        }
        writeln!(out, "\ntotals: {total}")
    }

    /// Own costs and calls of every function, and the sum of all own costs.
    fn costs(&self, measure: usize, called: bool) -> (BTreeMap<usize, Cost>, u64) {
        let mut costs: BTreeMap<usize, Cost> = BTreeMap::new();
        let mut total = 0u64;
        for stack in self.stacks.iter().filter(|stack| stack.measure == measure) {
            let places = stack
                .places
                .iter()
                .filter_map(|&place| self.places.get(place));
            let lines: Vec<_> = places.flat_map(|place| &place.lines).collect();
            let Some(innermost) = lines.first() else {
                continue;
            };
            total = total.saturating_add(stack.cost);
            let own = &mut costs.entry(innermost.function).or_default().own;
            let own = own.entry(innermost.line.unwrap_or(0)).or_default();
            *own = own.saturating_add(stack.cost);
            let mut paid = BTreeSet::from([innermost.function]);
            for (depth, pair) in lines.windows(2).enumerate() {
                let [callee, caller] = pair else { continue };
                let key = (callee.function, caller.line.unwrap_or(0));
                let calls = costs
                    .entry(caller.function)
                    .or_default()
                    .calls
                    .entry(key)
                    .or_default();
                if called && depth == 0 {
                    calls.count = calls.count.saturating_add(stack.count);
                }
                if paid.insert(caller.function) {
                    calls.inclusive = calls.inclusive.saturating_add(stack.cost);
                }
            }
        }
        (costs, total)
    }

    /// The lines that name a function: its program or library, its source file, its name. `prefix`: "" or "c" (called).
    fn write_position(&self, function: usize, prefix: &str, out: &mut dyn Write) -> io::Result<()> {
        let known = self.functions.get(function);
        let object = known.map_or("", |f| f.module.as_str());
        let file = known.and_then(|f| f.file.as_deref()).unwrap_or("???");
        let name = known.map_or("???", |f| f.name.as_str());
        if !object.is_empty() {
            writeln!(out, "{prefix}ob={}", one_line(object))?;
        }
        let file_key = if prefix.is_empty() { "fl" } else { "cfi" };
        writeln!(
            out,
            "{file_key}={}\n{prefix}fn={}",
            one_line(file),
            one_line(name)
        )
    }
}

/// A name on one line; the format takes `(…)` at its beginning for the number of a name.
fn one_line(name: &str) -> String {
    let name = name.replace(['\n', '\r'], " ");
    if name.starts_with('(') {
        format!(" {name}")
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::super::stacks::{Function, Line, Measure, Place, Stack, Stacks};

    fn stacks() -> Stacks {
        let function = |name: &str| Function {
            name: name.to_owned(),
            module: "prog".to_owned(),
            file: Some("a.c".to_owned()),
        };
        let place = |function, line| Place {
            lines: vec![Line {
                function,
                line: Some(line),
                inlined: false,
            }],
            ..Place::default()
        };
        let stack = |places: &[usize], count, cost| Stack {
            measure: 0,
            owner: None,
            places: places.to_vec(),
            count,
            cost,
        };
        Stacks {
            title: "prog 1\n2".to_owned(),
            measures: vec![Measure {
                name: "instructions:u".to_owned(),
                occurrences: "intervals".to_owned(),
                nanoseconds: false,
            }],
            functions: vec![
                function("main"),
                function("walk"),
                function("(anonymous)::leaf"),
            ],
            places: vec![place(0, 3), place(1, 10), place(2, 20)],
            // main; main→walk→walk (recursion); main→walk→walk→leaf.
            stacks: vec![
                stack(&[0], 1, 5),
                stack(&[1, 1, 0], 4, 100),
                stack(&[2, 1, 1, 0], 7, 1000),
            ],
            ..Stacks::default()
        }
    }

    #[test]
    fn own_and_inclusive_costs_are_those_of_the_tree() {
        let mut out = Vec::new();
        stacks().write_callgrind(0, true, &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(
            text.contains("\nevents: instructions_u\nsummary: 1105\n"),
            "{text}"
        );
        assert!(
            text.contains("\nevent: instructions_u : instructions:u\n"),
            "{text}"
        );
        assert!(text.contains("\ncmd: prog 1 2\n"), "{text}");
        // main: 5 itself, 1,100 by walk; walk has 100 itself and 1,000 by the leaf: what it calls of itself is in these.
        let main = "fl=a.c\nfn=main\n3 5\ncob=prog\ncfi=a.c\ncfn=walk\ncalls=0 0\n3 1100\n";
        assert!(text.contains(main), "{text}");
        let itself = "cfn=walk\ncalls=4 0\n10 0\n";
        assert!(text.contains(itself), "{text}");
        let leaf = "cfn= (anonymous)::leaf\ncalls=7 0\n10 1000\n";
        assert!(text.contains(leaf), "{text}");
        assert!(text.ends_with("totals: 1105\n"), "{text}");
    }
}
