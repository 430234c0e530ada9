//! The compiled part of truecount for Python: counters over truecount's C interface, which knows every wrong use, and
//! running a program under the virtual PMU.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{CStr, CString, OsString, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use truecount_c::counter::*;
use truecount_c::error::*;
use truecount_c::recorder::*;
use truecount_c::truecount_counter as Slot;

/// What failed last on this thread, as Python's exception.
fn failed(py: Python<'_>) -> PyErr {
    let text = |pointer: *const c_char| {
        // SAFETY: the library gives a string that is valid until the next failure of this thread.
        unsafe { CStr::from_ptr(pointer) }
            .to_string_lossy()
            .into_owned()
    };
    let arguments = (
        truecount_error_status(),
        text(truecount_error_message()),
        text(truecount_error_hint()),
    );
    let made = py
        .import("truecount._errors")
        .and_then(|module| module.call_method1("make", arguments));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

fn checked(py: Python<'_>, status: c_int) -> PyResult<()> {
    if status == 0 { Ok(()) } else { Err(failed(py)) }
}

fn c_string(text: &str) -> PyResult<CString> {
    CString::new(text).map_err(|_| {
        pyo3::exceptions::PyValueError::new_err(
            "the text has a NUL character, which no event, label or path has",
        )
    })
}

/// Python's frame that calls: the same one for both ends of a block.
fn frame(py: Python<'_>) -> Option<Py<PyAny>> {
    // SAFETY: this thread is attached; the reference is borrowed, or NULL.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, pyo3::ffi::PyEval_GetFrame().cast()) }
        .map(Bound::unbind)
}

/// A block that has begun.
struct Begun {
    /// Kept, so that its address is no other frame's meanwhile.
    frame: Option<Py<PyAny>>,
    point: u64,
}

/// Takes the block out that ends in `frame`: the innermost one. `None`: it is not the innermost, since blocks of tasks
/// or generators overlap (`ExitStack` has frames of its own, which no block began in).
fn ended(begun: &mut Vec<Begun>, frame: Option<&Py<PyAny>>) -> Option<Option<Begun>> {
    let is_of = |block: &Begun| match (&block.frame, frame) {
        (Some(of), Some(frame)) => of.is(frame),
        _ => false,
    };
    match begun.iter().rposition(is_of) {
        Some(at) if at + 1 < begun.len() => {
            begun.remove(at);
            None
        }
        _ => Some(begun.pop()),
    }
}

/// `TRUECOUNT_NESTING` of the C interface.
const TRUECOUNT_NESTING: c_int = 10;

/// One event, counted for the thread that opened it.
///
/// The handle is compared before it is used, so it may come from any thread.
#[pyclass(frozen, module = "truecount")]
struct Counter {
    handle: usize,
    /// What an empty `with` block counts.
    overhead: AtomicU64,
    /// What calling a function that does nothing counts.
    call_overhead: AtomicU64,
    /// The open blocks.
    begun: Mutex<Vec<Begun>>,
    /// The last block's count.
    last: AtomicU64,
}

/// `last` before the first block has ended.
const NONE: u64 = u64::MAX;

impl Counter {
    fn slot(&self) -> *const Slot {
        ptr::without_provenance(self.handle)
    }

    #[inline]
    fn point(&self, py: Python<'_>) -> PyResult<u64> {
        // SAFETY: has no requirements: the handle is compared before it is used.
        let point = unsafe { truecount_read_any(self.slot()) };
        if point == NONE {
            Err(failed(py))
        } else {
            Ok(point)
        }
    }

    fn counted(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<u64> {
        let mut count = 0;
        // SAFETY: the pointer is to a local.
        checked(py, unsafe {
            truecount_between(self.slot(), start, end, &raw mut count)
        })?;
        Ok(count)
    }

    fn text(&self, py: Python<'_>, text: *const c_char) -> PyResult<String> {
        if text.is_null() {
            return Err(failed(py));
        }
        // SAFETY: not NULL: valid until the counter is closed.
        Ok(unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned())
    }
}

#[pymethods]
impl Counter {
    #[new]
    #[pyo3(signature = (event = "instructions:u"))]
    fn new(py: Python<'_>, event: &str) -> PyResult<Self> {
        let event = c_string(event)?;
        let mut handle = ptr::null();
        // SAFETY: a string, and a place for the handle.
        checked(py, unsafe {
            truecount_open(event.as_ptr(), &raw mut handle)
        })?;
        Ok(Self {
            handle: handle as usize,
            overhead: AtomicU64::new(0),
            call_overhead: AtomicU64::new(0),
            begun: Mutex::default(),
            last: AtomicU64::new(NONE),
        })
    }

    /// Where the counter stands: a point, for between().
    fn read(&self, py: Python<'_>) -> PyResult<u64> {
        self.point(py)
    }

    /// What was counted between two points.
    fn between(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<u64> {
        self.counted(py, start, end)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let py = slf.py();
        let this = slf.get();
        let frame = frame(py);
        let mut begun = this.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.reserve(1);
        // The read comes last, so that as little as possible of this is in the block.
        let point = this.point(py)?;
        begun.push(Begun { frame, point });
        drop(begun);
        Ok(slf)
    }

    /// Three arguments by name: a tuple of them would be made before the read.
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _exception: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let end = self.point(py);
        let frame = frame(py);
        let block = ended(
            &mut self.begun.lock().unwrap_or_else(PoisonError::into_inner),
            frame.as_ref(),
        );
        let Some(block) = block else {
            let arguments = (
                TRUECOUNT_NESTING,
                "blocks of one counter overlap",
                "take a counter for each task and generator",
            );
            let errors = py.import("truecount._errors")?;
            let error = errors.call_method1("make", arguments)?;
            return Err(PyErr::from_value(error));
        };
        let end = end?;
        let Some(Begun { point: start, .. }) = block else {
            return Err(PyRuntimeError::new_err("a block ends that has not begun"));
        };
        let count = self.counted(py, start, end)?;
        let overhead = self.overhead.load(Ordering::Relaxed);
        self.last
            .store(count.saturating_sub(overhead), Ordering::Relaxed);
        Ok(false)
    }

    /// Calls a function: what the call counted, less what one of a function that does nothing counts, and its result.
    #[pyo3(signature = (function, args = None, kwargs = None))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        function: &Bound<'py, PyAny>,
        args: Option<Bound<'py, PyTuple>>,
        kwargs: Option<Bound<'py, PyDict>>,
    ) -> PyResult<(u64, Bound<'py, PyAny>)> {
        let args = args.unwrap_or_else(|| PyTuple::empty(py));
        let start = self.point(py)?;
        let result = function.call(args, kwargs.as_ref());
        let end = self.point(py)?;
        let count = self.counted(py, start, end)?;
        let overhead = self.call_overhead.load(Ordering::Relaxed);
        Ok((count.saturating_sub(overhead), result?))
    }

    /// What the last block counted; None before the first one has ended.
    #[getter]
    fn count(&self) -> Option<u64> {
        Some(self.last.load(Ordering::Relaxed)).filter(|count| *count != NONE)
    }

    /// What the counter has counted since it was opened.
    fn total(&self, py: Python<'_>) -> PyResult<u64> {
        let mut count = 0;
        // SAFETY: the pointer is to a local.
        checked(py, unsafe { truecount_count(self.slot(), &raw mut count) })?;
        Ok(count)
    }

    /// Raises where reads are not right.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: has no requirements.
        checked(py, unsafe { truecount_check(self.slot()) })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: has no requirements.
        checked(py, unsafe { truecount_close(self.slot()) })
    }

    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        // SAFETY: has no requirements.
        self.text(py, unsafe { truecount_name(self.slot()) })
    }

    #[getter]
    fn unit(&self, py: Python<'_>) -> PyResult<String> {
        // SAFETY: has no requirements.
        self.text(py, unsafe { truecount_unit(self.slot()) })
    }

    #[getter]
    fn source(&self, py: Python<'_>) -> PyResult<String> {
        // SAFETY: has no requirements.
        self.text(py, unsafe { truecount_source(self.slot()) })
    }

    #[getter]
    fn exact(&self) -> bool {
        // SAFETY: has no requirements.
        unsafe { truecount_is_exact(self.slot()) != 0 }
    }

    #[getter]
    fn overhead(&self) -> u64 {
        self.overhead.load(Ordering::Relaxed)
    }

    #[setter(_overhead)]
    fn set_overhead(&self, count: u64) {
        self.overhead.store(count, Ordering::Relaxed);
    }

    #[setter(_call_overhead)]
    fn set_call_overhead(&self, count: u64) {
        self.call_overhead.store(count, Ordering::Relaxed);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // Closed already, or another thread's: that closes it at its end.
        // SAFETY: has no requirements.
        unsafe { truecount_close(self.slot()) };
    }
}

/// Records nested regions of all threads into region profiles.
#[pyclass(frozen, module = "truecount")]
struct Recorder {
    handle: usize,
}

impl Recorder {
    fn slot(&self) -> *const Slot {
        ptr::without_provenance(self.handle)
    }
}

#[pymethods]
impl Recorder {
    #[new]
    fn new(py: Python<'_>, path: &str, events: &str) -> PyResult<Self> {
        let (path, events) = (c_string(path)?, c_string(events)?);
        let mut handle = ptr::null();
        // SAFETY: two strings, and a place for the handle.
        checked(py, unsafe {
            truecount_recorder_open(path.as_ptr(), events.as_ptr(), &raw mut handle)
        })?;
        Ok(Self {
            handle: handle as usize,
        })
    }

    fn begin(&self, py: Python<'_>, label: &str) -> PyResult<()> {
        let label = c_string(label)?;
        // SAFETY: a string; the handle is compared before it is used.
        checked(py, unsafe {
            truecount_region_begin(self.slot(), label.as_ptr())
        })
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: has no requirements.
        checked(py, unsafe { truecount_region_end(self.slot()) })
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: has no requirements.
        checked(py, unsafe { truecount_recorder_flush(self.slot()) })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: has no requirements.
        checked(py, unsafe { truecount_recorder_close(self.slot()) })
    }
}

/// Why instructions cannot be counted here; None where they can.
#[pyfunction]
fn why_not() -> Option<String> {
    if truecount_available() != 0 {
        return None;
    }
    // SAFETY: the library gives strings that are valid until the next failure of this thread.
    let (cause, hint) = unsafe {
        (
            CStr::from_ptr(truecount_error_message()),
            CStr::from_ptr(truecount_error_hint()),
        )
    };
    Some(format!(
        "{}; {}",
        cause.to_string_lossy(),
        hint.to_string_lossy()
    ))
}

/// A loop of a known number of instructions, which it gives.
#[pyfunction]
fn known_loop(iterations: u64) -> u64 {
    truecount_known_loop(iterations)
}

/// Runs a program under the virtual PMU, with addresses held constant, and with `reproducible` clocks and random bytes,
/// too; `per_block`: it may count more than instructions. Gives its exit status (negative: the signal).
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[pyfunction]
fn run_virtual(
    py: Python<'_>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    reproducible: bool,
    per_block: bool,
) -> PyResult<i32> {
    use std::os::unix::process::ExitStatusExt as _;
    use truecount_engine::virt::{Options, run_held_constant_with};
    let Some((program, arguments)) = arguments.split_first() else {
        return Err(pyo3::exceptions::PyValueError::new_err("no program to run"));
    };
    let mut command = std::process::Command::new(program);
    command.args(arguments).envs(environment);
    let options = Options::default()
        .own_clock(reproducible)
        .own_random(reproducible)
        .own_getrandom(reproducible)
        .per_block(per_block);
    let outcome = py.detach(|| run_held_constant_with(&mut command, options));
    let outcome = outcome.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    let status = outcome.status;
    Ok(status
        .code()
        .unwrap_or_else(|| -status.signal().unwrap_or(1)))
}

/// The same function where there is no engine: it says so.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
#[pyfunction]
#[expect(unused_variables, reason = "the names are the function's interface")]
fn run_virtual(
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    reproducible: bool,
    per_block: bool,
) -> PyResult<i32> {
    Err(PyRuntimeError::new_err(
        "the virtual PMU needs x86-64 Linux; on this machine counters need a PMU",
    ))
}

#[pymodule]
fn _truecount(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Counter>()?;
    module.add_class::<Recorder>()?;
    module.add_function(wrap_pyfunction!(why_not, module)?)?;
    module.add_function(wrap_pyfunction!(known_loop, module)?)?;
    module.add_function(wrap_pyfunction!(run_virtual, module)?)?;
    Ok(())
}
