//! Parts of a run that are chosen by functions and addresses of its programs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use truecount_engine::virt::{Action, ChosenPlace, FindFunctions};

use crate::functions::functions_like;

/// Places in a program.
type Found = Vec<ChosenPlace>;

/// What is chosen, by what words.
#[derive(Clone)]
pub struct Chosen {
    asked: Arc<Vec<(String, Action)>>,
    /// What was found, by program.
    known: Arc<Mutex<HashMap<PathBuf, Found>>>,
}

/// The addresses that a word stands for in a program: an address (`0x401136`), a function, or a place in one
/// (`parse+0x1f`); patterns have `*` and `?`. None where the program has none of the name.
pub fn places_like(program: &Path, word: &str) -> Vec<u64> {
    let places = named_places_like(program, word).into_iter();
    places.map(|(address, _)| address).collect()
}

/// The same, with the names of the functions, or the word where that is an address.
fn named_places_like(program: &Path, word: &str) -> Vec<(u64, String)> {
    let hexadecimal = |text: &str| {
        text.strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
    };
    if let Some(address) = hexadecimal(word) {
        return vec![(address, word.to_owned())];
    }
    let (name, offset) = match word
        .rsplit_once('+')
        .map(|(name, at)| (name, hexadecimal(at)))
    {
        Some((name, Some(offset))) => (name, offset),
        _ => (word, 0),
    };
    let found = functions_like(program, name).unwrap_or_default();
    let places = found.into_iter();
    places
        .map(|(at, name)| (at.wrapping_add(offset), name))
        .collect()
}

impl Chosen {
    /// Chooses by these words.
    pub fn new(asked: Vec<(String, Action)>) -> Self {
        Self {
            asked: Arc::new(asked),
            known: Arc::default(),
        }
    }

    /// Nothing is chosen.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// How many places of a program are chosen; and the words that it has nothing of.
    pub fn look_into(&self, program: &Path) -> (usize, Vec<(&str, Action)>) {
        let program = program
            .canonicalize()
            .unwrap_or_else(|_| program.to_owned());
        let mut all = Found::new();
        let mut missing = Vec::new();
        for (word, action) in self.asked.iter() {
            let places = named_places_like(&program, word);
            if places.is_empty() {
                missing.push((word.as_str(), *action));
            }
            let place = |(address, name)| ChosenPlace {
                address,
                action: *action,
                name,
            };
            all.extend(places.into_iter().map(place));
        }
        let count = all.len();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(program, all);
        (count, missing)
    }

    /// The words that no program so far has anything of.
    pub fn missing_everywhere(&self) -> Vec<&str> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let programs: Vec<PathBuf> = known.keys().cloned().collect();
        drop(known);
        let found = |word: &str| programs.iter().any(|at| !places_like(at, word).is_empty());
        let words = self.asked.iter().map(|(word, _)| word.as_str());
        words.filter(|word| !found(word)).collect()
    }

    /// What finds them in each program of a run.
    pub fn finder(&self) -> FindFunctions {
        let this = self.clone();
        FindFunctions(Arc::new(move |program| {
            let known = this.known.lock().unwrap_or_else(PoisonError::into_inner);
            let found = known.get(program).cloned();
            drop(known);
            found.unwrap_or_else(|| {
                this.look_into(program);
                let known = this.known.lock().unwrap_or_else(PoisonError::into_inner);
                let canonical = program
                    .canonicalize()
                    .unwrap_or_else(|_| program.to_owned());
                known.get(&canonical).cloned().unwrap_or_default()
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_places() {
        let own = std::env::current_exe().unwrap();
        let function = "*regions::places_like";
        let at = places_like(&own, function);
        assert_eq!(at.len(), 1, "{at:x?}");
        let behind = places_like(&own, &format!("{function}+0x10"));
        assert_eq!(behind, [at[0] + 16]);
        assert_eq!(places_like(&own, "0x401136"), [0x401136]);
        assert!(places_like(&own, "0xno_address").is_empty());
        let chosen = Chosen::new(vec![("no_such_function_here".to_owned(), Action::Toggle)]);
        assert_eq!(chosen.look_into(&own).1.len(), 1);
        assert_eq!(chosen.missing_everywhere(), ["no_such_function_here"]);
    }
}
