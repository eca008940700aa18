//! Which times of a zoneless civil timeline match. A handful of integers, searched in both directions.
//!
//! A civil time is counted in seconds since 1970-01-01T00:00:00 *on the wall*, as if every day had 86,400 of them.

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::Offset,
};

use super::{
    expr::DayRule,
    field::{Field, Item},
};

const DAY: i64 = 86_400;

/// Bit n set = value n matches; bit 1 is the first day, bit 0 of weekdays is Sunday.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Matcher {
    seconds: u64,
    minutes: u64,
    hours: u64,
    /// Days of the month; `L` is bit 0, which no day uses, and `LW` is bit 32.
    days: u64,
    nearest_workdays: u32,
    months: u16,
    /// Seven bits for each of: every week, the first to fifth of the month, the last of the month.
    weekdays: [u8; 7],
    either_day: bool,
}

const LAST_DAY: u64 = 1;
const LAST_WORKDAY: u64 = 1 << 32;
const EVERY_WEEK: usize = 0;
const LAST_WEEK: usize = 6;
const ALL_DAYS: u64 = 0xffff_fffe;
const ALL_WEEKDAYS: u8 = 0x7f;

impl Matcher {
    /// The set of a field's items is added to what the field matches already.
    pub(super) fn add(&mut self, field: Field, item: Item) {
        match item {
            Item::LastDay => self.days |= LAST_DAY,
            Item::LastWorkday => self.days |= LAST_WORKDAY,
            Item::NearestWorkday(day) => self.nearest_workdays |= 1 << day,
            Item::Nth { weekday, nth } => self.weekdays[usize::from(nth)] |= 1 << weekday,
            Item::LastOf(weekday) => self.weekdays[LAST_WEEK] |= 1 << weekday,
            Item::One(value) => self.add_range(field, value, value, 1),
            Item::Range { from, to, step } => self.add_range(field, from, to, step),
            Item::Every { step } => self.add_range(field, field.min(), field.max(), step),
        }
    }

    fn add_range(&mut self, field: Field, from: u8, to: u8, step: u8) {
        for value in (from..=to).step_by(usize::from(step)) {
            match field {
                Field::Second => self.seconds |= 1 << value,
                Field::Minute => self.minutes |= 1 << value,
                Field::Hour => self.hours |= 1 << value,
                Field::DayOfMonth => self.days |= 1 << value,
                Field::Month => self.months |= 1 << value,
                // Sunday is folded only here, after the range has been walked.
                Field::DayOfWeek => self.weekdays[EVERY_WEEK] |= 1 << (value % 7),
            }
        }
    }

    /// Settles how the two day fields work together; `star` = one of them begins with `*`.
    pub(super) fn set_day_rule(&mut self, star: bool) -> DayRule {
        self.either_day = !star;
        match (star, self.days & ALL_DAYS == ALL_DAYS, self.weekdays[EVERY_WEEK] == ALL_WEEKDAYS) {
            (false, ..) => DayRule::Or,
            (true, true, true) => DayRule::Any,
            (true, true, false) => DayRule::DayOfWeek,
            (true, false, true) => DayRule::DayOfMonth,
            (true, false, false) => DayRule::And,
        }
    }

    /// The times of a day as `(hour, minute, second)`, if there are at most `cap`.
    pub(super) fn times_of_day(&self, cap: u32) -> Option<Vec<(u32, u32, u32)>> {
        let count = self.hours.count_ones() * self.minutes.count_ones() * self.seconds.count_ones();
        (count <= cap).then(|| {
            let bits = |set: u64| (0..60).filter(move |n| set & (1 << n) != 0);
            let seconds = |h, m| bits(self.seconds).map(move |s| (h, m, s));
            bits(self.hours).flat_map(|h| bits(self.minutes).flat_map(move |m| seconds(h, m))).collect()
        })
    }

    /// Whether any date matches at all. Every month begins on every weekday sooner or later, a leap February too, so that trying
    /// them all decides it. The rarest dates (29 February on one weekday) are never more than 40 years apart.
    pub(super) fn can_match(&self) -> bool {
        (1..=12).any(|month| {
            // 2000 was a leap year.
            let length = Date::new(2000, month, 1).map_or(31, Date::days_in_month);
            self.has_month(month) && (0..7).any(|first| self.days_of(length, first) != 0)
        })
    }

    /// The first matching civil time in `from ..= limit`.
    pub(super) fn first_from(&self, from: i64, limit: i64) -> Option<i64> {
        let midnight = from - from.rem_euclid(DAY);
        let date = civil(from)?.date();
        let today = 1_u64 << date.day();
        let mut days = self.days_in(date);
        if days & today != 0
            && let Some(time) = self.time_from(from - midnight)
        {
            return Some(midnight + time).filter(|found| *found <= limit);
        }
        days &= !(2 * today - 1);
        let mut first = date.first_of_month();
        loop {
            let start = seconds_of(first)?;
            if days != 0 {
                let found = start + (i64::from(days.trailing_zeros()) - 1) * DAY + self.time_from(0)?;
                return (found <= limit).then_some(found);
            }
            first = next_month(first)?;
            if start > limit {
                return None;
            }
            days = self.days_in(first);
        }
    }

    /// The last matching civil time in `limit ..= until`.
    pub(super) fn last_until(&self, until: i64, limit: i64) -> Option<i64> {
        let midnight = until - until.rem_euclid(DAY);
        let date = civil(until)?.date();
        let today = 1_u64 << date.day();
        let mut days = self.days_in(date);
        if days & today != 0
            && let Some(time) = self.time_until(until - midnight)
        {
            return Some(midnight + time).filter(|found| *found >= limit);
        }
        days &= today - 1;
        let mut first = date.first_of_month();
        loop {
            let start = seconds_of(first)?;
            if days != 0 {
                let found = start + (i64::from(days.ilog2()) - 1) * DAY + self.time_until(DAY - 1)?;
                return (found >= limit).then_some(found);
            }
            if start < limit {
                return None;
            }
            first = first.yesterday().ok()?.first_of_month();
            days = self.days_in(first);
        }
    }

    fn has_month(&self, month: i8) -> bool {
        self.months & (1 << month) != 0
    }

    /// The matching days of the month of `date`, bit n = day n.
    fn days_in(&self, date: Date) -> u64 {
        if !self.has_month(date.month()) {
            return 0;
        }
        self.days_of(date.days_in_month(), date.first_of_month().weekday().to_sunday_zero_offset())
    }

    /// The matching days of a month with `length` days whose first day is the weekday `first` (0 = Sunday).
    fn days_of(&self, length: i8, first: i8) -> u64 {
        let valid = (2_u64 << length) - 2;
        let by_date = self.by_date(length, first) & valid;
        let by_weekday = self.by_weekday(first, valid);
        if self.either_day { by_date | by_weekday } else { by_date & by_weekday }
    }

    fn by_date(&self, length: i8, first: i8) -> u64 {
        let weekday = |day: i8| (first + day - 1).rem_euclid(7);
        let mut days = self.days & ALL_DAYS;
        if self.days & LAST_DAY != 0 {
            days |= 1 << length;
        }
        if self.days & LAST_WORKDAY != 0 {
            let back = match weekday(length) {
                0 => 2,
                6 => 1,
                _ => 0,
            };
            days |= 1 << (length - back);
        }
        for day in (1..=length).filter(|day| self.nearest_workdays & (1 << day) != 0) {
            // Never into another month: the 1st moves on, the last day moves back.
            let nearest = match weekday(day) {
                6 if day == 1 => 3,
                6 => day - 1,
                0 if day == length => day - 2,
                0 => day + 1,
                _ => day,
            };
            days |= 1 << nearest;
        }
        days
    }

    fn by_weekday(&self, first: i8, valid: u64) -> u64 {
        /// Every seventh bit from bit 0 on.
        const WEEKLY: u64 = 0x1020_4081;
        let mut days = 0;
        for weekday in 0..7_i8 {
            let first_day = 1 + (weekday - first).rem_euclid(7);
            let all = (WEEKLY << first_day) & valid;
            for (week, weekdays) in self.weekdays.iter().enumerate() {
                if weekdays & (1 << weekday) == 0 {
                    continue;
                }
                days |= match week {
                    EVERY_WEEK => all,
                    LAST_WEEK => 1 << all.ilog2(),
                    nth => all & (1 << (usize::try_from(first_day).unwrap_or(0) + 7 * (nth - 1))),
                };
            }
        }
        days
    }

    /// The first matching time of a day at or after `from`, in seconds since midnight.
    fn time_from(&self, from: i64) -> Option<i64> {
        let (h, m, s) = (from / 3600, from / 60 % 60, from % 60);
        let at = |h: i64, m: i64, s: i64| h * 3600 + m * 60 + s;
        let (first_m, first_s) = (at_or_above(self.minutes, 0)?, at_or_above(self.seconds, 0)?);
        let hour = at_or_above(self.hours, h)?;
        if hour > h {
            return Some(at(hour, first_m, first_s));
        }
        match at_or_above(self.minutes, m) {
            Some(minute) if minute > m => return Some(at(h, minute, first_s)),
            Some(_) => {
                if let Some(second) = at_or_above(self.seconds, s) {
                    return Some(at(h, m, second));
                }
                if let Some(minute) = at_or_above(self.minutes, m + 1) {
                    return Some(at(h, minute, first_s));
                }
            }
            None => {}
        }
        Some(at(at_or_above(self.hours, h + 1)?, first_m, first_s))
    }

    /// The last matching time of a day at or before `until`, in seconds since midnight.
    fn time_until(&self, until: i64) -> Option<i64> {
        let (h, m, s) = (until / 3600, until / 60 % 60, until % 60);
        let at = |h: i64, m: i64, s: i64| h * 3600 + m * 60 + s;
        let (last_m, last_s) = (at_or_below(self.minutes, 59)?, at_or_below(self.seconds, 59)?);
        let hour = at_or_below(self.hours, h)?;
        if hour < h {
            return Some(at(hour, last_m, last_s));
        }
        match at_or_below(self.minutes, m) {
            Some(minute) if minute < m => return Some(at(h, minute, last_s)),
            Some(_) => {
                if let Some(second) = at_or_below(self.seconds, s) {
                    return Some(at(h, m, second));
                }
                if let Some(minute) = at_or_below(self.minutes, m - 1) {
                    return Some(at(h, minute, last_s));
                }
            }
            None => {}
        }
        Some(at(at_or_below(self.hours, h - 1)?, last_m, last_s))
    }
}

fn at_or_above(set: u64, n: i64) -> Option<i64> {
    let rest = set >> n;
    (rest != 0).then(|| n + i64::from(rest.trailing_zeros()))
}

fn at_or_below(set: u64, n: i64) -> Option<i64> {
    if n < 0 {
        return None;
    }
    (set & ((2 << n) - 1)).checked_ilog2().map(i64::from)
}

fn civil(seconds: i64) -> Option<DateTime> {
    Timestamp::from_second(seconds).ok().map(|at| Offset::UTC.to_datetime(at))
}

fn seconds_of(date: Date) -> Option<i64> {
    Offset::UTC.to_timestamp(date.to_datetime(jiff::civil::Time::midnight())).ok().map(Timestamp::as_second)
}

fn next_month(first: Date) -> Option<Date> {
    first.last_of_month().tomorrow().ok()
}
