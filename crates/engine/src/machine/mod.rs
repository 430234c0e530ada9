//! Reference machines: named, versioned descriptions of a computer that programs under the virtual PMU are shown instead of
//! the one they run on, so that they choose the same code, and count the same, everywhere.
//!
//! Features are only ever hidden. A CPU that lacks one of a machine cannot show it: [`Machine::lacking`] names the feature.

mod files;
mod table;

use crate::shown::{ANY, MAX_ROWS, NAME, Row, Shown, TEXTS, kind};
use table::{FEATURES, MODELS, Model};

/// The version of the table: counts of different ones are not compared.
pub const VERSION: u32 = 2;

/// Most CPUs of a machine.
const MAX_CPUS: u32 = 63;

/// A machine to show.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    model: &'static Model,
    cpus: u32,
}

impl PartialEq for Machine {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Machine {}

impl Machine {
    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        MODELS.iter().map(|model| model.name)
    }

    /// The machine of a name, with `,cpus=N` behind it for more than one CPU.
    ///
    /// # Errors
    /// There is none of this name; the error lists them.
    ///
    /// ```
    /// use truecount_engine::machine::Machine;
    /// assert_eq!(Machine::named("x86-64-v3")?.name(), "x86-64-v3");
    /// assert_eq!(Machine::named("x86-64-v2,cpus=4")?.name(), "x86-64-v2,cpus=4");
    /// assert!(Machine::named("x86-64-v9").is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn named(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(',').unwrap_or((text, "cpus=1"));
        let Some(model) = MODELS.iter().find(|model| model.name == name) else {
            let names: Vec<&str> = Self::names().collect();
            return Err(format!(
                "no such machine; there are host, {}",
                names.join(", ")
            ));
        };
        let cpus = rest.strip_prefix("cpus=").and_then(|n| n.parse().ok());
        let cpus = cpus.filter(|n| (1..=MAX_CPUS).contains(n)).ok_or_else(|| {
            format!(
                "`{rest}` is no setting of a machine; write cpus=N, with N from 1 to {MAX_CPUS}"
            )
        })?;
        Ok(Self { model, cpus })
    }

    /// As it is named.
    pub fn name(&self) -> String {
        match self.cpus {
            1 => self.model.name.to_owned(),
            cpus => format!("{},cpus={cpus}", self.model.name),
        }
    }

    /// The name and the version of the table, as results have it: `x86-64-v3/2`.
    pub fn id(&self) -> String {
        format!("{}/{VERSION}", self.name())
    }

    /// The CPUs that programs see.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// A feature of the machine that this CPU (or its kernel) does not have.
    pub fn lacking(&self) -> Option<&'static str> {
        let has = table::host();
        FEATURES
            .iter()
            .filter(|feature| {
                feature.level <= self.model.level || self.model.more.contains(&feature.name)
            })
            .find(|feature| !has(feature))
            .map(|feature| feature.name)
    }

    /// What `cpuid` says.
    fn rows(&self) -> Vec<Row> {
        let mut rows = self.model.rows.to_vec();
        for row in &mut rows {
            let [leaf, subleaf, ..] = *row;
            let of_row = |feature: &&table::Feature| {
                self.model.level != 0
                    && feature.level <= self.model.level
                    && feature.leaf == leaf
                    && [feature.subleaf, ANY].contains(&subleaf)
            };
            for feature in FEATURES.iter().filter(of_row) {
                row[2 + feature.register as usize] |= 1 << feature.bit;
            }
            // Leaf 11, level of cores: how many, and the bits of their numbers.
            if row[0] == 0xb && row[1] == 1 && self.cpus > 1 {
                (row[2], row[3]) = (self.cpus.next_power_of_two().trailing_zeros(), self.cpus);
            }
        }
        rows
    }

    /// EDX of leaf 1: `AT_HWCAP`.
    pub fn hwcap(&self) -> u64 {
        let rows = self.rows();
        let first = rows.iter().find(|row| row[0] == 1);
        first.map_or(0, |row| u64::from(row[5]))
    }

    /// Writes it into what processes see.
    pub(crate) fn show(&self, shown: &mut Shown) {
        for (to, from) in shown.rows.iter_mut().zip(self.rows()) {
            *to = from;
            shown.row_count += 1;
        }
        shown.components = self.model.components;
        shown.cpus = self.cpus;
        shown.memory = table::MEMORY;
        for (to, from) in shown.names.iter_mut().zip(table::NAMES) {
            for (to, from) in to.iter_mut().take(NAME - 1).zip(from.bytes()) {
                *to = from;
            }
        }
        for (path, content) in files::files(self) {
            add(shown, kind::FILE, &path, content.as_bytes());
        }
        for path in files::ABSENT {
            add(shown, kind::ABSENT, path, b"");
        }
    }
}

/// The random devices (random(4)) among the paths that processes do not get from the kernel.
pub(crate) fn show_random(shown: &mut Shown) {
    for path in ["/dev/urandom", "/dev/random"] {
        add(shown, kind::RANDOM, path, b"");
    }
}

/// Where the kernel lists its PMUs (`Documentation/ABI/testing/sysfs-bus-event_source-devices`).
const PMUS: &str = "/sys/bus/event_source/devices";

/// Whether the kernel lists a PMU of the CPU: the one that programs then name is the virtual one.
pub(crate) fn lists_pmu() -> bool {
    ["cpu", "cpu_core"]
        .iter()
        .any(|name| std::path::Path::new(PMUS).join(name).exists())
}

/// The type of the virtual PMU, for programs that look it up (libpfm), where the kernel has none to list. The list itself
/// is not there: in one without the CPU's PMU google-benchmark finds none to count by; without a list it names none.
pub(crate) fn show_pmu(shown: &mut Shown) {
    add(shown, kind::CLOSED, PMUS, b"");
    add(shown, kind::FILE, &format!("{PMUS}/cpu/type"), b"4\n");
}

/// Adds a path; one for which there is no room is the kernel's (a test sees to it that there is).
fn add(shown: &mut Shown, kind: u8, path: &str, content: &[u8]) {
    let Ok(length) = u16::try_from(content.len()) else {
        return;
    };
    let mut bytes = vec![kind];
    bytes.extend_from_slice(path.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(content);
    let at = shown.text_bytes as usize;
    if let Some(place) = shown.texts.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(&bytes);
        shown.text_bytes += bytes.len() as u32;
    }
}

const _: () = assert!(TEXTS <= u32::MAX as usize && MAX_ROWS >= 32);

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> Box<Shown> {
        // SAFETY: integers only.
        let mut shown: Box<Shown> = unsafe { Box::new(std::mem::zeroed()) };
        Machine::named(name).unwrap().show(&mut shown);
        show_pmu(&mut shown);
        show_random(&mut shown);
        shown
    }

    #[test]
    fn a_level_has_its_features_and_no_other() {
        let bit = |shown: &Shown, leaf, register: usize, bit: u32| {
            shown.cpuid(leaf, 0)[register] >> bit & 1 != 0
        };
        for (name, sse42, avx2, avx512) in [
            ("x86-64-v1", false, false, false),
            ("x86-64-v2", true, false, false),
            ("x86-64-v3", true, true, false),
            ("x86-64-v4", true, true, true),
            ("valgrind", true, true, false),
        ] {
            let shown = shown(name);
            assert_eq!(bit(&shown, 1, 2, 20), sse42, "{name}");
            assert_eq!(bit(&shown, 7, 1, 5), avx2, "{name}");
            assert_eq!(bit(&shown, 7, 1, 16), avx512, "{name}");
            assert_eq!(shown.components & 0xe0 != 0, avx512, "{name}");
            // TSX, AMX, CET, WAITPKG, user interrupts.
            for (register, hidden) in [(1, 11), (1, 4), (3, 24), (3, 25), (2, 7), (2, 5), (3, 5)] {
                assert!(
                    !bit(&shown, 7, register, hidden),
                    "{name}: {register}.{hidden}"
                );
            }
            if name != "valgrind" {
                assert!(!bit(&shown, 1, 2, 30) && !bit(&shown, 7, 1, 18), "{name}");
            }
        }
    }

    #[test]
    fn files_are_found_by_their_whole_path_and_directories_by_their_beginning() {
        let shown = shown("x86-64-v3,cpus=4");
        let text = |path: &str| {
            shown
                .find(path.as_bytes())
                .map(|(kind, text)| (kind, String::from_utf8_lossy(text).into_owned()))
        };
        assert_eq!(
            text("/sys/devices/system/cpu/online"),
            Some((kind::FILE, "0-3\n".to_owned()))
        );
        let (_, cpus) = text("/proc/cpuinfo").unwrap();
        assert_eq!(cpus.matches("processor\t:").count(), 4);
        assert_eq!(text("/sys/devices/system/cpu").unwrap().0, kind::ABSENT);
        assert_eq!(text("/sys/fs/cgroup/memory.max").unwrap().0, kind::ABSENT);
        assert_eq!(text("/dev/urandom").unwrap().0, kind::RANDOM);
        assert_eq!(text("/etc/passwd"), None);
        for list in [
            "/sys/bus/event_source/devices",
            "/sys/bus/event_source/devices/",
        ] {
            assert_eq!(text(list).unwrap().0, kind::CLOSED, "{list}");
        }
        assert_eq!(text("/sys/bus/event_source/devices/software/type"), None);
        let pmu = text("/sys/bus/event_source/devices/cpu/type");
        assert_eq!(pmu, Some((kind::FILE, "4\n".to_owned())));
    }

    #[test]
    fn all_texts_fit_on_the_largest_machine() {
        for name in Machine::names() {
            let shown = shown(&format!("{name},cpus={MAX_CPUS}"));
            assert!(
                shown.find(b"/dev/random").is_some(),
                "{name}: the last one is there"
            );
            assert!(shown.find(b"/proc/cpuinfo").is_some(), "{name}");
        }
    }

    #[test]
    fn what_is_no_machine_is_refused_with_the_names() {
        let error = Machine::named("x86-64").unwrap_err();
        assert!(
            error.contains("host, x86-64-v1") && error.contains("valgrind"),
            "{error}"
        );
        for bad in ["x86-64-v3,cpus=0", "x86-64-v3,cpus=64", "x86-64-v3,ram=1"] {
            assert!(Machine::named(bad).unwrap_err().contains("cpus=N"), "{bad}");
        }
    }
}
