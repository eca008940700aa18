//! A second opinion that shares no code with the evaluator: real time is walked step by step, `croner` judges each wall time, and
//! what has been on the wall is remembered in a set.

use std::collections::{BTreeMap, HashSet};

use croner::{
    Cron,
    parser::{CronParser, Seconds},
};
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz};
use runtime_core::cron::Note;

pub struct Oracle {
    cron: Cron,
    wildcard: bool,
    zone: tz::TimeZone,
}

/// `croner`, told about the day rule of the dialect.
pub fn croner(expr: &str) -> Cron {
    let fields: Vec<_> = expr.split(' ').collect();
    let days = [fields[fields.len() - 3], fields[fields.len() - 1]];
    let and = days.iter().any(|field| field.starts_with('*'));
    CronParser::builder().seconds(Seconds::Optional).dom_and_dow(and).build().parse(expr).unwrap_or_else(|error| panic!("{expr}: {error}"))
}

impl Oracle {
    pub fn new(expr: &str, zone: &str) -> Self {
        let fields: Vec<_> = expr.split(' ').collect();
        let [minute, hour] = [fields[fields.len() - 5], fields[fields.len() - 4]];
        let wildcard = minute.starts_with('*') || hour.starts_with('*');
        Self { cron: croner(expr), wildcard, zone: tz::TimeZoneDatabase::bundled().get(zone).unwrap() }
    }

    /// The occurrences in `from .. to` (seconds), with their notes. Walls are remembered from `warm_up` seconds before.
    pub fn occurrences(&self, from: i64, to: i64, step: i64, warm_up: i64) -> BTreeMap<i64, Option<Note>> {
        let step_span = SignedDuration::from_secs(step);
        let mut found = BTreeMap::new();
        let mut seen: HashSet<DateTime> = HashSet::new();
        let mut highest: Option<DateTime> = None;
        let mut second = from - warm_up;
        while second < to {
            let wall = self.wall(second);
            let new = seen.insert(wall);
            let due = self.matches(wall) && (self.wildcard || new);
            if second >= from && due {
                found.insert(second, self.is_twice(wall).then_some(Note::Overlap));
            }
            if let Some(highest) = highest
                && !self.wildcard
                && second >= from
            {
                let mut skipped = highest + step_span;
                while skipped < wall {
                    if self.matches(skipped) {
                        found.insert(second, Some(Note::Gap));
                    }
                    skipped += step_span;
                }
            }
            highest = highest.max(Some(wall));
            second += step;
        }
        found
    }

    fn wall(&self, second: i64) -> DateTime {
        self.zone.to_datetime(Timestamp::from_second(second).unwrap())
    }

    fn matches(&self, wall: DateTime) -> bool {
        self.cron.is_time_matching(&wall).unwrap()
    }

    fn is_twice(&self, wall: DateTime) -> bool {
        matches!(self.zone.to_ambiguous_timestamp(wall).offset(), tz::AmbiguousOffset::Fold { .. })
    }
}
