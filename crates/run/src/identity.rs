//! Which inputs a run had: hashes of what it read from its files, arguments and environment. A closed run repeats as long as
//! these are the same; where two counts differ, they say by which inputs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use truecount_engine::inputs::PARTS;
use truecount_engine::virt;

/// What stands for the hash of a part that was not the same in all runs.
const VARIED: &str = "varied";

/// The identity of a run's inputs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Different files that were read: programs, libraries, others.
    pub files: u64,
    /// Something that was read is not in it: more files than can be known, or one that could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// By part ([`PARTS`]): 16 hexadecimal digits, or `varied`.
    pub parts: BTreeMap<String, String>,
}

impl Identity {
    /// That of a run.
    #[must_use]
    pub fn of(found: &virt::Identity) -> Self {
        let parts = PARTS.iter().zip(found.parts);
        Self {
            files: found.files.into(),
            partial: found.partial,
            parts: parts
                .map(|(part, hash)| ((*part).to_owned(), format!("{hash:016x}")))
                .collect(),
        }
    }

    /// The parts that two runs do not share.
    fn differing<'p>(&self, other: &Self) -> Vec<&'p str> {
        let differs = |part: &&str| {
            let both = self.parts.get(*part).zip(other.parts.get(*part));
            both.is_some_and(|(one, other)| one != other)
        };
        PARTS.into_iter().filter(differs).collect()
    }

    /// Adds those of another run of the same command: what differs is marked.
    pub(crate) fn merge(&mut self, other: &Self) {
        for part in self.differing(other) {
            if let Some(hash) = self.parts.get_mut(part) {
                VARIED.clone_into(hash);
            }
        }
        self.files = self.files.max(other.files);
        self.partial |= other.partial;
    }

    /// What was not the same in all runs, in words.
    pub(crate) fn varied(&self) -> Option<String> {
        let varied = |part: &&str| self.parts.get(*part).is_some_and(|hash| hash == VARIED);
        in_words(PARTS.into_iter().filter(varied))
    }

    /// What differs between two runs, in words.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        in_words(self.differing(other).into_iter())
    }
}

fn in_words<'p>(parts: impl Iterator<Item = &'p str>) -> Option<String> {
    let words: Vec<&str> = parts
        .map(|part| match part {
            "program" => "the program",
            "arguments" => "its arguments",
            "environment" => "its environment",
            "libraries" => "libraries",
            "files" => "files that it reads",
            "names" => "which files there are",
            _ => "times of files",
        })
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(parts: [u64; PARTS.len()]) -> Identity {
        Identity::of(&virt::Identity::of(parts))
    }

    #[test]
    fn what_differs_is_named() {
        let one = identity([1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(one.difference(&one), None);
        let other = identity([1, 2, 3, 9, 5, 9, 7]);
        let text = "libraries, which files there are";
        assert_eq!(one.difference(&other).unwrap(), text);
        let mut all = one.clone();
        all.merge(&one);
        assert_eq!((all.varied(), &all), (None, &one));
        all.merge(&other);
        all.merge(&other);
        assert_eq!(all.varied().unwrap(), text);
        // What is not known of one side says nothing.
        assert_eq!(one.difference(&Identity::default()), None);
    }
}
