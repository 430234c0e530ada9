//! What `read(2)` of an event gave: values with their times, and scaling that says so.
//!
//! Layouts: `enum perf_event_read_format` in `include/uapi/linux/perf_event.h`. Lengths and member counts
//! from the kernel are checked, never trusted. An event that was never on a counter (`running` = 0) has
//! no count: that is [`Count::None`], not 0.

use std::fmt;

use perf_event_open_sys::bindings as abi;

/// Nanoseconds that an event was enabled and was really on a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Nanoseconds enabled.
    pub enabled: u64,
    /// Nanoseconds on a counter. Less than `enabled`: the event shared its counter with others.
    pub running: u64,
}

impl Times {
    /// Part of the time that was counted, 0 to 1; `None` where the event was never enabled.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        (self.enabled != 0).then(|| (self.running as f64 / self.enabled as f64).min(1.0))
    }

    /// The times between `earlier` and `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            enabled: self.enabled.saturating_sub(earlier.enabled),
            running: self.running.saturating_sub(earlier.running),
        }
    }
}

/// A count with its provenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// The event was never on a counter: there is no sample, and nothing to scale.
    None,
    /// The event was on a counter whenever it was enabled.
    Counted(u64),
    /// The event shared its counter: `estimate` = `raw` × `enabled` / `running`.
    Scaled {
        /// The extrapolated count.
        estimate: u64,
        /// What was really counted.
        raw: u64,
        /// Times enabled and running.
        times: Times,
    },
}

impl Count {
    /// Judges `raw` by its times. `running` = 0 is not a sample, even where `raw` is not 0.
    ///
    /// ```
    /// use truecount_perf::{Count, Times};
    /// let times = |enabled, running| Times { enabled, running };
    /// assert_eq!(Count::new(7, times(10, 0)), Count::None);
    /// assert_eq!(Count::new(7, times(10, 10)), Count::Counted(7));
    /// assert_eq!(Count::new(7, times(10, 5)).value(), Some(14));
    /// assert!(Count::new(7, times(10, 5)).is_scaled());
    /// ```
    #[must_use]
    pub fn new(raw: u64, times: Times) -> Self {
        if times.running == 0 {
            Self::None
        } else if times.running >= times.enabled {
            Self::Counted(raw)
        } else {
            // raw × enabled fits 128 bits; the quotient can exceed 64 bits only with absurd times.
            let estimate = u128::from(raw) * u128::from(times.enabled) / u128::from(times.running);
            Self::Scaled {
                estimate: u64::try_from(estimate).unwrap_or(u64::MAX),
                raw,
                times,
            }
        }
    }

    /// The count, or its estimate; `None` where nothing was counted.
    #[must_use]
    pub fn value(&self) -> Option<u64> {
        match *self {
            Self::None => None,
            Self::Counted(value) => Some(value),
            Self::Scaled { estimate, .. } => Some(estimate),
        }
    }

    /// Whether the value is an estimate.
    #[must_use]
    pub fn is_scaled(&self) -> bool {
        matches!(self, Self::Scaled { .. })
    }
}

/// One event's reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// The count as it is, not scaled.
    pub value: u64,
    /// The times, where [`crate::EventAttr::read_times`] asked for them.
    pub times: Option<Times>,
    /// The event's number, with `PERF_FORMAT_ID`.
    pub id: Option<u64>,
    /// Samples lost, with `PERF_FORMAT_LOST`.
    pub lost: Option<u64>,
}

impl Reading {
    /// The count judged by its times; without times there is no way to tell, and it is `None`.
    #[must_use]
    pub fn count(&self) -> Option<Count> {
        self.times.map(|times| Count::new(self.value, times))
    }
}

/// Why bytes from `read(2)` are not a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// Fewer bytes than the format has.
    Short {
        /// Bytes that came.
        got: usize,
        /// Bytes that the format needs.
        need: usize,
    },
    /// More members than the group has, or than the bytes can hold.
    Members {
        /// Members that the kernel announced.
        announced: u64,
        /// Members there is room for.
        room: usize,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { got, need } => {
                write!(
                    f,
                    "the kernel returned {got} bytes where the read format has {need}"
                )
            }
            Self::Members { announced, room } => {
                write!(
                    f,
                    "the kernel announced {announced} group members where there is room for {room}"
                )
            }
        }
    }
}

const fn has(format: u64, bit: u32) -> bool {
    format & bit as u64 != 0
}

/// Words of one reading without `PERF_FORMAT_GROUP`.
pub(crate) const SINGLE_WORDS: usize = 5;

/// Takes words off the front, counting what is missing.
struct Words<'a> {
    words: &'a [u64],
    bytes: usize,
    at: usize,
}

impl Words<'_> {
    fn next(&mut self) -> Result<u64, Malformed> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word.ok_or(Malformed::Short {
            got: self.bytes,
            need: self.at * 8,
        })
    }

    fn next_if(&mut self, wanted: bool) -> Result<Option<u64>, Malformed> {
        if wanted {
            self.next().map(Some)
        } else {
            Ok(None)
        }
    }

    fn times(&mut self, format: u64) -> Result<Option<Times>, Malformed> {
        let enabled = self.next_if(has(format, abi::PERF_FORMAT_TOTAL_TIME_ENABLED))?;
        let running = self.next_if(has(format, abi::PERF_FORMAT_TOTAL_TIME_RUNNING))?;
        Ok(enabled
            .zip(running)
            .map(|(enabled, running)| Times { enabled, running }))
    }
}

fn words(buffer: &[u64], bytes: usize) -> Words<'_> {
    let filled = (bytes / 8).min(buffer.len());
    Words {
        words: buffer.get(..filled).unwrap_or(buffer),
        bytes,
        at: 0,
    }
}

/// Parses a reading without `PERF_FORMAT_GROUP`; `bytes` is what `read(2)` returned.
///
/// # Errors
/// [`Malformed`] where the bytes do not fit `format`.
pub fn parse_single(buffer: &[u64], bytes: usize, format: u64) -> Result<Reading, Malformed> {
    let mut words = words(buffer, bytes);
    Ok(Reading {
        value: words.next()?,
        times: words.times(format)?,
        id: words.next_if(has(format, abi::PERF_FORMAT_ID))?,
        lost: words.next_if(has(format, abi::PERF_FORMAT_LOST))?,
    })
}

/// Words of a group's reading that [`crate::Event::read`] has room for: 64 members.
pub(crate) const GROUP_WORDS: usize = 3 + 64 * 3;

/// Parses the leader's part of a reading with `PERF_FORMAT_GROUP`.
pub(crate) fn parse_leader(
    buffer: &[u64],
    bytes: usize,
    format: u64,
) -> Result<Reading, Malformed> {
    let mut words = words(buffer, bytes);
    if words.next()? == 0 {
        return Err(Malformed::Members {
            announced: 0,
            room: 1,
        });
    }
    let times = words.times(format)?;
    Ok(Reading {
        value: words.next()?,
        times,
        id: words.next_if(has(format, abi::PERF_FORMAT_ID))?,
        lost: words.next_if(has(format, abi::PERF_FORMAT_LOST))?,
    })
}

/// One member of a group's reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Member {
    /// The count as it is, not scaled.
    pub value: u64,
    /// The member's number, with `PERF_FORMAT_ID`.
    pub id: Option<u64>,
    /// Samples the member lost, with `PERF_FORMAT_LOST`.
    pub lost: Option<u64>,
}

/// A group's reading: one pair of times, since its members are scheduled together.
///
/// Holds its memory, so that reading into it again does not allocate.
#[derive(Debug, Clone, Default)]
pub struct GroupReading {
    pub(crate) buffer: Vec<u64>,
    times: Option<Times>,
    members: Vec<Member>,
}

impl GroupReading {
    /// Room for a group of `members` events.
    #[must_use]
    pub fn with_room_for(members: usize) -> Self {
        Self {
            buffer: vec![0; members.saturating_mul(3).saturating_add(3)],
            times: None,
            members: Vec::with_capacity(members),
        }
    }

    /// The members in the order they were added, the leader first.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The group's times.
    #[must_use]
    pub fn times(&self) -> Option<Times> {
        self.times
    }

    /// The count of member `index` (0 is the leader) judged by the group's times.
    #[must_use]
    pub fn count(&self, index: usize) -> Option<Count> {
        Some(Count::new(self.members.get(index)?.value, self.times?))
    }

    /// Parses what `read(2)` put into the buffer.
    pub(crate) fn parse(&mut self, bytes: usize, format: u64) -> Result<(), Malformed> {
        self.members.clear();
        self.times = None;
        let mut words = words(&self.buffer, bytes);
        let announced = words.next()?;
        let times = words.times(format)?;
        let id = has(format, abi::PERF_FORMAT_ID);
        let lost = has(format, abi::PERF_FORMAT_LOST);
        let each = 1 + usize::from(id) + usize::from(lost);
        let room = words.words.len().saturating_sub(words.at) / each;
        let count = match usize::try_from(announced) {
            Ok(count) if count <= room && count <= self.members.capacity() => count,
            _ => {
                return Err(Malformed::Members {
                    announced,
                    room: room.min(self.members.capacity()),
                });
            }
        };
        for _ in 0..count {
            self.members.push(Member {
                value: words.next()?,
                id: words.next_if(id)?,
                lost: words.next_if(lost)?,
            });
        }
        self.times = times;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 0b1_0111;

    #[test]
    fn single_formats() {
        let buffer = [7, 10, 5, 42, 3];
        let reading = parse_single(&buffer, 40, ALL).unwrap();
        assert_eq!(
            reading.times,
            Some(Times {
                enabled: 10,
                running: 5
            })
        );
        assert_eq!(
            (reading.value, reading.id, reading.lost),
            (7, Some(42), Some(3))
        );
        assert_eq!(reading.count().unwrap().value(), Some(14));
        let plain = parse_single(&buffer, 8, 0).unwrap();
        assert_eq!((plain.value, plain.times, plain.count()), (7, None, None));
    }

    #[test]
    fn short_readings_are_errors_for_every_length() {
        let buffer = [7, 10, 5, 42, 3];
        for bytes in 0..40 {
            assert!(
                matches!(
                    parse_single(&buffer, bytes, ALL),
                    Err(Malformed::Short { .. })
                ),
                "{bytes}"
            );
        }
        // A kernel that claims more than the buffer holds is not believed either.
        assert!(parse_single(&buffer[..2], 4096, ALL).is_err());
    }

    #[test]
    fn groups() {
        let mut group = GroupReading::with_room_for(2);
        group.buffer[..7].copy_from_slice(&[2, 100, 50, 11, 1, 22, 2]);
        group.parse(56, 0b1111).unwrap();
        assert_eq!(
            group.members()[1],
            Member {
                value: 22,
                id: Some(2),
                lost: None
            }
        );
        assert_eq!(
            group.count(0),
            Some(Count::new(
                11,
                Times {
                    enabled: 100,
                    running: 50
                }
            ))
        );
        assert_eq!(group.count(2), None);
        for announced in [3, u64::MAX, 1 << 40] {
            group.buffer[0] = announced;
            assert!(
                matches!(group.parse(56, 0b1111), Err(Malformed::Members { .. })),
                "{announced}"
            );
            assert!(group.members().is_empty() && group.times().is_none());
        }
        group.buffer[0] = 2;
        for bytes in 0..56 {
            assert!(group.parse(bytes, 0b1111).is_err(), "{bytes}");
        }
    }

    #[test]
    fn leaders_of_groups() {
        let buffer = [2, 100, 50, 11, 1, 22, 2];
        let reading = parse_leader(&buffer, 56, 0b1111).unwrap();
        assert_eq!(
            (reading.value, reading.id, reading.lost),
            (11, Some(1), None)
        );
        assert_eq!(
            reading.times,
            Some(Times {
                enabled: 100,
                running: 50
            })
        );
        for bytes in 0..40 {
            assert!(parse_leader(&buffer, bytes, 0b1111).is_err(), "{bytes}");
        }
        assert!(parse_leader(&[0; 7], 56, 0b1111).is_err());
    }

    #[test]
    fn no_time_running_is_no_count_and_scaling_does_not_overflow() {
        assert_eq!(
            Count::new(
                0,
                Times {
                    enabled: 5,
                    running: 0
                }
            ),
            Count::None
        );
        assert_eq!(
            Count::new(
                1,
                Times {
                    enabled: 0,
                    running: 0
                }
            ),
            Count::None
        );
        let absurd = Count::new(
            u64::MAX,
            Times {
                enabled: u64::MAX,
                running: 1,
            },
        );
        assert_eq!(absurd.value(), Some(u64::MAX));
        assert_eq!(
            Times {
                enabled: 0,
                running: 0
            }
            .fraction(),
            None
        );
    }
}
