//! State per thread: events of a thread come in stretches, so the last one is remembered.

use rustc_hash::FxHashMap;

/// One `T` for each thread id.
#[derive(Debug)]
pub(crate) struct Threads<T> {
    last: (u32, usize),
    places: FxHashMap<u32, usize>,
    states: Vec<(u32, T)>,
}

impl<T: Default> Threads<T> {
    pub(crate) fn new() -> Self {
        Self { last: (0, usize::MAX), places: FxHashMap::default(), states: Vec::new() }
    }

    /// The state of a thread, made where it is new.
    #[inline]
    pub(crate) fn get(&mut self, thread: u32) -> &mut T {
        if self.last.0 != thread || self.last.1 >= self.states.len() {
            self.look(thread);
        }
        &mut self.states[self.last.1].1
    }

    #[inline(never)]
    fn look(&mut self, thread: u32) {
        let next = self.states.len();
        let place = *self.places.entry(thread).or_insert(next);
        if place == next {
            self.states.push((thread, T::default()));
        }
        self.last = (thread, place);
    }

    /// All states, by thread id.
    pub(crate) fn into_sorted(mut self) -> Vec<(u32, T)> {
        self.states.sort_by_key(|state| state.0);
        self.states
    }
}
