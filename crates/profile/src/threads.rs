//! State per thread: events of a thread come in stretches, so the last one is remembered.

use rustc_hash::FxHashMap;

/// One `T` for each thread id.
#[derive(Debug)]
pub(crate) struct Threads<T> {
    last: (u32, usize),
    places: FxHashMap<u32, usize>,
    states: Vec<(u32, T)>,
}

impl<T> Threads<T> {
    pub(crate) fn new() -> Self {
        Self {
            last: (0, usize::MAX),
            places: FxHashMap::default(),
            states: Vec::new(),
        }
    }

    /// The state of a thread, made where it is new.
    #[inline]
    pub(crate) fn get(&mut self, thread: u32) -> &mut T
    where
        T: Default,
    {
        self.get_or(thread, T::default)
    }

    /// The state of a thread, made by `new` where the thread is new.
    #[inline]
    pub(crate) fn get_or(&mut self, thread: u32, new: impl FnOnce() -> T) -> &mut T {
        if self.last.0 != thread || self.last.1 >= self.states.len() {
            let next = self.states.len();
            let place = *self.places.entry(thread).or_insert(next);
            if place == next {
                self.states.push((thread, new()));
            }
            self.last = (thread, place);
        }
        &mut self.states[self.last.1].1
    }

    /// All states, by thread id.
    pub(crate) fn into_sorted(mut self) -> Vec<(u32, T)> {
        self.states.sort_by_key(|state| state.0);
        self.states
    }
}
