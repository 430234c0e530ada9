//! Regions of a program into region profiles.

use crate::error::{Failed, Status, guarded};
use crate::slots::{Kind, Slot, generation, none};
use crate::strings::utf8;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use truecount::{Recorder, Region};

/// The recorders that one process has opened, by their handles. Never freed: the child of a fork leaves its parent's,
/// whose lock another thread may have held, and begins one of its own.
struct All {
    own: Mutex<HashMap<usize, Recorder>>,
    /// The parent process's: nobody uses it, but it is no leak either.
    _parents: *mut All,
}

/// NULL before the first.
static ALL: AtomicPtr<All> = AtomicPtr::new(ptr::null_mut());
static PARENTS: AtomicPtr<All> = AtomicPtr::new(ptr::null_mut());
static INSTALLED: Once = Once::new();

fn all() -> MutexGuard<'static, HashMap<usize, Recorder>> {
    INSTALLED.call_once(|| {
        // SAFETY: the handler is a function without arguments that lives as long as the program.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    let mut at = ALL.load(Ordering::Acquire);
    if at.is_null() {
        let made = Box::into_raw(Box::new(All {
            own: Mutex::default(),
            _parents: PARENTS.load(Ordering::Relaxed),
        }));
        match ALL.compare_exchange(at, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => at = made,
            Err(others) => {
                // SAFETY: made here, and nobody has seen it.
                drop(unsafe { Box::from_raw(made) });
                at = others;
            }
        }
    }
    // SAFETY: what is stored there is never freed.
    let all = unsafe { &*at };
    all.own.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs in the child of a fork, on its only thread: no lock, no allocation.
extern "C" fn in_child() {
    let parents = ALL.swap(ptr::null_mut(), Ordering::AcqRel);
    if !parents.is_null() {
        PARENTS.store(parents, Ordering::Relaxed);
    }
}

/// What a thread knows of a recorder. The innermost region is the last one.
struct Local {
    handle: usize,
    recorder: Recorder,
    regions: Vec<Region>,
}

impl Drop for Local {
    fn drop(&mut self) {
        while let Some(innermost) = self.regions.pop() {
            drop(innermost);
        }
    }
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

fn with_local<R>(
    handle: *const Slot,
    use_it: impl FnOnce(&mut Local) -> Result<R, Failed>,
) -> Result<R, Failed> {
    // Also of a recorder that another thread closed.
    let slot = Slot::find(handle, Kind::Recorder).inspect_err(|_| forget(handle as usize))?;
    if slot.place() != generation() {
        return Err(Failed::forked("recorder"));
    }
    let handle = ptr::from_ref(slot) as usize;
    let outcome = LOCALS.try_with(|locals| {
        let Ok(mut locals) = locals.try_borrow_mut() else {
            return Err(Failed::Busy);
        };
        let found = locals.iter().position(|local| local.handle == handle);
        let place = match found {
            Some(place) => place,
            None => {
                let recorder = all().get(&handle).cloned().ok_or_else(|| {
                    Failed::new(
                        Status::Closed,
                        "this recorder is closed",
                        "record before it is closed",
                    )
                })?;
                locals.push(Local {
                    handle,
                    recorder,
                    regions: Vec::new(),
                });
                locals.len() - 1
            }
        };
        let Some(local) = locals.get_mut(place) else {
            return Err(Failed::new(Status::Closed, "this recorder is closed", ""));
        };
        use_it(local)
    });
    outcome.unwrap_or_else(|_| {
        Err(Failed::new(
            Status::Closed,
            "the thread is ending",
            "record before the thread's destructors run",
        ))
    })
}

fn forget(handle: usize) {
    let _ = LOCALS.try_with(|locals| {
        if let Ok(mut locals) = locals.try_borrow_mut() {
            locals.retain(|local| local.handle != handle);
        }
    });
}

/// Opens a recorder of one to four events (separated by semicolons), one file for each.
///
/// # Safety
/// `path` and `events` are NULL or strings; `recorder` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_recorder_open(
    path: *const c_char,
    events: *const c_char,
    recorder: *mut *const Slot,
) -> c_int {
    guarded(|| {
        if recorder.is_null() {
            return Err(Failed::null("recorder"));
        }
        // SAFETY: not NULL, and the caller says that it is valid.
        unsafe { recorder.write(none()) };
        // SAFETY: as the caller says.
        let path = unsafe { utf8(path, "path") }?;
        // SAFETY: as the caller says.
        let events = unsafe { utf8(events, "events") }?;
        let events: Vec<&str> = events.split(';').map(str::trim).collect();
        let opened = Recorder::with_counters(path, &events)?;
        // Its place is in no thread's table: which process's it is stands there.
        let slot = Slot::take(Kind::Recorder, generation())?;
        all().insert(ptr::from_ref(slot) as usize, opened);
        // SAFETY: as above.
        unsafe { recorder.write(slot) };
        Ok(())
    })
}

/// Begins a region on the calling thread.
///
/// # Safety
/// `label` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_region_begin(
    recorder: *const Slot,
    label: *const c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: as the caller says.
        let label = unsafe { utf8(label, "label") }?;
        with_local(recorder, |local| {
            let recorder = &local.recorder;
            let label = recorder.label(label);
            local.regions.push(recorder.region(label));
            Ok(())
        })
    })
}

/// Ends the innermost region of the recorder on the calling thread.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_region_end(recorder: *const Slot) -> c_int {
    guarded(|| {
        with_local(recorder, |local| match local.regions.pop() {
            Some(_ends) => Ok(()),
            None => Err(Failed::new(
                Status::Nesting,
                "no region of this recorder is open on this thread",
                "begin one by truecount_region_begin() on the thread that ends it",
            )),
        })
    })
}

/// Writes what was recorded so far.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_recorder_flush(recorder: *const Slot) -> c_int {
    guarded(|| with_local(recorder, |local| Ok(local.recorder.flush()?)))
}

/// Ends the calling thread's regions, writes everything and closes the recorder, on any thread.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_recorder_close(recorder: *const Slot) -> c_int {
    guarded(|| {
        let flushed = with_local(recorder, |local| {
            while let Some(innermost) = local.regions.pop() {
                drop(innermost);
            }
            Ok(local.recorder.flush()?)
        });
        let slot = Slot::find(recorder, Kind::Recorder)?;
        slot.close();
        let handle = ptr::from_ref(slot) as usize;
        forget(handle);
        all().remove(&handle);
        flushed
    })
}
