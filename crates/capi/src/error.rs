//! Statuses, and the last failure of every thread with its cause and hint.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use truecount::{Error, RecorderError};

/// What calls return. The numbers are part of the interface (`enum truecount_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Status {
    Ok = 0,
    Event = 1,
    NotAvailable = 2,
    Thread = 3,
    Forked = 4,
    Closed = 5,
    Handle = 6,
    Argument = 7,
    NoCount = 8,
    File = 9,
    Nesting = 10,
    Internal = 11,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// With its cause and hint.
    Because(Status, String, String),
    /// A signal handler came in the middle of a call that changes what the thread has: nothing is allocated or freed to say
    /// so, since that may be what it interrupted.
    Busy,
}

impl Failed {
    pub(crate) fn new(status: Status, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Because(status, cause.into(), hint.into())
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Because(status, ..) => *status,
            Self::Busy => Status::Thread,
        }
    }

    pub(crate) fn null(what: &str) -> Self {
        Self::new(
            Status::Argument,
            format!("{what} is NULL"),
            "pass a valid pointer",
        )
    }

    pub(crate) fn forked(what: &str) -> Self {
        Self::new(
            Status::Forked,
            format!("this {what} is the parent's: this process is a forked child"),
            format!("open a {what} of its own in the child"),
        )
    }
}

/// What a program does that has no source of its own to choose.
const WITHOUT_A_PMU: &str = "; `truecount run -- PROGRAM` counts instructions:u without a PMU";

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Event(_) | Error::NotOne { .. } | Error::Hybrid { .. } => Status::Event,
            Error::Moved { .. } | Error::Descheduled { .. } | Error::Read { .. } => Status::NoCount,
            Error::ThreadEnds => Status::Closed,
            _ => Status::NotAvailable,
        };
        let mut hint = error.hint();
        let whole = error.to_string();
        // The one line has both.
        let cause = whole
            .strip_suffix(&hint)
            .map_or(whole.as_str(), |cause| cause.trim_end_matches("; "))
            .to_owned();
        if matches!(&error, Error::NotOne { .. }) {
            "name one event, or open several by truecount_group_open()".clone_into(&mut hint);
        }
        if matches!(&error, Error::Open { source, .. } if source.cause() == truecount::perf::Cause::NoPmu)
        {
            hint += WITHOUT_A_PMU;
        }
        Self::new(status, cause, hint)
    }
}

impl From<RecorderError> for Failed {
    fn from(error: RecorderError) -> Self {
        let text = error.to_string();
        match error {
            RecorderError::Counter(error) => error.into(),
            RecorderError::Counters { .. } => Self::new(
                Status::Argument,
                text,
                "several recorders can record at once",
            ),
            RecorderError::Forked => Self::forked("recorder"),
            _ => Self::new(
                Status::File,
                text,
                "see that the directory exists, may be written and has room",
            ),
        }
    }
}

struct Last {
    status: Status,
    cause: CString,
    hint: CString,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    /// The last failure was [`Failed::Busy`].
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Text without its NUL characters, of which C's strings can have none.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Keeps a failure for `truecount_error_message` and gives its status.
pub(crate) fn keep(failed: &Failed) -> Status {
    let status = failed.status();
    let Failed::Because(_, cause, hint) = failed else {
        BUSY.set(true);
        return status;
    };
    let last = Last {
        status,
        cause: c_string(cause),
        hint: c_string(hint),
    };
    // A thread that is ending, or a signal handler in the middle of this, keeps the status alone.
    let _ = LAST.try_with(|kept| kept.try_borrow_mut().map(|mut kept| *kept = Some(last)));
    BUSY.set(false);
    status
}

/// Runs a call: its failures and panics become a status.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), Failed>) -> c_int {
    value(
        || call().map(|()| Status::Ok as c_int),
        |status| status as c_int,
    )
}

/// As [`guarded`], for calls that give a value; `failed` makes one of a failure's status.
pub(crate) fn value<T>(
    call: impl FnOnce() -> Result<T, Failed>,
    failed: impl FnOnce(Status) -> T,
) -> T {
    // What a panic leaves half-done is one handle's, and the tables are whole at every point where one can happen.
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(Failed::new(
            Status::Internal,
            "truecount panicked: this is a fault of the library",
            "report it with the program that shows it",
        ))
    });
    outcome.unwrap_or_else(|error| failed(keep(&error)))
}

fn text(of: impl FnOnce(&Last) -> &CString, busy: &'static CStr) -> *const c_char {
    const EMPTY: &CStr = c"";
    if BUSY.get() {
        return busy.as_ptr();
    }
    LAST.try_with(|kept| {
        let kept = kept.try_borrow().ok()?;
        Some(of(kept.as_ref()?).as_ptr())
    })
    .ok()
    .flatten()
    .unwrap_or(EMPTY.as_ptr())
}

/// Why the last call of this thread that failed did so.
#[unsafe(no_mangle)]
pub extern "C" fn truecount_error_message() -> *const c_char {
    const BUSY: &CStr =
        c"a signal handler interrupted truecount while it opened or closed something, or used a group or a recorder";
    text(|last| &last.cause, BUSY)
}

/// What to do about it.
#[unsafe(no_mangle)]
pub extern "C" fn truecount_error_hint() -> *const c_char {
    const BUSY: &CStr = c"block the signal meanwhile; in signal handlers read counters only";
    text(|last| &last.hint, BUSY)
}

/// The status of the last call of this thread that failed; 0 where none did.
#[unsafe(no_mangle)]
pub extern "C" fn truecount_error_status() -> c_int {
    if BUSY.get() {
        return Status::Thread as c_int;
    }
    LAST.try_with(|kept| {
        let kept = kept.try_borrow().ok()?;
        Some(kept.as_ref()?.status as c_int)
    })
    .ok()
    .flatten()
    .unwrap_or(Status::Ok as c_int)
}
