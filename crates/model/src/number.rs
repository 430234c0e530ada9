//! Numbers for people: counts with separators, times and sizes in the unit that fits.

use std::sync::OnceLock;

/// `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three or four significant digits, no exponent: `1.234`, `12.34`, `123.4`, `1234`.
pub fn significant(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        format!("{value:.0}")
    } else if size >= 100.0 {
        format!("{value:.1}")
    } else if size >= 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A unit of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// ns
    Nanosecond,
    /// µs
    Microsecond,
    /// ms
    Millisecond,
    /// s
    Second,
}

impl TimeUnit {
    /// By its name or its sign: `millisecond`, `ms`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "nanosecond" | "ns" => Some(Self::Nanosecond),
            "microsecond" | "us" | "µs" => Some(Self::Microsecond),
            "millisecond" | "ms" => Some(Self::Millisecond),
            "second" | "s" => Some(Self::Second),
            _ => None,
        }
    }

    /// Nanoseconds, and the sign.
    fn parts(self) -> (f64, &'static str) {
        match self {
            Self::Nanosecond => (1.0, "ns"),
            Self::Microsecond => (1e3, "µs"),
            Self::Millisecond => (1e6, "ms"),
            Self::Second => (1e9, "s"),
        }
    }
}

static TIME_UNIT: OnceLock<TimeUnit> = OnceLock::new();

/// From now on all times are shown in this unit.
pub fn show_times_in(unit: TimeUnit) {
    // Set once, from the command line.
    let _ = TIME_UNIT.set(unit);
}

/// A time given in nanoseconds, in the unit that fits, or the one that was chosen.
pub fn time(ns: f64) -> String {
    match TIME_UNIT.get() {
        Some(&unit) => time_in(ns, unit),
        None if ns.abs() >= 1e9 => time_in(ns, TimeUnit::Second),
        None if ns.abs() >= 1e6 => time_in(ns, TimeUnit::Millisecond),
        None if ns.abs() >= 1e3 => time_in(ns, TimeUnit::Microsecond),
        None => time_in(ns, TimeUnit::Nanosecond),
    }
}

fn time_in(ns: f64, unit: TimeUnit) -> String {
    match unit.parts() {
        (_, "ns") => format!("{ns:.0} ns"),
        (factor, name) => format!("{} {name}", significant(ns / factor)),
    }
}

/// A size given in bytes.
pub fn size(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or("B");
    if unit == 0 {
        format!("{value:.0} {name}")
    } else {
        format!("{} {name}", significant(value))
    }
}

/// An estimate in four characters and a unit: `812`, `1.23 k`, `45.6 M`, `7.89 G`.
pub fn compact(value: f64) -> String {
    const UNITS: [&str; 6] = ["", " k", " M", " G", " T", " P"];
    let mut value = value;
    let mut unit = 0;
    // 999.5 would be rounded to four digits.
    while value.abs() >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    match value.abs() {
        _ if unit == 0 => format!("{value:.0}"),
        v if v < 9.995 => format!("{value:.2}{name}"),
        v if v < 99.95 => format!("{value:.1}{name}"),
        _ => format!("{value:.0}{name}"),
    }
}

/// `value * scale` in `unit`, as a person reads it.
pub fn quantity(value: f64, scale: f64, unit: &str) -> String {
    let value = value * scale;
    match unit {
        "ns" => time(value),
        "bytes" => size(value),
        "count" if value.fract() == 0.0 && (0.0..1e18).contains(&value) => grouped(value as u64),
        "count" => {
            // A median between two counts: one decimal, grouped before the point.
            format!(
                "{}.{}",
                grouped(value.max(0.0) as u64),
                (value.fract() * 10.0).round() as u64 % 10
            )
        }
        unit => format!("{} {unit}", significant(value)),
    }
}

/// An exact count in its unit, never rounded when the unit is plain.
pub fn exact(value: u64, scale: f64, unit: &str) -> String {
    if unit == "count" && scale.to_bits() == 1.0f64.to_bits() {
        grouped(value)
    } else {
        quantity(value as f64, scale, unit)
    }
}

/// A change as a percentage with sign: `+1.23 %`.
pub fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if !percent.is_finite() {
        return "from 0".to_owned();
    }
    let size = percent.abs();
    if size >= 1000.0 {
        format!("×{}", significant(ratio))
    } else if size >= 100.0 {
        format!("{percent:+.0} %")
    } else if size >= 1.0 {
        format!("{percent:+.1} %")
    } else if size >= 0.01 || size == 0.0 {
        format!("{percent:+.2} %")
    } else {
        format!("{percent:+.4} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_in_full() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(
            exact((1 << 60) + 1, 1.0, "count"),
            "1,152,921,504,606,846,977"
        );
    }

    #[test]
    fn units_fit() {
        assert_eq!(time(999.0), "999 ns");
        assert_eq!(time(1_500.0), "1.500 µs");
        assert_eq!(time(12_345_678.0), "12.35 ms");
        assert_eq!(time(2e9), "2.000 s");
        assert_eq!(size(1023.0), "1023 B");
        assert_eq!(size(1_064_960.0), "1.016 MiB");
        assert_eq!(quantity(3.5, 1.0, "count"), "3.5");
        assert_eq!(quantity(2.0, 0.5, "Joules"), "1.000 Joules");
    }

    #[test]
    fn times_in_a_chosen_unit() {
        assert_eq!(time_in(1_500_000.0, TimeUnit::Second), "0.002 s");
        assert_eq!(time_in(1_500_000.0, TimeUnit::Millisecond), "1.500 ms");
        assert_eq!(time_in(1_500_000.0, TimeUnit::Microsecond), "1500 µs");
        assert_eq!(time_in(1_500_000.0, TimeUnit::Nanosecond), "1500000 ns");
    }

    #[test]
    fn estimates_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (999.6, "1.00 k"),
            (9_996.0, "10.0 k"),
            (99_960.0, "100 k"),
            (1_234_567.0, "1.23 M"),
            (7.89e9, "7.89 G"),
            (1e30, "1000000000000000 P"),
        ] {
            assert_eq!(compact(value), text);
        }
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(change(1.0), "+0.00 %");
        assert_eq!(change(1.05), "+5.0 %");
        assert_eq!(change(0.5), "-50.0 %");
        assert_eq!(change(1.00001), "+0.0010 %");
        assert_eq!(change(25.0), "×25.00");
        assert_eq!(change(f64::INFINITY), "from 0");
    }
}
