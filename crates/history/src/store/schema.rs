//! The tables, as migrations: each takes a store from one version to the next, in one transaction.

use super::sql::Database;
use crate::error::{Error, unavailable};

/// `{id}` is the database's primary key that counts up.
const MIGRATIONS: &[&str] = &["
CREATE TABLE record (
    id {id},
    digest TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL,
    time BIGINT NOT NULL,
    taken BIGINT NOT NULL,
    branch TEXT NOT NULL,
    suite TEXT NOT NULL,
    subject TEXT NOT NULL,
    parents TEXT NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX record_hash ON record (hash);
CREATE TABLE series (
    id {id},
    suite TEXT NOT NULL,
    benchmark TEXT NOT NULL,
    parameters TEXT NOT NULL,
    metric TEXT NOT NULL,
    source TEXT NOT NULL,
    machine TEXT NOT NULL,
    unit TEXT NOT NULL,
    worse TEXT NOT NULL,
    UNIQUE (suite, benchmark, parameters, metric, source, machine)
);
CREATE TABLE point (
    series BIGINT NOT NULL REFERENCES series (id),
    record BIGINT NOT NULL REFERENCES record (id),
    value DOUBLE PRECISION NOT NULL,
    low DOUBLE PRECISION NOT NULL,
    high DOUBLE PRECISION NOT NULL,
    samples BIGINT NOT NULL,
    exact BIGINT NOT NULL,
    PRIMARY KEY (record, series)
);
CREATE TABLE blessing (
    id {id},
    hash TEXT NOT NULL,
    benchmark TEXT NOT NULL,
    metric TEXT NOT NULL,
    reason TEXT NOT NULL,
    time BIGINT NOT NULL
);
"];

/// Brings a store to today's version.
pub(super) fn migrate(database: &mut dyn Database) -> Result<(), Error> {
    let today = MIGRATIONS.len() as i64;
    if database.version()? == today {
        return Ok(());
    }
    database.begin()?;
    match step(database, today) {
        Ok(()) => database.commit(),
        Err(error) => {
            let _ = database.rollback();
            Err(error)
        }
    }
}

fn step(database: &mut dyn Database, today: i64) -> Result<(), Error> {
    // Another process may have done it while this one waited.
    let has = database.version()?;
    if has > today || has < 0 {
        let cause =
            format!("the store has version {has} of the tables, this truecount knows {today}");
        return Err(unavailable(cause).hint("use a newer truecount"));
    }
    let id = database.id();
    for migration in MIGRATIONS.iter().skip(usize::try_from(has).unwrap_or(0)) {
        database.batch(&migration.replace("{id}", id))?;
    }
    database.set_version(today)
}
