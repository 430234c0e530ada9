//! The index of records: in a file by SQLite, or shared by PostgreSQL. Both have the same tables and speak the same SQL;
//! what differs is in their modules. The records themselves are in it as documents: an index can be made anew of them.

mod postgres;
mod schema;
mod series;
mod sql;
mod sqlite;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::error::{Error, unavailable, usage};
use crate::record::{Commit, Record};
pub use series::{Key, Point, Series};
use series::{Reading, Row, points};
use sql::{Database, Value, integer, real, text};

/// A store of records.
pub struct Store {
    database: Box<dyn Database>,
}

/// What became of a record that was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Its name: a hash of its text.
    pub digest: String,
    /// It was not there before.
    pub new: bool,
    /// How many points it has.
    pub points: usize,
}

/// A change that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blessing {
    /// The commit that made it.
    pub commit: String,
    /// The benchmark it is for; empty: all.
    pub benchmark: String,
    /// The metric it is for; empty: all.
    pub metric: String,
    /// Why.
    pub reason: String,
    /// When, in seconds since 1970.
    pub time: i64,
}

impl Blessing {
    /// Whether it is for this metric of this benchmark.
    #[must_use]
    pub fn covers(&self, benchmark: &str, metric: &str) -> bool {
        let plain = metric.split(':').next();
        (self.benchmark.is_empty() || self.benchmark == benchmark)
            && (self.metric.is_empty()
                || self.metric == metric
                || plain == Some(self.metric.as_str()))
    }
}

impl Store {
    /// Opens a store: a file, or `postgres://…`. Where there is none it is made, if it may be.
    ///
    /// # Errors
    /// It does not exist, cannot be opened, or is something else.
    pub fn open(target: &str, create: bool) -> Result<Self, Error> {
        if let Some((kind, _)) = target.split_once("://")
            && !["postgres", "postgresql"].contains(&kind)
        {
            let cause = format!("--store {kind}://…: it is no kind of store that is known");
            return Err(usage(cause).hint("it is a file, or postgres://USER@HOST/DATABASE"));
        }
        let mut database: Box<dyn Database> =
            if target.starts_with("postgres://") || target.starts_with("postgresql://") {
                Box::new(postgres::Postgres::open(target)?)
            } else {
                Box::new(sqlite::Sqlite::open(Path::new(target), create)?)
            };
        schema::migrate(database.as_mut())?;
        Ok(Self { database })
    }

    /// Adds a record, whole or not at all. One that is there already changes nothing.
    ///
    /// # Errors
    /// What is wrong with it, or the database's.
    pub fn add(&mut self, record: &Record) -> Result<Added, Error> {
        record.check()?;
        let document = record.text()?;
        let digest = Record::digest(&document);
        let points = points(record);
        self.database.begin()?;
        match self.insert(record, &document, &digest, &points) {
            Ok(new) => {
                self.database.commit()?;
                Ok(Added {
                    digest,
                    new,
                    points: points.len(),
                })
            }
            Err(error) => {
                // The first error is the one to tell.
                let _ = self.database.rollback();
                Err(error)
            }
        }
    }

    fn insert(
        &mut self,
        record: &Record,
        document: &str,
        digest: &str,
        points: &BTreeMap<Key, Row>,
    ) -> Result<bool, Error> {
        let commit = &record.commit;
        let found = self.database.query(
            "INSERT INTO record (digest, hash, time, taken, branch, suite, subject, parents, document) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (digest) DO NOTHING RETURNING id",
            &[
                text(digest),
                text(&commit.hash),
                integer(commit.time),
                integer(record.taken),
                text(commit.branch.as_deref().unwrap_or_default()),
                text(&record.suite),
                text(&commit.subject),
                text(&commit.parents.join(" ")),
                text(document),
            ],
        )?;
        let Some(id) = found
            .first()
            .and_then(|row| row.first())
            .map(Value::integer)
        else {
            return Ok(false);
        };
        // In the order of the keys, the same for every writer: they wait for each other in turn, never in a circle.
        for (key, row) in points {
            let series = self.series_id(key, row)?;
            self.database.execute(
                "INSERT INTO point (series, record, value, low, high, samples, exact) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                &[
                    integer(series),
                    integer(id),
                    real(row.value),
                    real(row.low),
                    real(row.high),
                    integer(row.samples),
                    integer(i64::from(row.exact)),
                ],
            )?;
        }
        Ok(true)
    }

    fn series_id(&mut self, key: &Key, row: &Row) -> Result<i64, Error> {
        let keys = [
            text(&key.suite),
            text(&key.benchmark),
            text(&key.parameters),
            text(&key.metric),
            text(&key.source),
            text(&key.machine),
        ];
        let select = "SELECT id FROM series WHERE suite = $1 AND benchmark = $2 AND parameters = $3 \
                      AND metric = $4 AND source = $5 AND machine = $6";
        let id = |rows: Vec<Vec<Value>>| Some(rows.first()?.first()?.integer());
        if let Some(id) = id(self.database.query(select, &keys)?) {
            return Ok(id);
        }
        let mut all = keys.to_vec();
        all.extend([
            text(&row.unit),
            text(row.worse.as_deref().unwrap_or_default()),
        ]);
        let made = self.database.query(
            "INSERT INTO series (suite, benchmark, parameters, metric, source, machine, unit, worse) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING id",
            &all,
        )?;
        match id(made) {
            Some(id) => Ok(id),
            // Another writer was quicker.
            None => id(self.database.query(select, &keys)?)
                .ok_or_else(|| unavailable("the store lost a series: was it deleted meanwhile?")),
        }
    }

    /// The commits that have records, of one suite or of any.
    ///
    /// # Errors
    /// The database's.
    pub fn commits(&mut self, suite: Option<&str>) -> Result<BTreeSet<String>, Error> {
        let rows = match suite {
            Some(suite) => self.database.query(
                "SELECT DISTINCT hash FROM record WHERE suite = $1",
                &[text(suite)],
            )?,
            None => self
                .database
                .query("SELECT DISTINCT hash FROM record", &[])?,
        };
        Ok(rows
            .iter()
            .filter_map(|row| row.first())
            .map(Value::text)
            .collect())
    }

    /// What is known of every commit that has records, the oldest first.
    ///
    /// # Errors
    /// The database's.
    pub fn log(&mut self) -> Result<Vec<Commit>, Error> {
        let rows = self.database.query(
            "SELECT hash, MAX(time), MAX(branch), MAX(subject), MAX(parents) FROM record \
             GROUP BY hash ORDER BY MAX(time), MIN(id)",
            &[],
        )?;
        let commit = |row: &Vec<Value>| {
            let column = |index: usize| row.get(index).map(Value::text).unwrap_or_default();
            let parents = column(4);
            Commit {
                hash: column(0),
                time: row.get(1).map(Value::integer).unwrap_or_default(),
                branch: Some(column(2)).filter(|branch| !branch.is_empty()),
                subject: column(3),
                parents: parents.split_whitespace().map(str::to_owned).collect(),
            }
        };
        Ok(rows.iter().map(commit).collect())
    }

    /// The records of a commit, in the order in which they were measured.
    ///
    /// # Errors
    /// The database's, or a record in it that cannot be read.
    pub fn records(&mut self, commit: &str, suite: Option<&str>) -> Result<Vec<Record>, Error> {
        let rows = self.database.query(
            "SELECT document FROM record WHERE hash = $1 ORDER BY taken, id",
            &[text(commit)],
        )?;
        let records = rows.iter().filter_map(|row| row.first()).map(|document| {
            Record::parse(&document.text())
                .map_err(|error| unavailable(format!("a record of {commit} in the store: {error}")))
        });
        let records = records.collect::<Result<Vec<Record>, Error>>()?;
        Ok(match suite {
            Some(suite) => records.into_iter().filter(|r| r.suite == suite).collect(),
            None => records,
        })
    }

    /// A number that is another one after every change.
    ///
    /// # Errors
    /// The database's.
    pub fn state(&mut self) -> Result<i64, Error> {
        let rows = self.database.query(
            "SELECT (SELECT COALESCE(MAX(id), 0) FROM record), (SELECT COALESCE(MAX(id), 0) FROM blessing), \
             (SELECT COUNT(*) FROM blessing)",
            &[],
        )?;
        let all = rows.iter().flatten().map(Value::integer);
        Ok(all.fold(0, |state: i64, each| {
            state.wrapping_mul(1_000_003).wrapping_add(each)
        }))
    }

    /// Gives every record's name and document, in the order in which they came.
    ///
    /// # Errors
    /// The database's, or that of `each`.
    pub fn documents(
        &mut self,
        mut each: impl FnMut(&str, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut after = 0;
        loop {
            let rows = self.database.query(
                "SELECT id, digest, document FROM record WHERE id > $1 ORDER BY id LIMIT 100",
                &[integer(after)],
            )?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in &rows {
                if let [id, digest, document] = row.as_slice() {
                    after = id.integer();
                    each(&digest.text(), &document.text())?;
                }
            }
        }
    }

    /// Every series with its points, by the times of their commits.
    ///
    /// # Errors
    /// The database's.
    pub fn series(&mut self) -> Result<Vec<Series>, Error> {
        let mut read = self.begin_series("SELECT id, hash, time, taken FROM record")?;
        self.database.each(
            "SELECT series, record, value, low, high, samples, exact FROM point",
            &[],
            &mut |row| read.add(row),
        )?;
        Ok(read.finish())
    }

    /// As [`Store::series`], with the points of these commits only.
    ///
    /// # Errors
    /// The database's.
    pub fn series_of<'c>(
        &mut self,
        commits: impl IntoIterator<Item = &'c str>,
    ) -> Result<Vec<Series>, Error> {
        let mut read =
            self.begin_series("SELECT id, hash, time, taken FROM record WHERE id < 0")?;
        for commit in commits {
            let parameters = [text(commit)];
            let rows = self.database.query(
                "SELECT id, hash, time, taken FROM record WHERE hash = $1",
                &parameters,
            )?;
            for row in &rows {
                read.record(row);
                let id = row.first().map(Value::integer).unwrap_or_default();
                self.database.each(
                    "SELECT series, record, value, low, high, samples, exact FROM point WHERE record = $1",
                    &[integer(id)],
                    &mut |row| read.add(row),
                )?;
            }
        }
        Ok(read.finish())
    }

    fn begin_series(&mut self, records: &str) -> Result<Reading, Error> {
        let mut read = Reading::default();
        let rows = self.database.query(
            "SELECT id, suite, benchmark, parameters, metric, source, machine, unit, worse FROM series",
            &[],
        )?;
        for row in &rows {
            let column = |index: usize| row.get(index).map(Value::text).unwrap_or_default();
            let id = row.first().map(Value::integer).unwrap_or_default();
            let key = Key {
                suite: column(1),
                benchmark: column(2),
                parameters: column(3),
                metric: column(4),
                source: column(5),
                machine: column(6),
            };
            let series = Series {
                key,
                unit: column(7),
                worse: Some(column(8)).filter(|worse| !worse.is_empty()),
                points: Vec::new(),
            };
            read.series.insert(id, series);
        }
        for row in &self.database.query(records, &[])? {
            read.record(row);
        }
        Ok(read)
    }

    /// Accepts a change.
    ///
    /// # Errors
    /// The database's.
    pub fn bless(&mut self, blessing: &Blessing) -> Result<(), Error> {
        self.database.execute(
            "INSERT INTO blessing (hash, benchmark, metric, reason, time) VALUES ($1, $2, $3, $4, $5)",
            &[
                text(&blessing.commit),
                text(&blessing.benchmark),
                text(&blessing.metric),
                text(&blessing.reason),
                integer(blessing.time),
            ],
        )
    }

    /// Takes the acceptance of a change back; how many there were.
    ///
    /// # Errors
    /// The database's.
    pub fn unbless(&mut self, commit: &str) -> Result<usize, Error> {
        let rows = self.database.query(
            "DELETE FROM blessing WHERE hash = $1 RETURNING id",
            &[text(commit)],
        )?;
        Ok(rows.len())
    }

    /// Every change that was accepted.
    ///
    /// # Errors
    /// The database's.
    pub fn blessings(&mut self) -> Result<Vec<Blessing>, Error> {
        let rows = self.database.query(
            "SELECT hash, benchmark, metric, reason, time FROM blessing ORDER BY id",
            &[],
        )?;
        let blessing = |row: &Vec<Value>| {
            let column = |index: usize| row.get(index).map(Value::text).unwrap_or_default();
            Blessing {
                commit: column(0),
                benchmark: column(1),
                metric: column(2),
                reason: column(3),
                time: row.get(4).map(Value::integer).unwrap_or_default(),
            }
        };
        Ok(rows.iter().map(blessing).collect())
    }
}
