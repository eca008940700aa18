//! An expression in a zone: which instants are occurrences.
//!
//! Real time is cut into segments at the zone's transitions. Within one, the wall is real time plus an offset. A wildcard job occurs
//! wherever a segment's wall matches. A fixed-time job looks at the *high water* of the wall, the highest second it has shown so far:
//! it stands still through a repeated hour, which therefore occurs once, and it jumps over a skipped hour, whose matches therefore
//! occur together at the first instant after it.

use jiff::Timestamp;

use super::{CronExpr, TimeZone, zone::Segment};
use crate::{Invalid, TimestampMs, limits::CRON_HORIZON_YEARS};

/// The horizon in civil seconds: whole leap-year-long years, so that 29 February of year 40 is inside, and a day for a zone's whims.
const HORIZON: i64 = (CRON_HORIZON_YEARS as i64 * 1461 / 4 + 1) * 86_400;
/// No zone is further from UTC than this; jiff's own bound is one second less.
const OFFSET_MAX: i64 = 26 * 3600;
/// Where `Schedule::new` looks for a first occurrence: the same for everyone, or equal definitions would not be equally valid.
const REFERENCE: i64 = 1_767_225_600; // 2026-01-01T00:00:00Z

/// When a trigger is due. Searches are bounded by 40 years and take microseconds.
#[derive(Clone, Debug)]
pub struct Schedule {
    expr: CronExpr,
    zone: TimeZone,
}

/// An occurrence as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The instant.
    pub at: TimestampMs,
    /// RFC 3339 in the schedule's zone.
    pub local: String,
    /// What is unusual about its wall time.
    pub note: Option<Note>,
}

/// What is unusual about an occurrence's wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It stands for a wall time that does not exist on that day.
    Gap,
    /// Its wall time comes twice.
    Overlap,
}

impl Schedule {
    /// Joins an expression and a zone.
    ///
    /// # Errors
    /// [`Invalid`] on the field `cron` if no date can match, or if every match falls into hours that the zone skips.
    pub fn new(expr: CronExpr, zone: TimeZone) -> Result<Self, Invalid> {
        if !expr.matcher.can_match() {
            let days: Vec<_> = expr.parts().map(|(field, text)| format!("{} `{text}`", field.name())).collect();
            let days = days[days.len() - 3..].join(", ");
            return Err(Invalid::new("cron", format!("never occurs: no date has {days}"))
                .hint("choose a day that one of the months has; `L` is the last day of each month"));
        }
        let schedule = Self { expr, zone };
        if schedule.walk(REFERENCE).next().is_none() {
            let (expr, zone) = (schedule.expr.as_str(), schedule.zone.as_str());
            return Err(Invalid::new("cron", format!("`{expr}` does not occur in {zone} within {CRON_HORIZON_YEARS} years"))
                .hint("its wall times are always skipped there; choose another hour, or name minute and hour without `*`"));
        }
        Ok(schedule)
    }

    /// The expression.
    pub fn expr(&self) -> &CronExpr {
        &self.expr
    }

    /// The zone.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The first occurrence strictly after `t`; `None` if there is none within 40 years or up to the year 9999.
    pub fn next_after(&self, t: TimestampMs) -> Option<TimestampMs> {
        self.walk(t.get().div_euclid(1000) + 1).next()
    }

    /// The first occurrence that is not before `t`.
    pub fn first_at_or_after(&self, t: TimestampMs) -> Option<TimestampMs> {
        self.walk(second_at_or_after(t)).next()
    }

    /// The last occurrence that is not after `t`, found backwards; `None` if there is none within 40 years or since 1970.
    pub fn latest_at_or_before(&self, t: TimestampMs) -> Option<TimestampMs> {
        let second = t.get().div_euclid(1000).min(last_second());
        let found = if self.expr.is_wildcard() { self.latest_shown(second) } else { self.latest_reached(second) };
        found.and_then(timestamp)
    }

    /// Whether `t` is an occurrence.
    pub fn matches(&self, t: TimestampMs) -> bool {
        let second = t.get().div_euclid(1000);
        if t.get() % 1000 != 0 || second > last_second() {
            return false;
        }
        let (from, to) = self.shown_first_at(second);
        self.expr.matcher.first_from(from, to).is_some()
    }

    /// How people read the occurrence `at`.
    pub fn occurrence(&self, at: TimestampMs) -> Occurrence {
        let Ok(instant) = Timestamp::from_millisecond(at.get()) else {
            // Past the year 9999 there is no calendar, and no occurrence either.
            return Occurrence { at, local: at.to_string(), note: None };
        };
        Occurrence { at, local: self.zone.local(instant), note: self.note(instant.as_second()) }
    }

    /// What lies in `from .. to`: the first occurrence, how many there are (counted up to `cap`), and whether there are more.
    pub fn count_between(&self, from: TimestampMs, to_exclusive: TimestampMs, cap: u32) -> (Option<TimestampMs>, u32, bool) {
        let mut first = None;
        let mut count = 0;
        for at in self.walk(second_at_or_after(from)).take_while(|at| *at < to_exclusive) {
            first = first.or(Some(at));
            if count == cap {
                return (first, count, true);
            }
            count += 1;
        }
        (first, count, false)
    }

    /// All occurrences from a second of real time on, each within the horizon from the one before.
    fn walk(&self, from: i64) -> Walk<'_> {
        let segment = self.zone.segment_from(from);
        let floor = if self.expr.is_wildcard() { from + segment.offset } else { self.high_water(from - 1) + 1 };
        Walk { schedule: self, segment, floor }
    }

    /// The highest second that the wall has shown up to and including `second`.
    fn high_water(&self, second: i64) -> i64 {
        // What was shown longer ago than two offsets can differ is below any wall since.
        let mut segment = self.zone.segment_from(second - 2 * OFFSET_MAX);
        let mut high = i64::MIN;
        loop {
            high = high.max(second.min(segment.end - 1) + segment.offset);
            if segment.end > second {
                return high;
            }
            segment = self.zone.segment_from(segment.end);
        }
    }

    /// The wall seconds, as an inclusive range that may be empty, whose matches occur at `second`.
    fn shown_first_at(&self, second: i64) -> (i64, i64) {
        if self.expr.is_wildcard() {
            let wall = second + self.zone.segment_from(second).offset;
            (wall, wall)
        } else {
            (self.high_water(second - 1) + 1, self.high_water(second))
        }
    }

    /// The last second up to `second` whose wall matches.
    fn latest_shown(&self, second: i64) -> Option<i64> {
        let mut segment = self.zone.segment_until(second);
        let mut ceiling = second + segment.offset;
        let limit = ceiling - HORIZON;
        let mut wall = self.expr.matcher.last_until(ceiling, limit)?;
        while wall - segment.offset < segment.start {
            segment = self.zone.segment_until(segment.start - 1);
            let end = segment.end - 1 + segment.offset;
            // The match found stays the last one unless this segment ends before it, or after all that was searched.
            if !(wall..=ceiling).contains(&end) {
                wall = self.expr.matcher.last_until(end, limit)?;
            }
            ceiling = end;
        }
        Some(wall - segment.offset)
    }

    /// The last second up to `second` at which the high water reached a match.
    fn latest_reached(&self, second: i64) -> Option<i64> {
        let high = self.high_water(second);
        let wall = self.expr.matcher.last_until(high, high - HORIZON)?;
        // The wall cannot have shown it earlier than at the largest offset.
        let mut segment = self.zone.segment_from(wall - OFFSET_MAX);
        loop {
            let at = (wall - segment.offset).max(segment.start);
            if at < segment.end {
                return Some(at);
            }
            segment = self.zone.segment_from(segment.end);
        }
    }

    fn note(&self, second: i64) -> Option<Note> {
        let wall = second + self.zone.segment_from(second).offset;
        if !self.expr.is_wildcard() && self.expr.matcher.first_from(self.high_water(second - 1) + 1, wall - 1).is_some() {
            return Some(Note::Gap);
        }
        let mut shown = 0;
        let mut segment = self.zone.segment_from(wall - OFFSET_MAX);
        loop {
            shown += i32::from((segment.start..segment.end).contains(&(wall - segment.offset)));
            if segment.end > wall + OFFSET_MAX {
                return (shown > 1).then_some(Note::Overlap);
            }
            segment = self.zone.segment_from(segment.end);
        }
    }
}

/// Occurrences in order, one segment after the other.
struct Walk<'a> {
    schedule: &'a Schedule,
    segment: Segment,
    /// The first wall second whose match has not been given out.
    floor: i64,
}

impl Iterator for Walk<'_> {
    type Item = TimestampMs;

    fn next(&mut self) -> Option<TimestampMs> {
        let expr = &self.schedule.expr;
        let limit = self.floor + HORIZON;
        let mut wall = expr.matcher.first_from(self.floor, limit)?;
        loop {
            // A wildcard's floor is never below the segment, so only a fixed time in a gap is moved, to the gap's end.
            let at = (wall - self.segment.offset).max(self.segment.start);
            if at < self.segment.end {
                self.floor = at + self.segment.offset + 1;
                return timestamp(at);
            }
            self.segment = self.schedule.zone.segment_from(self.segment.end);
            if expr.is_wildcard() {
                let floor = self.segment.start + self.segment.offset;
                // The match found stays the first one unless this segment begins after it, or before all that was searched.
                if !(self.floor..=wall).contains(&floor) {
                    wall = expr.matcher.first_from(floor, limit)?;
                }
                self.floor = floor;
            }
        }
    }
}

/// The first whole second that is not before `t`.
fn second_at_or_after(t: TimestampMs) -> i64 {
    t.get().div_euclid(1000) + i64::from(t.get() % 1000 != 0)
}

/// The last second whose wall is inside the calendar in every zone; there are no occurrences after it, in the last days of 9999.
fn last_second() -> i64 {
    Timestamp::MAX.as_second() - OFFSET_MAX
}

/// An instant that can be stored and shown.
fn timestamp(second: i64) -> Option<TimestampMs> {
    (0..=last_second()).contains(&second).then(|| TimestampMs::clamped(second * 1000))
}
