//! What both databases have in common: values, and the few things that are done with SQL.

use crate::error::Error;

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

pub(super) fn text(value: &str) -> Value {
    // PostgreSQL's text has no NUL.
    Value::Text(value.replace('\0', "\u{fffd}"))
}

pub(super) fn integer(value: i64) -> Value {
    Value::Integer(value)
}

pub(super) fn real(value: f64) -> Value {
    Value::Real(value)
}

impl Value {
    pub(super) fn integer(&self) -> i64 {
        match self {
            Self::Integer(value) => *value,
            Self::Real(value) => *value as i64,
            Self::Null | Self::Text(_) => 0,
        }
    }

    pub(super) fn real(&self) -> f64 {
        match self {
            Self::Integer(value) => *value as f64,
            Self::Real(value) => *value,
            Self::Null | Self::Text(_) => f64::NAN,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(value) => value.to_string(),
            Self::Real(value) => value.to_string(),
            Self::Null => String::new(),
        }
    }
}

/// A database. Parameters are `$1`, `$2`, … in their order.
pub(super) trait Database: Send {
    /// What the primary key's column is called in `CREATE TABLE`.
    fn id(&self) -> &'static str;
    /// The version of the schema that it has; 0: none yet.
    fn version(&mut self) -> Result<i64, Error>;
    /// Notes the version.
    fn set_version(&mut self, version: i64) -> Result<(), Error>;
    /// Statements without parameters.
    fn batch(&mut self, sql: &str) -> Result<(), Error>;
    /// Begins a transaction; others that write wait.
    fn begin(&mut self) -> Result<(), Error>;
    /// Ends it: all of it is kept.
    fn commit(&mut self) -> Result<(), Error>;
    /// Ends it: nothing of it is kept.
    fn rollback(&mut self) -> Result<(), Error>;
    /// A statement without rows.
    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<(), Error>;
    /// The rows of a statement.
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, Error>;
    /// Row by row, without keeping them.
    fn each(
        &mut self,
        sql: &str,
        parameters: &[Value],
        row: &mut dyn FnMut(&[Value]),
    ) -> Result<(), Error>;
}
