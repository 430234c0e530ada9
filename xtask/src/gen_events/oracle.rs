//! `check-events`: do the tables agree with libpfm4, another project's tables? Optional: without the library
//! (Debian's package `libpfm4`) it says `skipped`.
//!
//! libpfm answers for one kind of CPU in a process (`LIBPFM_FORCE_PMU`), so each model is asked in a process of its
//! own. Names that libpfm lacks are not compared. Where both differ for a known reason, the reason stands in
//! `differs.tsv`, and everything else is a failure.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use truecount_events::tables::{TableEvent, Tables};

/// Our model, libpfm's PMU.
const PMUS: &[(&str, &str)] = &[
    ("sandybridge", "snb"),
    ("jaketown", "snb_ep"),
    ("ivybridge", "ivb"),
    ("ivytown", "ivb_ep"),
    ("haswell", "hsw"),
    ("haswellx", "hsw_ep"),
    ("broadwell", "bdw"),
    ("broadwellx", "bdw_ep"),
    ("skylake", "skl"),
    ("skylakex", "skx"),
    ("cascadelakex", "clx"),
    ("icelake", "icl"),
    ("icelakex", "icx"),
    ("sapphirerapids", "spr"),
    ("silvermont", "slm"),
    ("goldmont", "glm"),
    ("knightslanding", "knl"),
    ("amdzen1", "amd64_fam17h_zen1"),
    ("amdzen2", "amd64_fam17h_zen2"),
    ("amdzen3", "amd64_fam19h_zen3"),
    ("amdzen4", "amd64_fam19h_zen4"),
];

/// `PFM_OS_PERF_EVENT_EXT` and `PFM_PLM3 | PFM_PLM0` (perfmon/pfmlib.h).
const OS_PERF_EVENT_EXT: c_int = 2;
const PLM: c_int = 9;

/// `pfm_perf_encode_arg_t` (perfmon/pfmlib_perf_event.h).
#[repr(C)]
struct Argument {
    attr: *mut Attr,
    fstr: *mut c_void,
    size: usize,
    idx: c_int,
    cpu: c_int,
    flags: c_int,
    pad: c_int,
}

/// The head of `perf_event_attr`, 120 bytes.
#[repr(C)]
#[derive(Default)]
struct Attr {
    type_: u32,
    size: u32,
    config: u64,
    before: [u64; 5],
    config1: u64,
    after: [u64; 7],
}

type Initialize = unsafe extern "C" fn() -> c_int;
type Encode = unsafe extern "C" fn(*const c_char, c_int, c_int, *mut Argument) -> c_int;

/// Runs the task.
pub(crate) fn main(arguments: &[String]) -> Result<()> {
    let mut count = 1000usize;
    let mut seed = 1u64;
    let mut verbose = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--answer" => return answer(),
            "--count" => count = rest.next().context("--count N")?.parse()?,
            "--seed" => seed = rest.next().context("--seed N")?.parse()?,
            "--verbose" => verbose = true,
            _ => bail!("usage: cargo xtask check-events [--count N] [--seed N] [--verbose]"),
        }
    }
    let Some(answers) = ask_all()? else {
        println!("skipped: no libpfm.so.4 (apt-get install libpfm4)");
        return Ok(());
    };
    let mut pairs: Vec<(&str, &TableEvent, (u64, u64))> = answers
        .iter()
        .flat_map(|(model, list)| {
            list.iter()
                .map(move |&(event, words)| (*model, event, words))
        })
        .collect();
    shuffle(&mut pairs, seed);
    pairs.truncate(count);
    judge(&pairs, verbose)
}

/// libpfm's words for every event that it knows, by model.
type Answers<'a> = BTreeMap<&'static str, Vec<(&'a TableEvent, (u64, u64))>>;

fn ask_all() -> Result<Option<Answers<'static>>> {
    let mut answers = Answers::new();
    for (name, pmu) in PMUS {
        let model = Tables::embedded()
            .model(name)
            .with_context(|| (*name).to_owned())?;
        let events: Vec<_> = model
            .events()
            .filter(|e| e.is_core() && e.raw().is_some())
            .collect();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["check-events", "--answer"])
            .env("LIBPFM_FORCE_PMU", pmu)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().context("no pipe")?;
        let names: String = events.iter().map(|e| format!("{}\n", e.name)).collect();
        let writer = std::thread::spawn(move || input.write_all(names.as_bytes()));
        let output = child.wait_with_output()?;
        // A child without the library leaves its input unread.
        let _ = writer.join();
        let text = String::from_utf8(output.stdout)?;
        if text.trim() == "none" {
            return Ok(None);
        }
        if !output.status.success() || text.lines().count() != events.len() {
            bail!("{pmu}: libpfm's process failed");
        }
        let list = answers.entry(name).or_default();
        for (event, line) in events.into_iter().zip(text.lines()) {
            let mut words = line.split(' ').map(|w| u64::from_str_radix(w, 16));
            if let (Some(Ok(config)), Some(Ok(config1))) = (words.next(), words.next()) {
                list.push((event, (config, config1)));
            }
        }
    }
    Ok(Some(answers))
}

/// Fisher-Yates with a linear congruential generator (Knuth's MMIX constants).
fn shuffle<T>(list: &mut [T], mut state: u64) {
    for i in (1..list.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let j = usize::try_from(state >> 33).unwrap_or(0) % (i + 1);
        list.swap(i, j);
    }
}

fn judge(pairs: &[(&str, &TableEvent, (u64, u64))], verbose: bool) -> Result<()> {
    let reasons: Vec<(&str, &str, &str)> = include_str!("differs.tsv")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .filter_map(|line| {
            let mut fields = line.splitn(3, '\t');
            Some((fields.next()?, fields.next()?, fields.next()?))
        })
        .collect();
    let mut explained: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = 0usize;
    for (model, event, (config, config1)) in pairs {
        if event.raw() == Some(*config) && event.config1() == *config1 {
            continue;
        }
        let reason = reasons
            .iter()
            .find(|(models, names, _)| is_like(models, model) && is_like(names, &event.name));
        if verbose || reason.is_none() {
            println!(
                "{model} {}: {:x} {:x}, libpfm {config:x} {config1:x} ({})",
                event.name,
                event.raw().unwrap_or(0),
                event.config1(),
                reason.map_or("not explained", |r| r.2)
            );
        }
        match reason {
            Some((_, _, text)) => *explained.entry(text).or_default() += 1,
            None => wrong += 1,
        }
    }
    let known: usize = explained.values().sum();
    println!(
        "{} names compared with libpfm: {} agree, {known} differ for a known reason, {wrong} differ",
        pairs.len(),
        pairs.len() - known - wrong
    );
    for (reason, count) in explained {
        println!("  {count:4}  {reason}");
    }
    if wrong > 0 {
        bail!("{wrong} events differ from libpfm for no known reason");
    }
    Ok(())
}

/// `A*`: begins with A; `*A`: ends; else equal; `|` separates alternatives.
fn is_like(patterns: &str, text: &str) -> bool {
    patterns.split('|').any(|pattern| {
        if let Some(start) = pattern.strip_suffix('*') {
            text.starts_with(start)
        } else if let Some(end) = pattern.strip_prefix('*') {
            text.ends_with(end)
        } else {
            text == pattern
        }
    })
}

/// The child: names on stdin, `config config1` in hexadecimal or `-` on stdout.
fn answer() -> Result<()> {
    let mut out = std::io::stdout().lock();
    // SAFETY: a NUL-terminated name; loading runs the library's own start-up code only.
    let library = unsafe { libc::dlopen(c"libpfm.so.4".as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        writeln!(out, "none")?;
        return Ok(());
    }
    let initialize = symbol(library, c"pfm_initialize")?;
    let encode = symbol(library, c"pfm_get_os_event_encoding")?;
    // SAFETY: the symbol has this type in perfmon/pfmlib.h.
    let initialize: Initialize = unsafe { std::mem::transmute(initialize) };
    // SAFETY: as above.
    let encode: Encode = unsafe { std::mem::transmute(encode) };
    // SAFETY: called once, before anything else of the library.
    if unsafe { initialize() } != 0 {
        bail!("pfm_initialize failed");
    }
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match ask(encode, &line)? {
            Some((config, config1)) => writeln!(out, "{config:x} {config1:x}")?,
            None => writeln!(out, "-")?,
        }
    }
    Ok(())
}

/// Asks for the vendor's name, and for it with the later dots as underscores, as libpfm spells some.
fn ask(encode: Encode, name: &str) -> Result<Option<(u64, u64)>> {
    let spelt = match name.split_once('.') {
        Some((event, rest)) => format!("{event}:{}", rest.replace('.', "_")),
        None => name.to_owned(),
    };
    let name = CString::new(spelt)?;
    let mut attr = Attr {
        size: 120,
        ..Attr::default()
    };
    let mut argument = Argument {
        attr: &raw mut attr,
        fstr: std::ptr::null_mut(),
        size: std::mem::size_of::<Argument>(),
        idx: 0,
        cpu: 0,
        flags: 0,
        pad: 0,
    };
    // SAFETY: the name is NUL-terminated; the argument and the attr it points at live through the call and have the
    // sizes that they state.
    let result = unsafe { encode(name.as_ptr(), PLM, OS_PERF_EVENT_EXT, &raw mut argument) };
    Ok((result == 0 && attr.type_ == 4).then_some((attr.config, attr.config1)))
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void> {
    // SAFETY: an open library and a NUL-terminated name.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() {
        bail!("libpfm has no {}", name.to_string_lossy());
    }
    Ok(address)
}
