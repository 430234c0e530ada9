//! `PERF_RECORD_SAMPLE` and the identity at the end of other records.
//!
//! Order and sizes of the fields are those of `perf_output_sample` and `perf_event__output_id_sample` in
//! `kernel/events/core.c` (Linux 6.18). A field wrongly skipped shifts all that follow, so a sample must
//! end exactly where its record ends.

use crate::abi::{branch as br, read_format as rf, sample as st};
use crate::attr::EventAttr;
use crate::branch::BranchStack;
use crate::bytes::{Cursor, U64s, u64_at};

/// What is needed to read the samples of one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleLayout {
    /// `PERF_SAMPLE_*` bits.
    pub sample_type: u64,
    /// `PERF_FORMAT_*` bits.
    pub read_format: u64,
    /// `PERF_SAMPLE_BRANCH_*` bits.
    pub branch_sample_type: u64,
    /// Registers in `REGS_USER`.
    pub regs_user: u64,
    /// Registers in `REGS_INTR`.
    pub regs_intr: u64,
    /// Other records end with the sample's identity.
    pub sample_id_all: bool,
}

impl From<&EventAttr> for SampleLayout {
    fn from(attr: &EventAttr) -> Self {
        Self {
            sample_type: attr.sample_type,
            read_format: attr.read_format,
            branch_sample_type: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            sample_id_all: attr.sample_id_all(),
        }
    }
}

/// Which task, when, where: fields that samples and other records share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleId {
    /// Process (thread group).
    pub pid: Option<u32>,
    /// Thread.
    pub tid: Option<u32>,
    /// Nanoseconds of the recording's clock.
    pub time: Option<u64>,
    /// Id of the event.
    pub id: Option<u64>,
    /// Id of the stream.
    pub stream_id: Option<u64>,
    /// CPU.
    pub cpu: Option<u32>,
}

/// Registers in a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers<'a> {
    /// 0 none, 1 32-bit, 2 64-bit.
    pub abi: u64,
    /// Which registers follow (`sample_regs_*`), lowest bit first.
    pub mask: u64,
    /// Their values.
    pub values: U64s<'a>,
}

impl Registers<'_> {
    /// The value of the register with the given `PERF_REG_*` number.
    #[must_use]
    pub fn get(&self, register: u32) -> Option<u64> {
        if register > 63 || self.mask & (1u64 << register) == 0 || self.abi == 0 {
            return None;
        }
        let below = self.mask & ((1u64 << register) - 1);
        self.values.iter().nth(below.count_ones() as usize)
    }
}

/// A counter's value in a sample (`PERF_SAMPLE_READ`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadValues<'a> {
    /// Nanoseconds enabled.
    pub time_enabled: Option<u64>,
    /// Nanoseconds running.
    pub time_running: Option<u64>,
    /// Words per value: 1, and 1 more for each of id and lost.
    words: usize,
    has_id: bool,
    values: U64s<'a>,
}

impl<'a> ReadValues<'a> {
    fn parse(c: &mut Cursor<'a>, format: u64) -> Option<Self> {
        let has_id = format & rf::ID != 0;
        let words = 1 + usize::from(has_id) + usize::from(format & rf::LOST != 0);
        let mut out = Self {
            words,
            has_id,
            ..Self::default()
        };
        if format & rf::GROUP != 0 {
            let nr = c.u64()?;
            out.time_enabled = opt(c, format & rf::TOTAL_TIME_ENABLED)?;
            out.time_running = opt(c, format & rf::TOTAL_TIME_RUNNING)?;
            out.values = U64s::new(c.take_array(nr, words.checked_mul(8)?)?);
        } else {
            // A single value stands before the times, its id and losses after them: two slices, so
            // only the value is kept.
            let value = c.take(8)?;
            out.time_enabled = opt(c, format & rf::TOTAL_TIME_ENABLED)?;
            out.time_running = opt(c, format & rf::TOTAL_TIME_RUNNING)?;
            c.take((words - 1).checked_mul(8)?)?;
            out.values = U64s::new(value);
            out.words = 1;
            out.has_id = false;
        }
        Some(out)
    }

    /// The values with their event ids, where recorded.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Option<u64>)> + '_ {
        let words = self.words.max(1);
        let mut values = self.values.iter();
        std::iter::from_fn(move || {
            let value = values.next()?;
            let rest = words - 1;
            let id = if rest > 0 { values.next() } else { None };
            for _ in 1..rest {
                values.next();
            }
            Some((value, id.filter(|_| self.has_id)))
        })
    }
}

fn opt(c: &mut Cursor<'_>, present: u64) -> Option<Option<u64>> {
    if present == 0 {
        Some(None)
    } else {
        c.u64().map(Some)
    }
}

/// One sample; fields that the event did not ask for are `None` or empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// `misc` of the record: privilege mode, precise ip.
    pub misc: u16,
    /// Task, time, CPU, event.
    pub id: SampleId,
    /// Instruction pointer.
    pub ip: Option<u64>,
    /// Data address.
    pub addr: Option<u64>,
    /// Events that this sample stands for.
    pub period: Option<u64>,
    /// Counter values.
    pub read: Option<ReadValues<'a>>,
    /// Call chain with context markers ([`crate::abi::context`]).
    pub callchain: U64s<'a>,
    /// Raw data of tracepoints and some PMUs.
    pub raw: &'a [u8],
    /// Branch stack.
    pub branches: Option<BranchStack<'a>>,
    /// User registers.
    pub regs_user: Option<Registers<'a>>,
    /// User stack from the stack pointer up.
    pub stack_user: &'a [u8],
    /// Weight: latency of a memory access (the low 32 bits with `WEIGHT_STRUCT`).
    pub weight: Option<u64>,
    /// Where the data came from (`PERF_MEM_*`).
    pub data_src: Option<u64>,
    /// Transaction flags.
    pub transaction: Option<u64>,
    /// Registers at the interrupt.
    pub regs_intr: Option<Registers<'a>>,
    /// Physical data address.
    pub phys_addr: Option<u64>,
    /// Cgroup id.
    pub cgroup: Option<u64>,
    /// Page size of the data address.
    pub data_page_size: Option<u64>,
    /// Page size of the code address.
    pub code_page_size: Option<u64>,
    /// AUX data of this sample.
    pub aux: &'a [u8],
}

impl SampleLayout {
    /// Reads a sample's body (what follows the 8 bytes of the record's header).
    /// `None`: the fields do not fill the record exactly, so the layout is not the one it was written with.
    #[must_use]
    pub fn sample<'a>(&self, misc: u16, body: &'a [u8]) -> Option<Sample<'a>> {
        // A stack the kernel could not read is only `nr = 0`, without the index that HW_INDEX promises;
        // an empty stack that it read has the index. Only the record's length tells.
        self.sample_with(misc, body, true)
            .or_else(|| self.sample_with(misc, body, false))
    }

    fn sample_with<'a>(&self, misc: u16, body: &'a [u8], empty_index: bool) -> Option<Sample<'a>> {
        let t = self.sample_type;
        if t & !st::KNOWN != 0 {
            return None;
        }
        let mut c = Cursor::new(body);
        let mut s = Sample {
            misc,
            ..Sample::default()
        };
        s.id.id = opt(&mut c, t & st::IDENTIFIER)?;
        s.ip = opt(&mut c, t & st::IP)?;
        if t & st::TID != 0 {
            s.id.pid = Some(c.u32()?);
            s.id.tid = Some(c.u32()?);
        }
        s.id.time = opt(&mut c, t & st::TIME)?;
        s.addr = opt(&mut c, t & st::ADDR)?;
        let id = opt(&mut c, t & st::ID)?;
        s.id.id = s.id.id.or(id);
        s.id.stream_id = opt(&mut c, t & st::STREAM_ID)?;
        if t & st::CPU != 0 {
            s.id.cpu = Some(c.u32()?);
            c.u32()?;
        }
        s.period = opt(&mut c, t & st::PERIOD)?;
        if t & st::READ != 0 {
            s.read = Some(ReadValues::parse(&mut c, self.read_format)?);
        }
        if t & st::CALLCHAIN != 0 {
            let nr = c.u64()?;
            s.callchain = U64s::new(c.take_array(nr, 8)?);
        }
        if t & st::RAW != 0 {
            let size = c.u32()? as usize;
            s.raw = c.take(size)?;
            // size is chosen so that size + 4 is a multiple of 8; old kernels agree.
            c.take((8 - (size + 4) % 8) % 8)?;
        }
        if t & st::BRANCH_STACK != 0 {
            let nr = c.u64()?;
            let has_index = self.branch_sample_type & br::HW_INDEX != 0 && (nr > 0 || empty_index);
            let index = opt(&mut c, u64::from(has_index))?;
            let entries = c.take_array(nr, 24)?;
            let counters = if self.branch_sample_type & br::COUNTERS != 0 {
                U64s::new(c.take_array(nr, 8)?)
            } else {
                U64s::default()
            };
            s.branches = Some(BranchStack::new(entries, index, counters));
        }
        if t & st::REGS_USER != 0 {
            s.regs_user = Some(registers(&mut c, self.regs_user)?);
        }
        if t & st::STACK_USER != 0 {
            let size = c.u64()?;
            if size != 0 {
                let data = c.take_array(size, 1)?;
                let used = c.u64()?.min(size);
                s.stack_user = data.get(..usize::try_from(used).ok()?)?;
            }
        }
        s.weight = opt(&mut c, t & (st::WEIGHT | st::WEIGHT_STRUCT))?;
        s.data_src = opt(&mut c, t & st::DATA_SRC)?;
        s.transaction = opt(&mut c, t & st::TRANSACTION)?;
        if t & st::REGS_INTR != 0 {
            s.regs_intr = Some(registers(&mut c, self.regs_intr)?);
        }
        s.phys_addr = opt(&mut c, t & st::PHYS_ADDR)?;
        s.cgroup = opt(&mut c, t & st::CGROUP)?;
        s.data_page_size = opt(&mut c, t & st::DATA_PAGE_SIZE)?;
        s.code_page_size = opt(&mut c, t & st::CODE_PAGE_SIZE)?;
        if t & st::AUX != 0 {
            let size = c.u64()?;
            s.aux = c.take_array(size, 1)?;
            let pad = usize::try_from(size % 8).ok()?;
            c.take((8 - pad) % 8)?;
        }
        (c.len() == 0).then_some(s)
    }

    /// Bytes of the identity at the end of records that are not samples.
    fn trailer_len(&self) -> usize {
        if !self.sample_id_all {
            return 0;
        }
        let fields = st::TID | st::TIME | st::ID | st::STREAM_ID | st::CPU | st::IDENTIFIER;
        8 * (self.sample_type & fields).count_ones() as usize
    }

    /// Splits a record's body into its own fields and the identity behind them.
    #[must_use]
    pub fn split_id<'a>(&self, body: &'a [u8]) -> Option<(&'a [u8], SampleId)> {
        let own = body.len().checked_sub(self.trailer_len())?;
        let (own, trailer) = body.split_at_checked(own)?;
        let mut id = SampleId::default();
        if trailer.is_empty() {
            return Some((own, id));
        }
        let t = self.sample_type;
        let mut c = Cursor::new(trailer);
        if t & st::TID != 0 {
            id.pid = Some(c.u32()?);
            id.tid = Some(c.u32()?);
        }
        id.time = opt(&mut c, t & st::TIME)?;
        id.id = opt(&mut c, t & st::ID)?;
        id.stream_id = opt(&mut c, t & st::STREAM_ID)?;
        if t & st::CPU != 0 {
            id.cpu = Some(c.u32()?);
            c.u32()?;
        }
        let identifier = opt(&mut c, t & st::IDENTIFIER)?;
        id.id = identifier.or(id.id);
        Some((own, id))
    }

    /// The event id of a record without reading the rest; `None` when the layout has no id.
    #[must_use]
    pub fn peek_id(&self, is_sample: bool, body: &[u8]) -> Option<u64> {
        let t = self.sample_type;
        if is_sample {
            if t & st::IDENTIFIER != 0 {
                return u64_at(body, 0);
            }
            if t & st::ID != 0 {
                let before = (t & (st::IP | st::TID | st::TIME | st::ADDR)).count_ones() as usize;
                return u64_at(body, before * 8);
            }
            return None;
        }
        if !self.sample_id_all {
            return None;
        }
        let from_end = if t & st::IDENTIFIER != 0 {
            8
        } else if t & st::ID != 0 {
            8 + 8 * (t & (st::STREAM_ID | st::CPU)).count_ones() as usize
        } else {
            return None;
        };
        u64_at(body, body.len().checked_sub(from_end)?)
    }
}

fn registers<'a>(c: &mut Cursor<'a>, mask: u64) -> Option<Registers<'a>> {
    let abi = c.u64()?;
    let values = if abi == 0 {
        U64s::default()
    } else {
        U64s::new(c.take_array(u64::from(mask.count_ones()), 8)?)
    };
    Some(Registers { abi, mask, values })
}
