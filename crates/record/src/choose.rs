//! Which events are sampled, how often, and with which fields: from the command line and from what this kernel takes.

use truecount_events::Encoding;
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
    let kernel = linux();
    let mut notes = Vec::new();
    let mut events = Vec::new();
    match request.event {
        Some(expression) => {
            let machine = truecount_run::machine::this(request.event_dir)?;
            let resolved = truecount_events::resolve(expression, &machine)
                .map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
            for event in resolved.events() {
                let Some(encoding) = event.encoding() else {
                    return Err(Error::new(
                        ErrorKind::Usage,
                        format!(
                            "{} cannot be sampled: it is made of several counters",
                            event.name
                        ),
                    )
                    .hint("sample one of its parts"));
                };
                let attr = with_rate(
                    request,
                    EventAttr::from(encoding),
                    Some(encoding),
                    &mut notes,
                    &event.name,
                );
                let attr = tried(&kernel, fields(request, attr), encoding.max_precise)
                    .map_err(|e| failure(&e))?;
                events.push(ChosenEvent {
                    name: event.name.clone(),
                    attr,
                });
            }
        }
        None => events.push(default_event(request, &kernel, &mut notes)?),
    }
    // Only the first event writes what happens to processes; and all write the same fields, or records could
    // not be told apart.
    for event in events.iter_mut().skip(1) {
        event.attr = event
            .attr
            .mmap(false)
            .mmap2(false)
            .comm(false)
            .comm_exec(false)
            .task(false)
            .build_id(false);
    }
    Ok(Chosen {
        events,
        notes,
        branches: request.branches || request.chains == Some(Chains::Lbr),
    })
}

/// cycles; of user mode where the kernel is not to be seen; cpu-clock where there is no PMU.
fn default_event(
    request: &Request<'_>,
    kernel: &SharedKernel,
    notes: &mut Vec<String>,
) -> Result<ChosenEvent, Error> {
    let cycles = EventAttr::new(
        abi::PERF_TYPE_HARDWARE,
        u64::from(abi::PERF_COUNT_HW_CPU_CYCLES),
    );
    let mut own = Vec::new();
    let attr = fields(
        request,
        with_rate(request, cycles, None, &mut own, "cycles"),
    );
    let first = match tried(kernel, attr, !request.branches) {
        Ok(attr) => {
            notes.append(&mut own);
            return Ok(ChosenEvent {
                name: "cycles".to_owned(),
                attr,
            });
        }
        Err(error) => error,
    };
    if matches!(first.errno(), Some(Errno::EACCES | Errno::EPERM))
        && let Ok(attr) = tried(
            kernel,
            attr.exclude_kernel(true).exclude_hv(true),
            !request.branches,
        )
    {
        notes.append(&mut own);
        notes.push(format!("user mode only: {}", first.reason()));
        return Ok(ChosenEvent {
            name: "cycles:u".to_owned(),
            attr,
        });
    }
    if request.branches || request.chains == Some(Chains::Lbr) {
        return Err(failure(&first));
    }
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
        first.reason()
    ));
    if !request.brief && first.cause() != Cause::Unknown && !first.hint().is_empty() {
        notes.push(first.hint().to_owned());
    }
    Ok(ChosenEvent {
        name: name.to_owned(),
        attr,
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
    let (kind, config) = (attr.get_type(), attr.get_config());
    let is = |k: u32, c: u32| kind == k && config == u64::from(c);
    let clock = is(abi::PERF_TYPE_SOFTWARE, abi::PERF_COUNT_SW_CPU_CLOCK)
        || is(abi::PERF_TYPE_SOFTWARE, abi::PERF_COUNT_SW_TASK_CLOCK);
    let steady = is(abi::PERF_TYPE_HARDWARE, abi::PERF_COUNT_HW_CPU_CYCLES)
        || is(abi::PERF_TYPE_HARDWARE, abi::PERF_COUNT_HW_INSTRUCTIONS)
        || is(abi::PERF_TYPE_HARDWARE, abi::PERF_COUNT_HW_REF_CPU_CYCLES);
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
