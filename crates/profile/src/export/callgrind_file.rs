//! Files in Callgrind's profile format as Callgrind itself writes them: costs by instruction or line, several events,
//! names and positions compressed, calls with what they cost in all
//! (<https://valgrind.org/docs/manual/cl-format.html>).
//!
//! A pure function of what was counted: [`CallgrindFile`] is written, whoever counted it.

use std::collections::HashMap;
use std::io::{self, Write};

/// How a file is written: Callgrind's options of the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallgrindForm {
    /// `--dump-instr`: positions have addresses.
    pub instructions: bool,
    /// `--dump-line`: positions have lines.
    pub lines: bool,
    /// `--compress-strings`: a name is written once, then its number.
    pub compress_names: bool,
    /// `--compress-pos`: positions are differences to those before.
    pub compress_positions: bool,
}

impl Default for CallgrindForm {
    /// What Callgrind does without options.
    fn default() -> Self {
        Self {
            instructions: false,
            lines: true,
            compress_names: true,
            compress_positions: true,
        }
    }
}

/// A part of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallgrindFile {
    /// Who made it.
    pub creator: String,
    /// Process id.
    pub pid: u32,
    /// The command with its arguments.
    pub command: String,
    /// Number of the part, from 1 on.
    pub part: u32,
    /// Number of the thread, where threads are apart.
    pub thread: Option<u32>,
    /// Lines `desc:`, as `Trigger: Program termination`.
    pub descriptions: Vec<String>,
    /// Short names of the events, each with its long one (none: a name that Callgrind has, too).
    pub events: Vec<(String, Option<String>)>,
    /// The functions; calls refer to them by their place here.
    pub functions: Vec<CostedFunction>,
}

/// A function: what it costs itself, and what it calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CostedFunction {
    /// Path of the program or library; empty: not known.
    pub object: String,
    /// Source file; empty: not known.
    pub file: String,
    /// Name.
    pub name: String,
    /// Costs of its own.
    pub costs: Vec<PlaceCost>,
    /// Calls.
    pub calls: Vec<CallCost>,
}

/// A cost at a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlaceCost {
    /// The source file where it is not the function's (inlined code).
    pub file: Option<String>,
    /// Address.
    pub address: u64,
    /// Line; 0: not known.
    pub line: u32,
    /// One number an event.
    pub costs: Vec<u64>,
}

/// Calls from one place to one function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallCost {
    /// Which function: place in [`CallgrindFile::functions`].
    pub callee: usize,
    /// How often.
    pub count: u64,
    /// Where the function is: address …
    pub callee_address: u64,
    /// … and line.
    pub callee_line: u32,
    /// Where it was called, and what the calls cost in all.
    pub site: PlaceCost,
}

impl CallgrindFile {
    /// The sum of all own costs, by event.
    #[must_use]
    pub fn totals(&self) -> Vec<u64> {
        let mut totals = vec![0u64; self.events.len()];
        for cost in self.functions.iter().flat_map(|function| &function.costs) {
            for (total, cost) in totals.iter_mut().zip(&cost.costs) {
                *total = total.wrapping_add(*cost);
            }
        }
        totals
    }

    /// Writes the part.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&self, form: CallgrindForm, out: &mut dyn Write) -> io::Result<()> {
        let totals = numbers(&self.totals());
        writeln!(out, "# callgrind format\nversion: 1")?;
        writeln!(out, "creator: {}", one_line(&self.creator))?;
        writeln!(out, "pid: {}\ncmd: {}", self.pid, one_line(&self.command))?;
        writeln!(out, "part: {}", self.part)?;
        if let Some(thread) = self.thread {
            writeln!(out, "thread: {thread}")?;
        }
        writeln!(out)?;
        for description in &self.descriptions {
            writeln!(out, "desc: {}", one_line(description))?;
        }
        let positions = match (form.instructions, form.lines) {
            (true, true) => "instr line",
            (true, false) => "instr",
            (false, _) => "line",
        };
        writeln!(out, "\npositions: {positions}")?;
        for (short, long) in &self.events {
            if let Some(long) = long {
                writeln!(out, "event: {short} : {}", one_line(long))?;
            }
        }
        let names: Vec<&str> = self.events.iter().map(|(short, _)| &**short).collect();
        writeln!(out, "events: {}\nsummary: {totals}\n", names.join(" "))?;
        let mut writer = Writer {
            form,
            out,
            names: Default::default(),
            position: (0, 0),
        };
        for function in &self.functions {
            writer.function(function, &self.functions)?;
        }
        writeln!(out, "totals: {totals}")
    }
}

impl CallgrindFile {
    /// Writes the costs in Cachegrind's format
    /// (<https://valgrind.org/docs/manual/cg-manual.html#cg-manual.impl-details>), which has no calls.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_cachegrind(&self, out: &mut dyn Write) -> io::Result<()> {
        for description in &self.descriptions {
            writeln!(out, "desc: {}", one_line(description))?;
        }
        let names: Vec<&str> = self.events.iter().map(|(short, _)| &**short).collect();
        let known = |name: &str| one_line(if name.is_empty() { "???" } else { name });
        writeln!(
            out,
            "cmd: {}\nevents: {}",
            one_line(&self.command),
            names.join(" ")
        )?;
        for function in &self.functions {
            let mut file = None;
            for cost in &function.costs {
                let wanted = cost.file.as_deref().unwrap_or(&function.file);
                if file != Some(wanted) {
                    writeln!(out, "fl={}\nfn={}", known(wanted), known(&function.name))?;
                    file = Some(wanted);
                }
                let costs: Vec<String> = cost.costs.iter().map(u64::to_string).collect();
                writeln!(out, "{} {}", cost.line, costs.join(" "))?;
            }
        }
        let totals: Vec<String> = self.totals().iter().map(u64::to_string).collect();
        writeln!(out, "summary: {}", totals.join(" "))
    }
}

/// The name spaces of compressed names.
#[derive(Clone, Copy)]
enum Space {
    Object,
    File,
    Function,
}

struct Writer<'a> {
    form: CallgrindForm,
    out: &'a mut dyn Write,
    names: [HashMap<String, usize>; 3],
    /// Address and line of the cost line before.
    position: (u64, u32),
}

impl Writer<'_> {
    fn function(&mut self, function: &CostedFunction, all: &[CostedFunction]) -> io::Result<()> {
        if function.costs.is_empty() && function.calls.is_empty() {
            return Ok(());
        }
        self.name("ob", Space::Object, &function.object)?;
        self.name("fl", Space::File, &function.file)?;
        self.name("fn", Space::Function, &function.name)?;
        let mut file = function.file.as_str();
        for cost in &function.costs {
            file = self.go_to_file(function, file, cost.file.as_deref())?;
            self.cost(cost)?;
        }
        for call in &function.calls {
            let Some(callee) = all.get(call.callee) else {
                continue;
            };
            file = self.go_to_file(function, file, call.site.file.as_deref())?;
            if callee.object != function.object {
                self.name("cob", Space::Object, &callee.object)?;
            }
            // As Callgrind has it: some readers take a file that is named and one that is not for two.
            if callee.file != file {
                self.name("cfi", Space::File, &callee.file)?;
            }
            self.name("cfn", Space::Function, &callee.name)?;
            write!(self.out, "calls={}", call.count)?;
            // In full: differences would be to the line before, too, but no two readers agree on that.
            if self.form.instructions {
                write!(self.out, " {:#x}", call.callee_address)?;
            }
            if self.form.lines || !self.form.instructions {
                write!(self.out, " {}", call.callee_line)?;
            }
            writeln!(self.out)?;
            self.cost(&call.site)?;
        }
        writeln!(self.out)
    }

    /// Into another source file of the function (`fi`), or back to its own (`fe`).
    fn go_to_file<'f>(
        &mut self,
        function: &'f CostedFunction,
        now: &'f str,
        wanted: Option<&'f str>,
    ) -> io::Result<&'f str> {
        let wanted = wanted.unwrap_or(&function.file);
        if wanted != now {
            let key = if wanted == function.file { "fe" } else { "fi" };
            self.name(key, Space::File, wanted)?;
        }
        Ok(wanted)
    }

    fn name(&mut self, key: &str, space: Space, name: &str) -> io::Result<()> {
        let name = one_line(if name.is_empty() { "???" } else { name });
        if !self.form.compress_names {
            // A name must not look like the number of one.
            let space = if name.starts_with('(') { " " } else { "" };
            return writeln!(self.out, "{key}={space}{name}");
        }
        let known = &mut self.names[space as usize];
        let next = known.len() + 1;
        match known.get(&name) {
            Some(number) => writeln!(self.out, "{key}=({number})"),
            None => {
                writeln!(self.out, "{key}=({next}) {name}")?;
                known.insert(name, next);
                Ok(())
            }
        }
    }

    fn cost(&mut self, cost: &PlaceCost) -> io::Result<()> {
        let before = self.position;
        self.position = (cost.address, cost.line);
        if self.form.instructions {
            match self.difference(before.0, cost.address) {
                Some(text) => write!(self.out, "{text} ")?,
                None => write!(self.out, "{:#x} ", cost.address)?,
            }
        }
        if self.form.lines {
            match self.difference(u64::from(before.1), u64::from(cost.line)) {
                Some(text) => write!(self.out, "{text} ")?,
                None => write!(self.out, "{} ", cost.line)?,
            }
        } else if !self.form.instructions {
            write!(self.out, "0 ")?;
        }
        writeln!(self.out, "{}", numbers(&cost.costs))
    }

    /// `*`, `+n` or `-n`, where that is wanted and short.
    fn difference(&self, before: u64, now: u64) -> Option<String> {
        const SHORT: u64 = 100;
        if !self.form.compress_positions {
            None
        } else if before == now {
            Some("*".to_owned())
        } else if now > before {
            Some(now - before)
                .filter(|&d| d < SHORT)
                .map(|d| format!("+{d}"))
        } else {
            Some(before - now)
                .filter(|&d| d < SHORT)
                .map(|d| format!("-{d}"))
        }
    }
}

/// Numbers with blanks between; zeros at the end are left out, as Callgrind does it, but for the first.
fn numbers(values: &[u64]) -> String {
    let used = values
        .iter()
        .rposition(|&value| value != 0)
        .map_or(1, |at| at + 1);
    let texts: Vec<String> = values.iter().take(used).map(u64::to_string).collect();
    texts.join(" ")
}

/// A name on one line.
fn one_line(name: &str) -> String {
    name.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: Option<&str>, address: u64, line: u32, costs: &[u64]) -> PlaceCost {
        PlaceCost {
            file: file.map(str::to_owned),
            address,
            line,
            costs: costs.to_vec(),
        }
    }

    fn file() -> CallgrindFile {
        let function = |name: &str, costs, calls| CostedFunction {
            object: "/bin/prog".to_owned(),
            file: "a.c".to_owned(),
            name: name.to_owned(),
            costs,
            calls,
        };
        CallgrindFile {
            creator: "truecount".to_owned(),
            pid: 7,
            command: "prog 1\n2".to_owned(),
            part: 1,
            thread: None,
            descriptions: vec!["Trigger: Program termination".to_owned()],
            events: vec![("Ir".to_owned(), None), ("Dr".to_owned(), None)],
            functions: vec![
                function(
                    "main",
                    vec![
                        place(None, 0x1000, 3, &[5, 1]),
                        place(Some("b.h"), 0x1004, 90, &[2, 0]),
                        place(None, 0x1010, 4, &[1, 0]),
                    ],
                    vec![CallCost {
                        callee: 1,
                        count: 4,
                        callee_address: 0x2000,
                        callee_line: 20,
                        site: place(None, 0x1010, 4, &[100, 7]),
                    }],
                ),
                function(
                    "(anonymous)::leaf",
                    vec![place(None, 0x2000, 20, &[100, 7])],
                    Vec::new(),
                ),
            ],
        }
    }

    fn text(form: CallgrindForm) -> String {
        let mut out = Vec::new();
        file().write(form, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn lines_are_callgrinds() {
        let text = text(CallgrindForm::default());
        assert!(text.starts_with("# callgrind format\nversion: 1\ncreator: truecount\npid: 7\n"));
        assert!(text.contains("\ncmd: prog 1 2\npart: 1\n"), "{text}");
        let middle = "positions: line\nevents: Ir Dr\nsummary: 108 8\n\n\
                      ob=(1) /bin/prog\nfl=(1) a.c\nfn=(1) main\n+3 5 1\nfi=(2) b.h\n+87 2\nfe=(1)\n-86 1\n\
                      cfn=(2) (anonymous)::leaf\ncalls=4 20\n* 100 7\n\n\
                      ob=(1)\nfl=(1)\nfn=(2)\n+16 100 7\n\ntotals: 108 8\n";
        assert!(text.ends_with(middle), "{text}");
    }

    #[test]
    fn positions_and_names_may_be_written_in_full() {
        let form = CallgrindForm {
            instructions: true,
            lines: true,
            compress_names: false,
            compress_positions: false,
        };
        let text = text(form);
        assert!(text.contains("positions: instr line\n"), "{text}");
        assert!(
            text.contains("fn=main\n0x1000 3 5 1\nfi=b.h\n0x1004 90 2\nfe=a.c\n"),
            "{text}"
        );
        assert!(
            text.contains("cfn= (anonymous)::leaf\ncalls=4 0x2000 20\n0x1010 4 100 7\n"),
            "{text}"
        );
        let none = CallgrindForm {
            lines: false,
            instructions: false,
            ..form
        };
        assert!(self::text(none).contains("fn=main\n0 5 1\n"));
    }

    #[test]
    fn numbers_stay_positional() {
        assert_eq!(numbers(&[0, 3, 0]), "0 3");
        assert_eq!(numbers(&[0, 0]), "0");
        assert_eq!(numbers(&[]), "");
    }
}
