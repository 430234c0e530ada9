//! Counts instead of times in criterion.
//!
//! A suite is ported by one line: `use truecount_criterion::{Criterion, criterion_group, criterion_main}` instead of
//! `use criterion::{…}`.
//!
//! ```no_run
//! use truecount_criterion::{Criterion, criterion_group, criterion_main};
//!
//! fn benches(c: &mut Criterion) {
//!     c.bench_function("sum", |b| b.iter(|| (0..1000u64).sum::<u64>()));
//! }
//!
//! criterion_group!(suite, benches);
//! criterion_main!(suite);
//! ```
//!
//! A function that makes a configuration says what `Criterion::default()` gives, which the group then counts by:
//!
//! ```no_run
//! # use truecount_criterion::{Criterion, WallTime, criterion_group, criterion_main};
//! # fn benches(_: &mut Criterion) {}
//! fn configured() -> Criterion<WallTime> {
//!     Criterion::default().sample_size(10)
//! }
//!
//! criterion_group! { name = suite; config = configured(); targets = benches }
//! # criterion_main!(suite);
//! ```
//!
//! Where there is no PMU, the suite runs itself again under the virtual PMU, with a clock of its own: criterion repeats
//! until a time is over, so that otherwise every run would repeat as often as the machine had time for. Without these
//! macros: `Criterion::default().with_measurement(Counts::instructions())`, and `truecount run -- cargo bench`.

#![forbid(unsafe_code)]

mod port;

#[doc(hidden)]
pub use criterion as original;
#[doc(no_inline)]
pub use criterion::measurement::WallTime;
#[doc(no_inline)]
pub use criterion::{
    AxisScale, BatchSize, BenchmarkId, PlotConfiguration, SamplingMode, Throughput,
};
pub use port::{Bencher, BenchmarkGroup, Criterion};
#[doc(hidden)]
pub use port::{again, counted};

use criterion::measurement::{Measurement, ValueFormatter};
use std::hint;
use truecount::{Counter, Error, Fence, Stamp};

/// As [`std::hint::black_box`], where criterion had it.
#[inline(always)]
pub fn black_box<T>(value: T) -> T {
    hint::black_box(value)
}

/// Counts of one event, on the thread that made this (criterion measures there).
#[derive(Debug)]
pub struct Counts {
    counter: Counter<Fence>,
    format: Format,
    /// What two reads in a row count themselves.
    overhead: u64,
}

impl Counts {
    /// Instructions of user mode.
    ///
    /// # Panics
    /// Where they cannot be counted, with the reason and what to do: a suite without its counter has nothing to say.
    #[must_use]
    pub fn instructions() -> Self {
        match Self::of("instructions:u") {
            Ok(counts) => counts,
            Err(error) => panic!("{error} (without a PMU: truecount run -- …)"),
        }
    }

    /// Any event of [`truecount::Counter::open`].
    ///
    /// # Errors
    /// As there.
    pub fn of(event: &str) -> Result<Self, Error> {
        let counter = Counter::<Fence>::open(event)?;
        Ok(Self {
            overhead: counter.overhead(32),
            format: Format {
                unit: match counter.unit() {
                    "count" => short(counter.name()),
                    unit => unit.to_owned(),
                },
            },
            counter,
        })
    }
}

/// `instructions` of `instructions:u`.
fn short(name: &str) -> String {
    name.split(':').next().unwrap_or(name).to_owned()
}

impl Measurement for Counts {
    type Intermediate = Stamp;
    type Value = u64;

    fn start(&self) -> Stamp {
        self.counter.read()
    }

    fn end(&self, start: Stamp) -> u64 {
        self.counter.since(start).saturating_sub(self.overhead)
    }

    fn add(&self, v1: &u64, v2: &u64) -> u64 {
        v1.saturating_add(*v2)
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, value: &u64) -> f64 {
        // Criterion divides by it.
        (*value).max(1) as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &self.format
    }
}

#[derive(Debug)]
struct Format {
    unit: String,
}

/// The factor and the prefix of numbers like this one.
fn prefix(typical: f64) -> (f64, &'static str) {
    match typical {
        t if t >= 1e10 => (1e-9, "G"),
        t if t >= 1e7 => (1e-6, "M"),
        t if t >= 1e4 => (1e-3, "k"),
        _ => (1.0, ""),
    }
}

impl ValueFormatter for Format {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let (factor, prefix) = prefix(typical);
        for value in values {
            *value *= factor;
        }
        prefix
    }

    fn format_value(&self, value: f64) -> String {
        let (factor, prefix) = prefix(value);
        format!("{:.3}{prefix} {}", value * factor, self.unit)
    }

    fn scale_throughputs(
        &self,
        _typical: f64,
        throughput: &Throughput,
        values: &mut [f64],
    ) -> &'static str {
        let (amount, unit) = match throughput {
            Throughput::Bits(bits) => (*bits as f64, "/bit"),
            Throughput::Bytes(bytes) | Throughput::BytesDecimal(bytes) => (*bytes as f64, "/byte"),
            Throughput::Elements(elements) => (*elements as f64, "/element"),
            _ => (1.0, "/iteration"),
        };
        for value in values {
            *value /= amount.max(1.0);
        }
        unit
    }

    fn scale_for_machines(&self, _values: &mut [f64]) -> &'static str {
        "count"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let format = Format {
            unit: "instructions".to_owned(),
        };
        assert_eq!(format.format_value(12.0), "12.000 instructions");
        assert_eq!(format.format_value(25_000.0), "25.000k instructions");
        let mut values = [20.0, 40.0];
        let unit = format.scale_throughputs(20.0, &Throughput::Bytes(10), &mut values);
        assert_eq!((values, unit), ([2.0, 4.0], "/byte"));
        assert_eq!(short("instructions:u"), "instructions");
    }

    #[test]
    fn an_empty_measurement_is_0() {
        let counts = match Counts::of("instructions:u") {
            Ok(counts) => counts,
            Err(error) => {
                truecount_testing::skip!("counters", "{error}");
                Counts::of("zero").unwrap()
            }
        };
        let least = (0..32)
            .map(|_| {
                let start = counts.start();
                counts.end(start)
            })
            .min();
        assert!(least.is_some_and(|least| least < 8), "{least:?}");
    }
}
