//! Small numbers for labels and kinds, so that an analysis compares integers and not strings.

use crate::file::Profile;
use crate::strings::{SEPARATOR, StringTable, label_of};
use rustc_hash::FxHashMap;

/// What the kind of an event means to the analyses; rustc's names (`measureme::rustc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `Query`
    Query,
    /// `GenericActivity`
    GenericActivity,
    /// `IncrementalLoadResult`
    IncrementalLoadResult,
    /// `IncrementalResultHashing`
    IncrementalResultHashing,
    /// `QueryBlocked`
    QueryBlocked,
    /// `QueryCacheHit`
    QueryCacheHit,
    /// `QueryCacheHitCount`
    QueryCacheHitCount,
    /// `ArtifactSize`
    ArtifactSize,
    /// Any other.
    Other,
}

impl Kind {
    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "Query" => Self::Query,
            "GenericActivity" => Self::GenericActivity,
            "IncrementalLoadResult" => Self::IncrementalLoadResult,
            "IncrementalResultHashing" => Self::IncrementalResultHashing,
            "QueryBlocked" => Self::QueryBlocked,
            "QueryCacheHit" => Self::QueryCacheHit,
            "QueryCacheHitCount" => Self::QueryCacheHitCount,
            "ArtifactSize" => Self::ArtifactSize,
            _ => Self::Other,
        }
    }
}

/// Kinds by string id; the last one is remembered, since events of a kind come in stretches.
#[derive(Debug)]
pub struct Kinds<'p> {
    strings: StringTable<'p>,
    last: (u64, Kind),
    known: FxHashMap<u64, Kind>,
}

impl<'p> Kinds<'p> {
    /// For one profile.
    #[must_use]
    pub fn new(profile: &'p Profile) -> Self {
        let strings = profile.strings();
        let first = (0, Kind::from_name(&strings.get(0)));
        Self {
            strings,
            last: first,
            known: FxHashMap::default(),
        }
    }

    /// The kind with this string id.
    #[inline]
    pub fn of(&mut self, id: u64) -> Kind {
        if self.last.0 == id {
            self.last.1
        } else {
            self.look(id)
        }
    }

    #[inline(never)]
    fn look(&mut self, id: u64) -> Kind {
        let strings = self.strings;
        let kind = *self
            .known
            .entry(id)
            .or_insert_with(|| Kind::from_name(&strings.get(id)));
        self.last = (id, kind);
        kind
    }
}

const NONE: u32 = u32::MAX;

/// Labels by event id: a number from 0 on for each different text.
#[derive(Debug)]
pub struct Labels<'p> {
    strings: StringTable<'p>,
    dense: Vec<u32>,
    sparse: FxHashMap<u64, u32>,
    /// Whether the string of this id has its label closed by a separator.
    closed: FxHashMap<u64, bool>,
    numbers: FxHashMap<String, u32>,
    texts: Vec<String>,
    /// Bytes that texts may still take: their sum is bounded by the file, whatever it references.
    budget: u64,
}

impl<'p> Labels<'p> {
    /// For one profile.
    #[must_use]
    pub fn new(profile: &'p Profile) -> Self {
        let strings = profile.strings();
        Self {
            strings,
            dense: vec![NONE; strings.index.dense()],
            sparse: FxHashMap::default(),
            closed: FxHashMap::default(),
            numbers: FxHashMap::default(),
            texts: Vec::new(),
            budget: profile.size().saturating_add(1 << 20),
        }
    }

    /// Number of the label of the event id `id`.
    #[inline]
    pub fn of(&mut self, id: u64) -> u32 {
        let known = usize::try_from(id)
            .ok()
            .and_then(|place| self.dense.get(place));
        match known {
            Some(&number) if number != NONE => number,
            _ => self.look(id),
        }
    }

    #[inline(never)]
    fn look(&mut self, id: u64) -> u32 {
        if let Some(&number) = self.sparse.get(&id) {
            return number;
        }
        let number = self.resolve(id);
        match usize::try_from(id)
            .ok()
            .and_then(|place| self.dense.get_mut(place))
        {
            Some(place) => *place = number,
            None => {
                self.sparse.insert(id, number);
            }
        }
        number
    }

    /// Most event ids are a reference to the label's string, then a separator and arguments: then
    /// the label is that string's, and nothing needs to be expanded.
    fn resolve(&mut self, id: u64) -> u32 {
        if let Some((inner, next)) = self.strings.leading_reference(id)
            && (next == SEPARATOR || next == 0xFF)
            && self.plain(inner)
        {
            return self.of(inner);
        }
        let text = self.strings.get(id);
        self.intern(label_of(&text))
    }

    /// Whether a string is one literal, not empty (a label by itself, whatever stands behind it).
    fn plain(&mut self, id: u64) -> bool {
        let strings = self.strings;
        *self.closed.entry(id).or_insert_with(|| {
            strings.leading_reference(id).is_none() && !strings.get(id).is_empty()
        })
    }

    fn intern(&mut self, label: &str) -> u32 {
        if let Some(&number) = self.numbers.get(label) {
            return number;
        }
        let length = label.len() as u64;
        if length > self.budget && label != "<too long>" {
            return self.intern("<too long>");
        }
        self.budget = self.budget.saturating_sub(length);
        // A file of 2^32 different labels is over 32 GiB; the last number then stands for the rest.
        let number = u32::try_from(self.texts.len())
            .unwrap_or(NONE - 1)
            .min(NONE - 1);
        self.numbers.insert(label.to_owned(), number);
        self.texts.push(label.to_owned());
        number
    }

    /// The label with this number.
    #[must_use]
    pub fn text(&self, number: u32) -> &str {
        self.texts
            .get(number as usize)
            .map_or("<unknown>", String::as_str)
    }

    /// How many different labels were met.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether no label was met.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}
