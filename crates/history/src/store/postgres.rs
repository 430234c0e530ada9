//! A store that is shared, by PostgreSQL.

use std::error::Error as _;

use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use postgres::{Client, NoTls, Row};

use super::sql::{Database, Value};
use crate::error::{Error, unavailable};

pub(super) struct Postgres {
    client: Client,
}

/// Two writers that wait for each other's migration must not both make it ("tcHi").
const LOCK: i64 = 0x7463_4869;

impl Postgres {
    pub(super) fn open(url: &str) -> Result<Self, Error> {
        let client = Client::connect(url, NoTls).map_err(|error| {
            // Never the address: a password may be in it.
            unavailable(format!(
                "cannot open the store in PostgreSQL: {}",
                told(&error)
            ))
            .hint("postgres://USER@HOST/DATABASE; without TLS: over a network use a tunnel")
        })?;
        Ok(Self { client })
    }
}

/// What the server says, in one line.
fn told(error: &postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().replace('\n', " ");
    }
    let cause = error.source().map(ToString::to_string);
    let text = match cause {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    text.replace('\n', " ")
}

// By value, as `map_err` gives it.
#[allow(clippy::needless_pass_by_value)]
fn wrong(error: postgres::Error) -> Error {
    unavailable(format!("the store in PostgreSQL: {}", told(&error)))
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(value) => value.to_sql(kind, out),
            Self::Real(value) => value.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::FLOAT8, Type::TEXT].contains(kind)
    }

    to_sql_checked!();
}

fn cells(row: &Row) -> Result<Vec<Value>, Error> {
    let cell = |index: usize, kind: &Type| {
        Ok(match *kind {
            Type::INT8 => row
                .try_get::<_, Option<i64>>(index)?
                .map_or(Value::Null, Value::Integer),
            Type::FLOAT8 => row
                .try_get::<_, Option<f64>>(index)?
                .map_or(Value::Null, Value::Real),
            _ => row
                .try_get::<_, Option<String>>(index)?
                .map_or(Value::Null, Value::Text),
        })
    };
    let columns = row.columns().iter().enumerate();
    columns
        .map(|(index, column)| cell(index, column.type_()))
        .collect::<Result<Vec<Value>, postgres::Error>>()
        .map_err(wrong)
}

fn all(parameters: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    parameters
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect()
}

/// Looks into the catalogue's tables: `to_regclass` may still know from before the lock that there are none.
const TABLES_ARE_THERE: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relname = 'truecount_store' AND n.nspname = ANY (current_schemas(false)))";

impl Database for Postgres {
    fn id(&self) -> &'static str {
        "BIGSERIAL PRIMARY KEY"
    }

    fn version(&mut self) -> Result<i64, Error> {
        // Only one process at a time looks and migrates; the lock goes with the transaction or the connection.
        self.client
            .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
            .map_err(wrong)?;
        let there = self
            .client
            .query_one(TABLES_ARE_THERE, &[])
            .and_then(|row| row.try_get::<_, bool>(0))
            .map_err(wrong)?;
        if !there {
            return Ok(0);
        }
        self.client
            .query_one("SELECT MAX(version) FROM truecount_store", &[])
            .and_then(|row| row.try_get::<_, Option<i64>>(0))
            .map(Option::unwrap_or_default)
            .map_err(wrong)
    }

    fn set_version(&mut self, version: i64) -> Result<(), Error> {
        self.batch("CREATE TABLE IF NOT EXISTS truecount_store (version BIGINT NOT NULL)")?;
        self.execute(
            "INSERT INTO truecount_store (version) VALUES ($1)",
            &[Value::Integer(version)],
        )
    }

    fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).map_err(wrong)
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.batch("BEGIN")
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.batch("COMMIT")
    }

    fn rollback(&mut self) -> Result<(), Error> {
        self.batch("ROLLBACK")
    }

    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<(), Error> {
        self.client
            .execute(sql, &all(parameters))
            .map(|_| ())
            .map_err(wrong)
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, Error> {
        let rows = self.client.query(sql, &all(parameters)).map_err(wrong)?;
        rows.iter().map(cells).collect()
    }

    fn each(
        &mut self,
        sql: &str,
        parameters: &[Value],
        each: &mut dyn FnMut(&[Value]),
    ) -> Result<(), Error> {
        let mut rows = self.client.query_raw(sql, all(parameters)).map_err(wrong)?;
        while let Some(row) = rows.next().map_err(wrong)? {
            each(&cells(&row)?);
        }
        Ok(())
    }
}
