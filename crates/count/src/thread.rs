//! One handle, a counter of its own on every thread.

use crate::core::Core;
use crate::counter::Counter;
use crate::error::Error;
use crate::open::Options;
use crate::policy::{Fence, Policy};
use crate::stamp::Stamp;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use truecount_perf::fork;

/// A handle that is right on every thread: the first use on a thread opens a counter there (its own descriptor, page
/// and register), later uses find it in thread-local memory without locks or allocation.
///
/// ```
/// use truecount::{Fence, PerThread};
/// let time = PerThread::<Fence>::new("wall-time")?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             let counter = time.counter()?; // this thread's
///             let start = counter.read();
///             Ok::<u64, truecount::Error>(counter.since(start))
///         });
///     }
/// });
/// # Ok::<(), truecount::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PerThread<P: Policy = Fence> {
    shared: Arc<Shared>,
    policy: PhantomData<fn() -> P>,
}

#[derive(Debug)]
struct Shared {
    event: String,
    options: Options,
}

/// A thread's counter of one handle.
struct Local {
    shared: Arc<Shared>,
    core: Rc<Core>,
    /// In which process, of those made by forks, it was found right.
    generation: u32,
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

impl<P: Policy> PerThread<P> {
    /// A handle for the event, opened on the calling thread at once, so that errors show here.
    ///
    /// # Errors
    /// As [`Counter::open`].
    pub fn new(event: &str) -> Result<Self, Error> {
        Self::with_options(event, Options::new())
    }

    /// As [`new`](Self::new), with options for every thread's counter.
    ///
    /// # Errors
    /// As [`Counter::open`].
    pub fn with_options(event: &str, options: Options) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            event: event.to_owned(),
            options,
        });
        let handle = Self {
            shared,
            policy: PhantomData,
        };
        handle.counter()?;
        Ok(handle)
    }

    /// The calling thread's counter; opened if this is the handle's first use here.
    ///
    /// # Errors
    /// As [`Counter::open`]; [`Error::ThreadEnds`] inside thread-local destructors.
    #[inline]
    pub fn counter(&self) -> Result<Counter<P>, Error> {
        let found = LOCALS.try_with(|locals| {
            let locals = locals.try_borrow().ok()?;
            let local = locals
                .iter()
                .find(|l| Arc::ptr_eq(&l.shared, &self.shared))?;
            (local.generation == fork::generation()).then_some(())?;
            Some(Rc::clone(&local.core))
        });
        match found {
            Ok(Some(core)) => Ok(Counter::from_core(core)),
            Ok(None) => self.open_here(),
            Err(_) => Err(Error::ThreadEnds),
        }
    }

    /// Where the calling thread's counter stands. After the thread's first use it never allocates, locks or panics.
    ///
    /// # Errors
    /// As [`counter`](Self::counter).
    #[inline]
    pub fn read(&self) -> Result<Stamp, Error> {
        self.counter().map(|counter| counter.read())
    }

    #[cold]
    fn open_here(&self) -> Result<Counter<P>, Error> {
        self.forget_if_forked()?;
        let core = Rc::new(self.shared.options.open_core::<P>(&self.shared.event)?);
        let entry = Local {
            shared: Arc::clone(&self.shared),
            core: Rc::clone(&core),
            generation: fork::generation(),
        };
        let dead = LOCALS.try_with(|locals| {
            let mut locals = locals.try_borrow_mut().ok()?;
            // Counters whose handle is gone everywhere else are closed when room is made for a new one.
            let (kept, dead): (Vec<Local>, Vec<Local>) = locals
                .drain(..)
                .partition(|l| Arc::strong_count(&l.shared) > 1 || Rc::strong_count(&l.core) > 1);
            *locals = kept;
            locals.push(entry);
            Some(dead)
        });
        match dead {
            Ok(_) => Ok(Counter::from_core(core)),
            Err(_) => Err(Error::ThreadEnds),
        }
    }

    /// In a forked child the counter has been opened anew, under the same handle. Where the kernel gave it another
    /// register, or none, it is dropped, and a new one is opened.
    fn forget_if_forked(&self) -> Result<(), Error> {
        let now = fork::generation();
        let dropped = LOCALS.try_with(|locals| {
            let mut locals = locals.try_borrow_mut().ok()?;
            let at = locals
                .iter()
                .position(|l| Arc::ptr_eq(&l.shared, &self.shared))?;
            Some(locals.remove(at))
        });
        drop(
            dropped
                .map_err(|_| Error::ThreadEnds)?
                .filter(|l| l.generation != now),
        );
        Ok(())
    }
}
