//! Texts by number, each once: the string tables of pprof and of the Firefox profiler.

use rustc_hash::FxHashMap;
use std::rc::Rc;

/// A string table under construction.
#[derive(Debug, Default)]
pub(super) struct Interner {
    numbers: FxHashMap<Rc<str>, usize>,
    texts: Vec<Rc<str>>,
}

impl Interner {
    /// The number of a text, counted from 0 in the order of first use.
    pub(super) fn of(&mut self, text: &str) -> usize {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len();
        let text: Rc<str> = text.into();
        self.texts.push(Rc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    /// All texts in the order of their numbers.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }
}
