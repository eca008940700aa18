//! Running statements and reading cells. Nothing that is read is trusted: a value that the product cannot have written is
//! [`StoreError::Corrupt`], with its place.

use std::ops::ControlFlow;

use runtime_core::{Invalid, StoreError, TimestampMs, limits::SAFE_INTEGER_MAX};
use rusqlite::{Connection, Params, Row, types::ValueRef};

use crate::error::store_error;

/// Where a row comes from: the table and the columns that name a row in an error.
pub(crate) struct Table {
    pub name: &'static str,
    pub key: &'static [&'static str],
}

/// A row that is being read.
pub(crate) struct Cells<'r> {
    row: &'r Row<'r>,
    table: &'static Table,
}

impl<'r> Cells<'r> {
    /// The same row of a join, as a row of another of its tables.
    pub fn of(&self, table: &'static Table) -> Cells<'r> {
        Cells { row: self.row, table }
    }

    pub fn corrupt(&self, column: &'static str) -> StoreError {
        let key = self.table.key.iter().map(|column| match self.row.get_ref(*column) {
            Ok(ValueRef::Text(text) | ValueRef::Blob(text)) => String::from_utf8_lossy(text).into_owned(),
            Ok(ValueRef::Integer(number)) => number.to_string(),
            _ => "?".to_owned(),
        });
        StoreError::corrupt(self.table.name, column, key.collect::<Vec<_>>().join("/"))
    }

    fn cell(&self, column: &'static str) -> Result<ValueRef<'r>, StoreError> {
        self.row.get_ref(column).map_err(|_| self.corrupt(column))
    }

    fn integer(&self, column: &'static str, min: i64, max: i64) -> Result<Option<i64>, StoreError> {
        match self.cell(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) if (min..=max).contains(&value) => Ok(Some(value)),
            _ => Err(self.corrupt(column)),
        }
    }

    fn present<T>(&self, column: &'static str, value: Option<T>) -> Result<T, StoreError> {
        value.ok_or_else(|| self.corrupt(column))
    }

    pub fn opt_time(&self, column: &'static str) -> Result<Option<TimestampMs>, StoreError> {
        Ok(self.integer(column, 0, SAFE_INTEGER_MAX)?.map(TimestampMs::clamped))
    }

    pub fn time(&self, column: &'static str) -> Result<TimestampMs, StoreError> {
        self.present(column, self.opt_time(column)?)
    }

    pub fn opt_u64(&self, column: &'static str) -> Result<Option<u64>, StoreError> {
        Ok(self.integer(column, 0, SAFE_INTEGER_MAX)?.and_then(|value| u64::try_from(value).ok()))
    }

    pub fn u64(&self, column: &'static str) -> Result<u64, StoreError> {
        self.present(column, self.opt_u64(column)?)
    }

    pub fn opt_u32(&self, column: &'static str) -> Result<Option<u32>, StoreError> {
        Ok(self.integer(column, 0, i64::from(u32::MAX))?.and_then(|value| u32::try_from(value).ok()))
    }

    pub fn u32(&self, column: &'static str) -> Result<u32, StoreError> {
        self.present(column, self.opt_u32(column)?)
    }

    pub fn opt_i32(&self, column: &'static str) -> Result<Option<i32>, StoreError> {
        Ok(self.integer(column, i64::from(i32::MIN), i64::from(i32::MAX))?.and_then(|value| i32::try_from(value).ok()))
    }

    pub fn i32(&self, column: &'static str) -> Result<i32, StoreError> {
        self.present(column, self.opt_i32(column)?)
    }

    pub fn flag(&self, column: &'static str) -> Result<bool, StoreError> {
        Ok(self.present(column, self.integer(column, 0, 1)?)? == 1)
    }

    pub fn opt_text(&self, column: &'static str) -> Result<Option<String>, StoreError> {
        match self.cell(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(text) => std::str::from_utf8(text).map(|text| Some(text.to_owned())).map_err(|_| self.corrupt(column)),
            _ => Err(self.corrupt(column)),
        }
    }

    pub fn text(&self, column: &'static str) -> Result<String, StoreError> {
        self.present(column, self.opt_text(column)?)
    }

    pub fn opt_parse<T>(&self, column: &'static str, parse: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<Option<T>, StoreError> {
        match self.opt_text(column)? {
            None => Ok(None),
            Some(text) => parse(&text).map(Some).map_err(|_| self.corrupt(column)),
        }
    }

    pub fn parse<T>(&self, column: &'static str, parse: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<T, StoreError> {
        self.present(column, self.opt_parse(column, parse)?)
    }
}

/// Changes rows; answers how many.
pub(crate) fn execute(conn: &Connection, sql: &str, params: impl Params) -> Result<usize, StoreError> {
    conn.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(store_error)
}

/// Changes the row of a compare-and-set: true if it was there as expected.
pub(crate) fn compare_and_set(
    conn: &Connection,
    table: &'static Table,
    key: &str,
    sql: &str,
    params: impl Params,
) -> Result<bool, StoreError> {
    match execute(conn, sql, params)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(StoreError::corrupt(table.name, "*", key)),
    }
}

/// Visits rows until `visit` breaks off.
pub(crate) fn each(
    conn: &Connection,
    table: &'static Table,
    sql: &str,
    params: impl Params,
    mut visit: impl FnMut(&Cells<'_>) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        if visit(&Cells { row, table })?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Reads all rows.
pub(crate) fn all<T>(
    conn: &Connection,
    table: &'static Table,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Cells<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut out = Vec::new();
    each(conn, table, sql, params, |cells| {
        out.push(read(cells)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(out)
}

/// Reads at most one row; a second one is corruption.
pub(crate) fn one<T>(
    conn: &Connection,
    table: &'static Table,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Cells<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut found = None;
    each(conn, table, sql, params, |cells| {
        if found.is_some() {
            return Err(cells.corrupt("*"));
        }
        found = Some(read(cells)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// An integer as it is bound. What does not fit is refused by the column's CHECK.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
