//! One record, from a live ring or from a file: framing, and the kernel's record types 1–21.
//!
//! Layouts: the comments of `enum perf_event_type` in `include/uapi/linux/perf_event.h` (Linux 6.18).

use crate::abi::{misc, record as rt};
use crate::bytes::{Cursor, until_nul};
use crate::sample::{Sample, SampleId, SampleLayout};

/// A framed record whose body is not read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// `PERF_RECORD_*`.
    pub kind: u32,
    /// `misc` bits.
    pub misc: u16,
    /// What follows the 8 bytes of the header.
    pub body: &'a [u8],
}

/// Splits the first record off `bytes` (a ring's contents or a file's data section).
///
/// Gives the record and its length in bytes, or the reason why there is none.
///
/// ```
/// // A LOST record (type 2) of 24 bytes: id 7, 3 records lost.
/// let mut bytes = vec![2, 0, 0, 0, 0, 0, 24, 0];
/// bytes.extend([7u64.to_le_bytes(), 3u64.to_le_bytes()].concat());
/// let (raw, len) = truecount_sample::split_record(&bytes).unwrap();
/// assert_eq!((raw.kind, len), (2, 24));
/// let (body, id) = raw.decode(&Default::default()).unwrap();
/// assert_eq!(body, truecount_sample::Body::Lost { id: 7, lost: 3 });
/// assert_eq!(id.time, None);
/// ```
///
/// # Errors
/// [`FrameError`]: the bytes end inside the record, or its size is impossible.
pub fn split_record(bytes: &[u8]) -> Result<(RawRecord<'_>, usize), FrameError> {
    let mut c = Cursor::new(bytes);
    let (Some(kind), Some(misc), Some(size)) = (c.u32(), c.u16(), c.u16()) else {
        return Err(FrameError::Truncated);
    };
    let size = usize::from(size);
    if size < 8 {
        return Err(FrameError::Size(size));
    }
    let body = bytes.get(8..size).ok_or(FrameError::Truncated)?;
    Ok((RawRecord { kind, misc, body }, size))
}

/// Why no record could be split off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes end inside the record.
    #[error("the data ends inside a record")]
    Truncated,
    /// A record is at least its 8-byte header.
    #[error("a record of {0} bytes, but the header alone has 8")]
    Size(usize),
}

/// A mapping of a file (or anonymous memory) into a process: `MMAP` and `MMAP2`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// Process; `u32::MAX` for the kernel.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Offset in the file.
    pub pgoff: u64,
    /// Protection bits (MMAP2), 4 = executable.
    pub prot: Option<u32>,
    /// Build id, when recorded in the mapping.
    pub build_id: Option<&'a [u8]>,
    /// Path, `[vdso]`, `//anon`, `[kernel.kallsyms]_text` …
    pub path: &'a [u8],
}

/// A thread that began or ended (`PERF_RECORD_FORK`, `PERF_RECORD_EXIT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Its process.
    pub pid: u32,
    /// The process that it comes from: the same one for a thread of it.
    pub ppid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread that it comes from.
    pub ptid: u32,
    /// When.
    pub time: u64,
}

/// A thread's name, from its `execve` or by its own choice (`PERF_RECORD_COMM`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// By an `execve`.
    pub exec: bool,
    /// The name.
    pub name: &'a [u8],
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, clippy::large_enum_variant)]
pub enum Body<'a> {
    Sample(Sample<'a>),
    Mmap(Mmap<'a>),
    Comm(Comm<'a>),
    Fork(Task),
    Exit(Task),
    /// The ring was full: `lost` records were dropped.
    Lost {
        id: u64,
        lost: u64,
    },
    /// The hardware dropped `lost` samples (PEBS).
    LostSamples {
        lost: u64,
    },
    /// Too many interrupts: sampling stopped until the next tick.
    Throttle {
        time: u64,
        id: u64,
        stream_id: u64,
    },
    Unthrottle {
        time: u64,
        id: u64,
        stream_id: u64,
    },
    /// An inherited counter's final value.
    Read {
        pid: u32,
        tid: u32,
        values: &'a [u8],
    },
    Aux {
        offset: u64,
        size: u64,
        flags: u64,
    },
    ItraceStart {
        pid: u32,
        tid: u32,
    },
    Switch {
        out: bool,
        /// The other task's pid and tid (CPU-wide recordings).
        other: Option<(u32, u32)>,
    },
    Namespaces {
        pid: u32,
        tid: u32,
        /// (device, inode) pairs of 16 bytes.
        links: &'a [u8],
    },
    Ksymbol {
        addr: u64,
        len: u32,
        kind: u16,
        unregister: bool,
        name: &'a [u8],
    },
    Bpf {
        kind: u16,
        flags: u16,
        id: u32,
        tag: [u8; 8],
    },
    Cgroup {
        id: u64,
        path: &'a [u8],
    },
    TextPoke {
        addr: u64,
        old: &'a [u8],
        new: &'a [u8],
    },
    AuxOutputHwId {
        hw_id: u64,
    },
    /// A type that only the `perf` tool writes, or one newer than this reader.
    Other {
        kind: u32,
    },
}

impl<'a> RawRecord<'a> {
    /// Reads the body. The layout is that of the event the record belongs to.
    ///
    /// `None`: the body is shorter than its type needs, or a sample's fields do not fill it exactly.
    #[must_use]
    pub fn decode(&self, layout: &SampleLayout) -> Option<(Body<'a>, SampleId)> {
        if self.kind == rt::SAMPLE {
            let sample = layout.sample(self.misc, self.body)?;
            return Some((Body::Sample(sample), sample.id));
        }
        if self.kind >= rt::USER_TYPE_START {
            return Some((Body::Other { kind: self.kind }, SampleId::default()));
        }
        let (own, id) = layout.split_id(self.body)?;
        Some((decode_kernel(self.kind, self.misc, own)?, id))
    }
}

fn decode_kernel(kind: u32, bits: u16, own: &[u8]) -> Option<Body<'_>> {
    let mut c = Cursor::new(own);
    Some(match kind {
        rt::MMAP => Body::Mmap(Mmap {
            pid: c.u32()?,
            tid: c.u32()?,
            addr: c.u64()?,
            len: c.u64()?,
            pgoff: c.u64()?,
            prot: None,
            build_id: None,
            path: c.c_string(),
        }),
        rt::MMAP2 => Body::Mmap(mmap2(bits, &mut c)?),
        rt::COMM => Body::Comm(Comm {
            pid: c.u32()?,
            tid: c.u32()?,
            exec: bits & misc::COMM_EXEC != 0,
            name: c.c_string(),
        }),
        rt::FORK | rt::EXIT => {
            let task = Task {
                pid: c.u32()?,
                ppid: c.u32()?,
                tid: c.u32()?,
                ptid: c.u32()?,
                time: c.u64()?,
            };
            if kind == rt::FORK {
                Body::Fork(task)
            } else {
                Body::Exit(task)
            }
        }
        rt::LOST => Body::Lost {
            id: c.u64()?,
            lost: c.u64()?,
        },
        rt::LOST_SAMPLES => Body::LostSamples { lost: c.u64()? },
        rt::THROTTLE | rt::UNTHROTTLE => {
            let (time, id, stream_id) = (c.u64()?, c.u64()?, c.u64()?);
            if kind == rt::THROTTLE {
                Body::Throttle {
                    time,
                    id,
                    stream_id,
                }
            } else {
                Body::Unthrottle {
                    time,
                    id,
                    stream_id,
                }
            }
        }
        _ => return decode_rare(kind, bits, c),
    })
}

/// Records that few recordings have.
fn decode_rare(kind: u32, bits: u16, mut c: Cursor<'_>) -> Option<Body<'_>> {
    Some(match kind {
        rt::READ => Body::Read {
            pid: c.u32()?,
            tid: c.u32()?,
            values: c.rest(),
        },
        rt::AUX => Body::Aux {
            offset: c.u64()?,
            size: c.u64()?,
            flags: c.u64()?,
        },
        rt::ITRACE_START => Body::ItraceStart {
            pid: c.u32()?,
            tid: c.u32()?,
        },
        rt::SWITCH => Body::Switch {
            out: bits & misc::SWITCH_OUT != 0,
            other: None,
        },
        rt::SWITCH_CPU_WIDE => Body::Switch {
            out: bits & misc::SWITCH_OUT != 0,
            other: Some((c.u32()?, c.u32()?)),
        },
        rt::NAMESPACES => {
            let (pid, tid, nr) = (c.u32()?, c.u32()?, c.u64()?);
            Body::Namespaces {
                pid,
                tid,
                links: c.take_array(nr, 16)?,
            }
        }
        rt::KSYMBOL => {
            let (addr, len, kind, flags) = (c.u64()?, c.u32()?, c.u16()?, c.u16()?);
            Body::Ksymbol {
                addr,
                len,
                kind,
                unregister: flags & 1 != 0,
                name: c.c_string(),
            }
        }
        rt::BPF_EVENT => {
            let (kind, flags, id) = (c.u16()?, c.u16()?, c.u32()?);
            let tag = c.u64()?.to_le_bytes();
            Body::Bpf {
                kind,
                flags,
                id,
                tag,
            }
        }
        rt::CGROUP => Body::Cgroup {
            id: c.u64()?,
            path: c.c_string(),
        },
        rt::TEXT_POKE => {
            let (addr, old, new) = (c.u64()?, c.u16()?, c.u16()?);
            Body::TextPoke {
                addr,
                old: c.take(usize::from(old))?,
                new: c.take(usize::from(new))?,
            }
        }
        rt::AUX_OUTPUT_HW_ID => Body::AuxOutputHwId { hw_id: c.u64()? },
        _ => Body::Other { kind },
    })
}

fn mmap2<'a>(bits: u16, c: &mut Cursor<'a>) -> Option<Mmap<'a>> {
    let mut map = Mmap {
        pid: c.u32()?,
        tid: c.u32()?,
        addr: c.u64()?,
        len: c.u64()?,
        pgoff: c.u64()?,
        ..Mmap::default()
    };
    let inode = c.take(24)?;
    if bits & misc::MMAP_BUILD_ID != 0 {
        let len = usize::from(*inode.first()?).min(20);
        map.build_id = inode.get(4..4 + len);
    }
    map.prot = Some(c.u32()?);
    c.u32()?; // flags
    map.path = until_nul(c.rest());
    Some(map)
}
