//! The text of `perf script` as a profile: samples with their processes, events, chains and the names that perf found.
//!
//! Form: `process_event` in `tools/perf/builtin-script.c`: a line of `COMM PID/TID [CPU] TIME: PERIOD EVENT:`, then the
//! place in the same line or one line a frame, `ADDRESS SYMBOL+OFFSET (FILE)`, innermost first, until an empty line.

use rustc_hash::FxHashMap;

use crate::profile::{CodePlace, Context, Profile, Weight};
use crate::spaces::{MappedFile, is_kernel_address};

/// A profile and the names of its places, innermost (inlined) function first.
#[derive(Debug, Default)]
pub struct Script {
    /// The samples. Offsets of places are addresses.
    pub profile: Profile,
    /// Functions by place.
    pub names: Vec<(CodePlace, Vec<ScriptName>)>,
}

/// A function as perf names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScriptName {
    /// Its name; `[unknown]` where perf knew none.
    pub function: String,
    /// Whether it is inlined into the next one.
    pub inlined: bool,
}

/// Reads the text; `None` where no line of it is a sample with a place.
#[must_use]
pub fn parse(text: &str) -> Option<Script> {
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.line(line);
    }
    reader.finish();
    (!reader.out.profile.entries.is_empty()).then_some(reader.out)
}

/// The first line of a sample.
#[derive(Debug, PartialEq)]
struct Head<'a> {
    comm: &'a str,
    pid: u32,
    tid: u32,
    cpu: Option<u32>,
    time: Option<u64>,
    period: Option<u64>,
    event: &'a str,
    /// What follows the event: the place, where it is not in lines of its own.
    rest: &'a str,
}

/// Words with the offsets at which they begin.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split_ascii_whitespace()
        .map(move |word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}

/// `1234.567890` (seconds) in nanoseconds.
fn nanoseconds(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let fraction = fraction.parse::<u64>().ok()?.checked_mul(scale)?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

fn task(word: &str) -> Option<(u32, u32)> {
    match word.split_once('/') {
        Some((pid, tid)) => Some((pid.parse().ok()?, tid.parse().ok()?)),
        None => word.parse().ok().map(|tid| (tid, tid)),
    }
}

fn head(line: &str) -> Option<Head<'_>> {
    let all: Vec<(usize, &str)> = words(line).collect();
    let time_of = |word: &str| word.strip_suffix(':').and_then(nanoseconds);
    let timed = all.iter().position(|(_, word)| time_of(word).is_some());
    let after = timed.map_or(0, |at| at + 1);
    let event_at = all
        .iter()
        .enumerate()
        .skip(after)
        .find(|(_, (_, word))| word.len() > 1 && word.ends_with(':'))?
        .0;
    let (start, event) = *all.get(event_at)?;
    let mut before = all.get(..event_at)?;
    // A period stands between the time and the event; without a time it would be the task.
    let mut period = None;
    if timed.is_some()
        && let Some((_, last)) = before.get(after..).and_then(<[_]>::last)
    {
        period = last.parse().ok();
    }
    before = all.get(..timed.unwrap_or(event_at))?;
    let mut cpu = None;
    if let [rest @ .., (_, last)] = before
        && let Some(number) = last.strip_prefix('[').and_then(|l| l.strip_suffix(']'))
    {
        cpu = number.parse().ok();
        before = rest;
    }
    let [comm @ .., (end, who)] = before else {
        return None;
    };
    let (pid, tid) = task(who)?;
    let comm_start = comm.first()?.0;
    Some(Head {
        comm: line.get(comm_start..*end)?.trim_end(),
        pid,
        tid,
        cpu,
        time: timed.and_then(|at| time_of(all.get(at)?.1)),
        period,
        event: event.strip_suffix(':').unwrap_or(event),
        rest: line.get(start + event.len()..).unwrap_or("").trim(),
    })
}

/// `ADDRESS SYMBOL+OFFSET (FILE)`.
fn frame(line: &str) -> Option<(u64, &str, &str)> {
    let line = line.trim();
    let (address, rest) = line.split_once(' ').unwrap_or((line, ""));
    let address = u64::from_str_radix(address, 16).ok()?;
    let rest = rest.trim();
    // A path may have parentheses, a symbol too; but only a path begins behind one with a slash or a bracket.
    let inside = rest.strip_suffix(')');
    let begins = |mark: &str| inside.and_then(|r| Some((r.rfind(mark)?, r)));
    let found = begins("(/").or_else(|| begins("(["));
    let (symbol, file) = match found.or_else(|| begins("(")) {
        Some((at, inside)) => (
            inside.get(..at).unwrap_or("").trim(),
            inside.get(at + 1..).unwrap_or(""),
        ),
        None => (rest, ""),
    };
    let symbol = match symbol.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => symbol,
    };
    Some((
        address,
        if symbol.is_empty() {
            "[unknown]"
        } else {
            symbol
        },
        file,
    ))
}

/// How many functions of one address in one file are told apart (programs that were loaded at one address in turns).
const MOST_PLACES: u32 = 8;

#[derive(Default)]
struct Reader<'a> {
    out: Script,
    head: Option<Head<'a>>,
    frames: Vec<(u64, &'a str, &'a str)>,
    files: FxHashMap<(&'a str, u32), u32>,
    events: FxHashMap<&'a str, u32>,
    comms: FxHashMap<&'a str, u32>,
    places: FxHashMap<CodePlace, usize>,
    entries: FxHashMap<Context, usize>,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) {
        if line.trim().is_empty() {
            self.finish();
        } else if line.starts_with([' ', '\t'])
            && self.head.is_some()
            && let Some(frame) = frame(line)
        {
            self.frames.push(frame);
        } else if !line.starts_with('#')
            && let Some(found) = head(line)
        {
            self.finish();
            self.frames.extend(frame(found.rest));
            self.head = Some(found);
        }
    }

    /// Takes in the sample that was read.
    fn finish(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        let Some(head) = self.head.take() else { return };
        if frames.is_empty() {
            self.out.profile.without_ip += 1;
            return;
        }
        let mut chain = Vec::new();
        let mut inlined = Vec::new();
        for (address, function, file) in frames {
            let is_inlined = file == "inlined";
            inlined.push(ScriptName {
                function: function.to_owned(),
                inlined: is_inlined,
            });
            if !is_inlined {
                chain.push(self.place(address, file, std::mem::take(&mut inlined)));
            }
        }
        let profile = &mut self.out.profile;
        let number = |known: &mut FxHashMap<&'a str, u32>, name, list: &mut Vec<String>| {
            let next = list.len() as u32;
            *known.entry(name).or_insert_with(|| {
                list.push(name.to_owned());
                next
            })
        };
        let event = number(&mut self.events, head.event, &mut profile.events);
        let comm = number(&mut self.comms, head.comm, &mut profile.comms);
        profile.with_chain += u64::from(chain.len() > 1);
        let key = Context {
            event,
            pid: head.pid,
            tid: head.tid,
            cpu: head.cpu,
            comm,
            frames: chain.into(),
            early_end: None,
        };
        let entries = &mut profile.entries;
        let at = *self.entries.entry(key).or_insert_with_key(|key| {
            entries.push((key.clone(), Weight::default()));
            entries.len() - 1
        });
        let events = head.period.unwrap_or(1);
        if let Some((_, weight)) = entries.get_mut(at) {
            weight.samples += 1;
            weight.events = weight.events.saturating_add(events);
        }
        if let Some(time) = head.time {
            profile.timeline.push((time, at as u32, events));
        }
    }

    fn place(&mut self, address: u64, file: &'a str, names: Vec<ScriptName>) -> CodePlace {
        let bracketed = file.starts_with('[');
        let kernel = is_kernel_address(address)
            || bracketed && (file.contains("kernel") || file == "[guest]");
        let mut turn = 0;
        loop {
            let files = &mut self.out.profile.files;
            let next = files.len() as u32;
            let number = *self.files.entry((file, turn)).or_insert_with(|| {
                files.push(MappedFile {
                    path: if file.is_empty() { "[unknown]" } else { file }.to_owned(),
                    build_id: Vec::new(),
                });
                next
            });
            let place = CodePlace {
                file: Some(number),
                offset: address,
                kernel,
            };
            match self.places.get(&place) {
                None => {
                    self.places.insert(place, self.out.names.len());
                    self.out.names.push((place, names));
                    return place;
                }
                Some(&known) => {
                    let same = self.out.names.get(known).is_some_and(|(_, n)| *n == names);
                    if same || turn + 1 == MOST_PLACES {
                        return place;
                    }
                }
            }
            turn += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# ========\n\
Web Content  4711/4713  [002] 12345.678901:     250000 cpu-clock:u: \n\
\t    55d0c0de1149 inner+0x10 (inlined)\n\
\t    55d0c0de1149 outer<(int, char)>(long)+0x20 (/opt/a (1)/prog)\n\
\tffffffff81000010 do_syscall_64+0x5 ([kernel.kallsyms])\n\
\n\
sh 77 12345.700000: 1 cycles:ppp:  ffffffff81000010 do_syscall_64+0x5 ([kernel.kallsyms])\n\
sh 77 12345.700001: 1 cycles:ppp:  7f00 [unknown] ([unknown])\n\
sh 77 sched:sched_switch: prev_comm=sh\n";

    #[test]
    fn samples_have_tasks_times_chains_and_names() {
        let script = parse(TEXT).unwrap();
        let p = &script.profile;
        assert_eq!(p.comms, ["Web Content", "sh"]);
        assert_eq!(p.events, ["cpu-clock:u", "cycles:ppp"]);
        let (context, weight) = &p.entries[0];
        assert_eq!(
            (context.pid, context.tid, context.cpu),
            (4711, 4713, Some(2))
        );
        assert_eq!((weight.samples, weight.events), (1, 250_000));
        let kernel: Vec<bool> = context.frames.iter().map(|f| f.kernel).collect();
        assert_eq!(kernel, [false, true]);
        let names: Vec<&str> = script.names[0].1.iter().map(|n| &*n.function).collect();
        assert_eq!(names, ["inner", "outer<(int, char)>(long)"]);
        assert!(script.names[0].1[0].inlined && !script.names[0].1[1].inlined);
        assert_eq!(p.files[0].path, "/opt/a (1)/prog");
        assert_eq!(p.timeline[0], (12_345_678_901_000, 0, 250_000));
        assert_eq!((p.entries.len(), p.without_ip), (3, 1));
    }

    #[test]
    fn what_is_no_sample_is_none() {
        for text in ["", "some text\n", "a b c: d\n", "x 1 2.5: 3 y:\n\n\t zz\n"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
