//! The cron dialect from outside: handed vectors, retold bug reports, and a brute-force oracle on random input.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cases;
mod oracle;
mod properties;
mod vectors;

use runtime_core::{
    TimestampMs,
    cron::{CronExpr, Schedule, TimeZone},
};

#[track_caller]
fn schedule(expr: &str, zone: &str) -> Schedule {
    Schedule::new(CronExpr::parse(expr).unwrap(), TimeZone::parse(zone).unwrap()).unwrap()
}

#[track_caller]
fn at(text: &str) -> TimestampMs {
    TimestampMs::parse(text).unwrap()
}

/// The next occurrences strictly after `t`.
fn next(schedule: &Schedule, t: TimestampMs, count: usize) -> Vec<TimestampMs> {
    std::iter::successors(schedule.next_after(t), |t| schedule.next_after(*t)).take(count).collect()
}

#[track_caller]
fn assert_next(expr: &str, zone: &str, after: &str, expected: &[&str]) {
    let found: Vec<_> = next(&schedule(expr, zone), at(after), expected.len()).iter().map(ToString::to_string).collect();
    let expected: Vec<_> = expected.iter().map(|text| at(text).to_string()).collect();
    assert_eq!(found, expected, "`{expr}` in {zone} after {after}");
}
