//! The machine in which event names are looked up: its sysfs, the event tables of its CPU, and a vendor's own files
//! (`--event-dir`). The tables are decoded only when nothing else knows a name.

use std::path::Path;
use std::sync::Arc;

use truecount_events::Machine;
use truecount_events::tables::{ModelCatalogue, Tables, with_tables};

use crate::error::{Error, ErrorKind};

/// This machine with all names that can be counted on it.
///
/// # Errors
/// The directory of `--event-dir` cannot be used, or does not describe this CPU.
pub fn this(event_dir: Option<&Path>) -> Result<Machine, Error> {
    let machine = Machine::this();
    let Some(dir) = event_dir else {
        return Ok(with_tables(machine));
    };
    let tables = read_event_dir(dir)?;
    // A directory with the events of one CPU means that CPU.
    let name = {
        let mut models = tables.models();
        let only = models.next().filter(|_| models.next().is_none());
        let own = machine.cpu().and_then(|cpu| tables.model_of(cpu));
        own.or(only).map(|model| model.name().to_owned())
    };
    let tables = Arc::new(tables);
    match name.and_then(|name| ModelCatalogue::of(tables, &name)) {
        Some(catalogue) => Ok(with_tables(machine.with_catalogue(catalogue))),
        None => Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "--event-dir: {}: none of its models is this CPU",
                dir.display()
            ),
        )
        .hint("give the directory of this CPU's model")),
    }
}

/// Reads a vendor's files.
///
/// # Errors
/// Status 1 with the file and the cause.
pub fn read_event_dir(dir: &Path) -> Result<Tables, Error> {
    Tables::from_dir(dir).map_err(|error| {
        Error::new(ErrorKind::Unavailable, format!("--event-dir: {error}"))
            .hint("give a directory of Intel's perfmon or of Linux' tools/perf/pmu-events/arch")
    })
}
