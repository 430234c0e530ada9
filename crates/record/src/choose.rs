//! Which events are sampled, how often, and with which fields: from the command line and from what this kernel takes.

use truecount_events::{Cpus, Encoding, Machine};
use truecount_perf::sys::bindings as abi;
use truecount_perf::{
    Cause, Errno, Event as Counter, EventAttr, OpenOptions, SharedKernel, Target, linux,
};
use truecount_sample::abi::{branch as br, sample as st};

use truecount_model::number::grouped;
use truecount_run::{Error, ErrorKind};

/// A prime near two million: 1,500 samples a second at 3 GHz, and no loop's period divides it.
const CYCLES: u64 = 2_000_003;
/// Branch stacks: each sample brings 32 blocks.
const CYCLES_BRANCHES: u64 = 1_000_003;
/// Zen 3's branch sampling: 500 to 1,000 samples a second, of 16 branches each.
const TAKEN_BRANCHES: u64 = 1_000_003;
/// Its event in sysfs (Linux `arch/x86/events/amd/core.c`, `branch-brs`): with it, and with it alone, samples bring
/// branches, at a fixed period of more than 16 (`arch/x86/events/amd/brs.c`, `amd_brs_hw_config`).
const BRS: &str = "branch-brs";
/// One millisecond of cpu-clock.
const CLOCK_NS: u64 = 1_000_000;
/// For events of unknown frequency.
const HERTZ: u64 = 1000;
/// Stack copied per sample for unwinding, as perf does.
const STACK: u32 = 8192;

/// How call chains are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chains {
    /// Frame pointers, followed by the kernel.
    Fp,
    /// A copy of the stack, unwound later.
    Dwarf,
    /// The branch stack's call-stack mode (Intel, since Haswell).
    Lbr,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// An expression as `-e` takes it; `None`: cycles, or what there is.
    pub event: Option<&'a str>,
    /// A vendor's files with further names.
    pub event_dir: Option<&'a std::path::Path>,
    /// A sample every so many events.
    pub period: Option<u64>,
    /// Samples a second.
    pub frequency: Option<u64>,
    /// Branch stacks.
    pub branches: bool,
    /// Call chains.
    pub chains: Option<Chains>,
    /// At most so many callers; 0: as many as the kernel gives.
    pub max_stack: u16,
    /// At most so many events; `None`: any number.
    pub most: Option<usize>,
    /// Notes only on what is not as it was asked for: neither on how often samples are taken, nor on what could be
    /// done.
    pub brief: bool,
}

/// One event to be sampled.
pub struct ChosenEvent {
    /// As it was asked for, with its filter.
    pub name: String,
    /// As this kernel takes it.
    pub attr: EventAttr,
    /// Where it counts: where cores differ, each kind has an event of its own.
    pub cpus: Cpus,
}

/// What will be recorded, and what the user should know of it.
pub struct Chosen {
    /// At least one.
    pub events: Vec<ChosenEvent>,
    /// What is not as it was asked for, one line each.
    pub notes: Vec<String>,
    /// Samples bring branch stacks.
    pub branches: bool,
}

fn failure(error: &truecount_perf::Error) -> Error {
    Error::new(ErrorKind::Setup, error.reason().to_owned()).hint(error.hint().to_owned())
}

/// Resolves and tries the events on this thread.
///
/// # Errors
/// A name that is no event, an event that cannot be sampled, or what the kernel refuses.
pub fn choose(request: &Request<'_>) -> Result<Chosen, Error> {
    let machine = truecount_run::machine::this(request.event_dir)?;
    choose_on(request, &linux(), &machine)
}

/// As [`choose`], on any kernel and machine.
///
/// # Errors
/// As there.
pub fn choose_on(
    request: &Request<'_>,
    kernel: &SharedKernel,
    machine: &Machine,
) -> Result<Chosen, Error> {
    let mut notes = Vec::new();
    let brs = request.branches && has_brs(machine);
    let mut events = match (request.event, brs) {
        (None, false) => default_events(request, kernel, machine, &mut notes)?,
        (None, true) => {
            if !request.brief {
                notes.push(format!(
                    "sampling {BRS}: this CPU's branch sampling (BRS) takes no other event"
                ));
            }
            named(request, BRS, true, kernel, machine, &mut notes)?
        }
        (Some(expression), _) => named(request, expression, brs, kernel, machine, &mut notes)?,
    };
    // Of the events of a CPU only the first writes what happens to processes; and all write the same fields, or
    // records could not be told apart.
    let places: Vec<Cpus> = events.iter().map(|event| event.cpus.clone()).collect();
    for (index, event) in events.iter_mut().enumerate() {
        let before = places.iter().take(index);
        let written = before
            .clone()
            .any(|place| !matches!(place, Cpus::Core(_)) || *place == event.cpus);
        if written {
            event.attr = event
                .attr
                .mmap(false)
                .mmap2(false)
                .comm(false)
                .comm_exec(false)
                .task(false)
                .build_id(false);
        }
    }
    Ok(Chosen {
        events,
        notes,
        branches: request.branches || request.chains == Some(Chains::Lbr),
    })
}

/// Whether branches are sampled as Zen 3 does.
fn has_brs(machine: &Machine) -> bool {
    machine
        .core_pmus()
        .iter()
        .any(|pmu| matches!(pmu.event(BRS), Ok(Some(_))))
}

/// What the expression means here.
fn named(
    request: &Request<'_>,
    expression: &str,
    brs: bool,
    kernel: &SharedKernel,
    machine: &Machine,
    notes: &mut Vec<String>,
) -> Result<Vec<ChosenEvent>, Error> {
    let resolved = truecount_events::resolve(expression, machine)
        .map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
    // What was mistyped is told before what the kernel refuses.
    let several = |name: &str| {
        let cause = format!("{name} cannot be sampled: it is made of several counters");
        Error::new(ErrorKind::Usage, cause).hint("sample one of its parts")
    };
    let mut asked = Vec::new();
    for event in resolved.events() {
        let encoding = event.encoding().ok_or_else(|| several(&event.name))?;
        asked.push((event, encoding));
    }
    if let Some(most) = request.most.filter(|most| asked.len() > *most) {
        let cause = format!("{} events are too many to look at", asked.len());
        return Err(Error::new(ErrorKind::Usage, cause).hint(format!("name at most {most}")));
    }
    let mut events = Vec::new();
    for (event, encoding) in asked {
        let attr = EventAttr::from(encoding);
        let attr = if brs {
            attr.sample_every(brs_period(request, encoding, &event.name)?)
        } else {
            with_rate(request, attr, Some(encoding), notes, &event.name)
        };
        let attr =
            tried(kernel, fields(request, attr), encoding.max_precise).map_err(|e| failure(&e))?;
        events.push(ChosenEvent {
            name: event.name.clone(),
            attr,
            cpus: event.cpus.clone(),
        });
    }
    Ok(events)
}

/// What Zen 3 samples branches with: nothing but its own event, every so many of them.
fn brs_period(request: &Request<'_>, encoding: &Encoding, name: &str) -> Result<u64, Error> {
    let wrong = |what: String| {
        Error::new(ErrorKind::Usage, what).hint(format!(
            "truecount record -b -e {BRS} -c {TAKEN_BRANCHES}, or leave -b out"
        ))
    };
    if encoding.config & 0xf_0000_ffff != 0xc4 {
        return Err(wrong(format!(
            "{name} cannot bring branch stacks: this CPU's branch sampling (BRS) takes the event {BRS} only"
        )));
    }
    if request.frequency.or(encoding.frequency).is_some() {
        return Err(wrong(
            "this CPU's branch sampling (BRS) takes a fixed period only, no frequency".to_owned(),
        ));
    }
    let period = request.period.or(encoding.period).unwrap_or(TAKEN_BRANCHES);
    if period <= 16 {
        return Err(wrong(format!(
            "a period of {period} is too short: this CPU's branch sampling (BRS) needs more than its 16 entries"
        )));
    }
    Ok(period)
}

/// cycles, of every kind of core; of user mode where the kernel is not to be seen; cpu-clock where there is no PMU.
fn default_events(
    request: &Request<'_>,
    kernel: &SharedKernel,
    machine: &Machine,
    notes: &mut Vec<String>,
) -> Result<Vec<ChosenEvent>, Error> {
    let mut own = Vec::new();
    let mut wanted: Vec<(String, EventAttr, Cpus)> = Vec::new();
    if let Ok(resolved) = truecount_events::resolve("cycles", machine) {
        wanted.extend(resolved.events().filter_map(|event| {
            let attr = EventAttr::from(event.encoding()?);
            Some((event.name.clone(), attr, event.cpus.clone()))
        }));
    }
    if wanted.is_empty() {
        let cycles = EventAttr::new(
            abi::PERF_TYPE_HARDWARE,
            u64::from(abi::PERF_COUNT_HW_CPU_CYCLES),
        );
        wanted.push(("cycles".to_owned(), cycles, Cpus::Any));
    }
    for (_, attr, _) in &mut wanted {
        own.clear();
        *attr = fields(request, with_rate(request, *attr, None, &mut own, "cycles"));
    }
    let all = |user_only: bool| -> Result<Vec<ChosenEvent>, truecount_perf::Error> {
        let one = |(name, attr, cpus): &(String, EventAttr, Cpus)| {
            let filtered = attr.exclude_kernel(user_only).exclude_hv(user_only);
            let asked = if user_only { filtered } else { *attr };
            let attr = tried(kernel, asked, !request.branches)?;
            // `cpu_core/cycles/` has its place for modifiers behind the slash.
            let separator = if name.ends_with('/') { "" } else { ":" };
            let name = match user_only {
                true => format!("{name}{separator}u"),
                false => name.clone(),
            };
            Ok(ChosenEvent {
                name,
                attr,
                cpus: cpus.clone(),
            })
        };
        wanted.iter().map(one).collect()
    };
    let first = match all(false) {
        Ok(events) => {
            notes.append(&mut own);
            return Ok(events);
        }
        Err(error) => error,
    };
    if matches!(first.errno(), Some(Errno::EACCES | Errno::EPERM))
        && let Ok(events) = all(true)
    {
        notes.append(&mut own);
        notes.push(format!("user mode only: {}", first.reason()));
        return Ok(events);
    }
    if request.branches || request.chains == Some(Chains::Lbr) {
        return Err(failure(&first));
    }
    clock(request, kernel, notes, &first).map(|event| vec![event])
}

/// The timer that every kernel has.
fn clock(
    request: &Request<'_>,
    kernel: &SharedKernel,
    notes: &mut Vec<String>,
    instead_of: &truecount_perf::Error,
) -> Result<ChosenEvent, Error> {
    let clock = EventAttr::new(
        abi::PERF_TYPE_SOFTWARE,
        u64::from(abi::PERF_COUNT_SW_CPU_CLOCK),
    );
    let attr = fields(request, with_rate(request, clock, None, notes, "cpu-clock"));
    let with_kernel = tried(kernel, attr, false);
    let (name, attr) = match with_kernel {
        Ok(attr) => ("cpu-clock", attr),
        Err(_) => (
            "cpu-clock:u",
            tried(kernel, attr.exclude_kernel(true), false).map_err(|e| failure(&e))?,
        ),
    };
    notes.push(format!(
        "sampling {name}, a timer, instead of cycles: {}",
        instead_of.reason()
    ));
    if !request.brief && instead_of.cause() != Cause::Unknown && !instead_of.hint().is_empty() {
        notes.push(instead_of.hint().to_owned());
    }
    Ok(ChosenEvent {
        name: name.to_owned(),
        attr,
        cpus: Cpus::Any,
    })
}

/// How often: what was asked for, else a fixed period where the event's frequency is known.
fn with_rate(
    request: &Request<'_>,
    attr: EventAttr,
    encoding: Option<&Encoding>,
    notes: &mut Vec<String>,
    name: &str,
) -> EventAttr {
    if let Some(period) = request.period.or(encoding.and_then(|e| e.period)) {
        return attr.sample_every(period);
    }
    if let Some(hertz) = request.frequency.or(encoding.and_then(|e| e.frequency)) {
        return attr.sample_frequency(hertz);
    }
    let generic = generic_name(name);
    let clock = matches!(generic, "cpu-clock" | "task-clock");
    let steady = matches!(
        generic,
        "cycles" | "cpu-cycles" | "instructions" | "ref-cycles"
    );
    if clock {
        return attr.sample_every(CLOCK_NS);
    }
    if steady {
        let period = if request.branches {
            CYCLES_BRANCHES
        } else {
            CYCLES
        };
        if !request.brief {
            notes.push(format!(
                "a sample every {} {name} (a fixed period costs less per sample than a frequency, which the kernel must keep adjusting; -c and -F change it)",
                grouped(period)
            ));
        }
        return attr.sample_every(period);
    }
    if !request.brief {
        notes.push(format!("{HERTZ} samples of {name} a second (how often it occurs is not known; -c gives a fixed period)"));
    }
    attr.sample_frequency(HERTZ)
}

/// The event's own name: without the PMU of a kind of core, and without modifiers.
fn generic_name(name: &str) -> &str {
    let mut parts = name.split('/');
    let (first, second) = (parts.next().unwrap_or(name), parts.next());
    let name = second.unwrap_or(first);
    name.split(':').next().unwrap_or(name)
}

/// What each sample holds.
fn fields(request: &Request<'_>, attr: EventAttr) -> EventAttr {
    let mut t = st::IDENTIFIER | st::IP | st::TID | st::TIME | st::CPU | st::PERIOD;
    let mut attr = attr;
    let user_only = attr.get_exclude_kernel();
    if request.branches {
        t |= st::BRANCH_STACK;
        attr = attr.branch_sample_type(br::ANY);
    }
    match request.chains {
        None => {}
        Some(Chains::Fp) => {
            t |= st::CALLCHAIN;
            attr = attr.exclude_callchain_kernel(user_only);
        }
        Some(Chains::Dwarf) => {
            t |= st::CALLCHAIN | st::REGS_USER | st::STACK_USER;
            attr = attr
                .exclude_callchain_user(true)
                .exclude_callchain_kernel(user_only)
                .sample_regs_user(truecount_sample::abi::user_registers())
                .sample_stack_user(STACK);
        }
        Some(Chains::Lbr) => {
            t |= st::CALLCHAIN | st::BRANCH_STACK;
            attr =
                attr.branch_sample_type(br::USER | br::CALL_STACK | br::NO_CYCLES | br::NO_FLAGS);
        }
    }
    attr.sample_type(t)
        .sample_max_stack(request.max_stack)
        .sample_id_all(true)
        .read_format(u64::from(abi::PERF_FORMAT_ID))
        .disabled(true)
        .inherit(true)
        .mmap(true)
        .mmap2(true)
        .comm(true)
        .comm_exec(true)
        .task(true)
        .build_id(true)
        .read_lost()
}

/// Opens the event on this thread, with less where the kernel is older: gives the attribute that it takes.
fn tried(
    kernel: &SharedKernel,
    attr: EventAttr,
    try_precise: bool,
) -> Result<EventAttr, truecount_perf::Error> {
    let without_lost =
        |a: EventAttr| a.read_format(a.get_read_format() & !u64::from(abi::PERF_FORMAT_LOST));
    let mut variants = Vec::new();
    let asked = attr.get_precise_ip();
    let levels: Vec<u8> = if try_precise {
        vec![3, 2, 1, 0]
    } else {
        vec![asked]
    };
    for level in levels {
        let full = attr.precise_ip(level);
        variants.extend([full, without_lost(full), without_lost(full).build_id(false)]);
    }
    let mut first = None;
    for variant in &variants {
        match Counter::open_with(
            kernel,
            variant,
            Target::CallingThread,
            OpenOptions::default(),
        ) {
            Ok(_) => return Ok(*variant),
            Err(error) => {
                // A missing right or a missing PMU does not come back by asking for less.
                let hopeless = matches!(
                    error.errno(),
                    Some(Errno::EACCES | Errno::EPERM | Errno::ENOENT | Errno::ENOSYS)
                );
                // The plainest request's error says most about the machine.
                first = Some(error);
                if hopeless {
                    break;
                }
            }
        }
    }
    match first {
        Some(error) => Err(error),
        None => Ok(attr),
    }
}
