//! A store in a file, by SQLite.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};

use super::sql::{Database, Value};
use crate::error::{Error, unavailable};

/// `application_id` of the file's header: "tcHi".
const APPLICATION: i64 = 0x7463_4869;

/// So long a writer waits for another.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Sqlite {
    connection: Connection,
    path: String,
}

impl Sqlite {
    pub(super) fn open(path: &Path, create: bool) -> Result<Self, Error> {
        let shown = path.display().to_string();
        if !path.exists() {
            if !create {
                let cause = format!("there is no store at {shown}");
                return Err(unavailable(cause)
                    .hint("truecount history add makes one; --store names another"));
            }
            if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
                std::fs::create_dir_all(directory).map_err(|error| {
                    unavailable(format!("cannot make {}: {error}", directory.display()))
                })?;
            }
        }
        if path.is_dir() {
            let cause = format!("{shown} is a directory, not a store");
            return Err(unavailable(cause).hint("name the file in it by --store"));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).map_err(|error| wrong(&shown, &error))?;
        let mut new = Self {
            connection,
            path: shown,
        };
        new.prepare()?;
        Ok(new)
    }

    /// Sees that it is a store, or empty, and sets how it is written.
    fn prepare(&mut self) -> Result<(), Error> {
        let told = |error| wrong(&self.path, &error);
        self.connection.busy_timeout(PATIENCE).map_err(told)?;
        self.connection.set_prepared_statement_cache_capacity(64);
        let pragma = |name: &str| -> Result<i64, Error> {
            self.connection
                .query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
                .map_err(told)
        };
        // In this order: who makes a store at this moment commits both at once.
        let tables = pragma("schema_version")?;
        let application = pragma("application_id")?;
        if application != APPLICATION && (application != 0 || tables != 0) {
            let cause = format!("{} is a database of something else", self.path);
            return Err(
                unavailable(cause).hint("name a store of truecount, or a new file, by --store")
            );
        }
        // Readers and one writer at once; what was committed survives a crash of the machine too.
        let settings =
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON";
        let begun = Instant::now();
        loop {
            // Of two who set the mode at once one is refused without waiting, by SQLite's rules for deadlocks.
            match self.connection.execute_batch(settings) {
                Err(error) if is_busy(&error) && begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                set => return set.map_err(told),
            }
        }
    }

    fn told(&self) -> impl Fn(rusqlite::Error) -> Error + use<'_> {
        |error| wrong(&self.path, &error)
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// One line for what SQLite says.
fn wrong(path: &str, error: &rusqlite::Error) -> Error {
    let code = error.sqlite_error_code();
    let (cause, hint) = match code {
        Some(ErrorCode::NotADatabase) => (
            format!("{path} is not a store of truecount (not a SQLite database)"),
            Some("name another file by --store"),
        ),
        Some(ErrorCode::DatabaseCorrupt) => (
            format!("the store {path} is damaged"),
            Some("restore it from a backup, or move it away and add its records again"),
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            format!("the store {path} is being written to by another process"),
            Some("try again when that has ended"),
        ),
        Some(ErrorCode::DiskFull) => (
            format!("cannot write the store {path}: no space is left"),
            Some("free space on that file system"),
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
            format!("cannot open the store {path}: {error}"),
            Some("it and its directory must be writable"),
        ),
        _ => (format!("the store {path}: {error}"), None),
    };
    let error = unavailable(cause);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

fn value(from: ValueRef<'_>) -> Value {
    match from {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Value::Text(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

impl Database for Sqlite {
    fn id(&self) -> &'static str {
        "INTEGER PRIMARY KEY"
    }

    fn version(&mut self) -> Result<i64, Error> {
        self.connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(self.told())
    }

    fn set_version(&mut self, version: i64) -> Result<(), Error> {
        self.batch(&format!(
            "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version}"
        ))
    }

    fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.connection.execute_batch(sql).map_err(self.told())
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.batch("BEGIN IMMEDIATE")
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.batch("COMMIT")
    }

    fn rollback(&mut self) -> Result<(), Error> {
        self.batch("ROLLBACK")
    }

    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<(), Error> {
        let told = self.told();
        let mut statement = self.connection.prepare_cached(sql).map_err(&told)?;
        statement
            .execute(params_from_iter(parameters))
            .map_err(&told)?;
        Ok(())
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, Error> {
        let told = self.told();
        let mut statement = self.connection.prepare_cached(sql).map_err(&told)?;
        let columns = statement.column_count();
        let mut rows = statement
            .query(params_from_iter(parameters))
            .map_err(&told)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(&told)? {
            let cells = (0..columns).map(|index| row.get_ref(index).map(value));
            all.push(
                cells
                    .collect::<rusqlite::Result<Vec<Value>>>()
                    .map_err(&told)?,
            );
        }
        Ok(all)
    }

    fn each(
        &mut self,
        sql: &str,
        parameters: &[Value],
        each: &mut dyn FnMut(&[Value]),
    ) -> Result<(), Error> {
        let told = self.told();
        let mut statement = self.connection.prepare_cached(sql).map_err(&told)?;
        let columns = statement.column_count();
        let mut rows = statement
            .query(params_from_iter(parameters))
            .map_err(&told)?;
        let mut cells = vec![Value::Null; columns];
        while let Some(row) = rows.next().map_err(&told)? {
            for (index, cell) in cells.iter_mut().enumerate() {
                *cell = row.get_ref(index).map(value).map_err(&told)?;
            }
            each(&cells);
        }
        Ok(())
    }
}
