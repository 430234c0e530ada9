//! The store while commits are measured: what waits there, for another writer or a server, does not keep a Ctrl-C waiting.

use truecount_history::Error;
use truecount_history::record::Record;
use truecount_history::store::Store;

use super::StoreArgs;
use super::stopping::Stopping;
use crate::failure::Failure;

/// A store that is asked in a thread of its own.
pub(super) struct Keeping<'a> {
    stopping: &'a Stopping,
    /// `None` once the user has ended what it was asked.
    store: Option<Store>,
}

impl<'a> Keeping<'a> {
    /// Opens the store.
    pub(super) fn open(stopping: &'a Stopping, args: &StoreArgs) -> Result<Self, Failure> {
        let args = args.clone();
        let store = stopping.meanwhile(move || args.open(true))??;
        Ok(Self {
            stopping,
            store: Some(store),
        })
    }

    /// Asks the store.
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        question: impl FnOnce(&mut Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(mut store) = self.store.take() else {
            return Err(Failure::new(1, "the store was left when it was asked last"));
        };
        let (store, answer) = self.stopping.meanwhile(move || {
            let answer = question(&mut store);
            (store, answer)
        })?;
        self.store = Some(store);
        Ok(answer?)
    }

    /// Adds the record of one more commit.
    pub(super) fn add(&mut self, record: Record) -> Result<(), Failure> {
        self.ask(move |store| store.add(&record).map(drop))?;
        self.stopping.kept();
        Ok(())
    }
}
