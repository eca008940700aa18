//! Bug reports about other schedulers, retold as checks with the right value.

use runtime_core::{
    TimestampMs,
    cron::{CronExpr, DayRule, Note, Schedule, TimeZone},
};

use crate::{assert_next, at, next, schedule};

/// The weekdays (0 = Sunday) on which an expression occurs in one week that begins on a Sunday.
fn weekdays(field: &str) -> Vec<i64> {
    let sunday = at("2026-03-01T00:00:00Z");
    let schedule = schedule(&format!("0 12 * * {field}"), "UTC");
    let week = next(&schedule, sunday, 8);
    week.iter().map(|t| (t.get() - sunday.get()) / 86_400_000).take_while(|day| *day < 7).collect()
}

/// The hint of a refused expression or of a schedule that can never occur.
#[track_caller]
fn refused(expr: &str) -> String {
    let refusal = CronExpr::parse(expr).and_then(|expr| Schedule::new(expr, TimeZone::parse("UTC").unwrap())).unwrap_err();
    assert_eq!(refusal.field, "cron");
    format!("{}; {}", refusal.reason, refusal.hint.unwrap())
}

#[test]
fn c01_weekday_ranges_end_on_sunday() {
    assert_eq!(weekdays("FRI-SUN"), [0, 5, 6]);
    assert_eq!(weekdays("5-7"), [0, 5, 6]);
    assert_eq!(weekdays("SAT-SUN"), [0, 6]);
    assert_eq!(weekdays("MON-SUN"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(weekdays("0-7"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(weekdays("SUN-WED"), [0, 1, 2, 3]);
    assert_eq!(weekdays("7"), [0]);
    assert_eq!(weekdays("5-7/2"), [0, 5]);
    assert!(refused("0 0 * * 6-0").contains("`6-7`"));
}

#[test]
fn c02_steps_stay_inside_their_field() {
    for expr in ["*/0 * * * *", "*/00 * * * *", "5-5/0 * * * *", "*/-5 * * * *", "*/90 * * * *"] {
        assert!(refused(expr).contains("minute field, position"), "{expr}");
    }
    assert_next("*/60 * * * *", "UTC", "2026-01-01T00:10:00Z", &["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]);
}

#[test]
fn c03_the_preview_says_and_or_or() {
    for (expr, rule, word) in [("0 16 */2 * FRI", DayRule::And, " and "), ("0 16 1,2,3 * FRI", DayRule::Or, " or ")] {
        let expr = CronExpr::parse(expr).unwrap();
        assert_eq!(expr.day_rule(), rule);
        assert!(expr.describe().contains(word));
    }
}

#[test]
fn c05_field_count_is_in_the_text() {
    assert_next("7 7 * * *", "UTC", "2026-01-01T00:00:00Z", &["2026-01-01T07:07:00Z"]);
    assert!(refused("0/5 * * * * *").contains("`0-59/5`"));
    assert!(refused("0/5 * * * *").contains("`0-59/5`"));
    assert_next("*/20 7 7 * * *", "UTC", "2026-01-01T07:07:20Z", &["2026-01-01T07:07:40Z", "2026-01-02T07:07:00Z"]);
}

#[test]
fn c07_impossible_dates_are_refused_and_only_those() {
    for expr in ["0 0 31 4 *", "0 0 30 2 *", "0 0 31 4,6 *", "0 0 31W 2 *", "0 0 */31 2,4 0", "0 0 LW * */6", "0 0 */28 * */7"] {
        let verdict = CronExpr::parse(expr).and_then(|expr| Schedule::new(expr, TimeZone::parse("UTC").unwrap()));
        // Two of them do have dates: a first of the month may be a Sunday or a Monday.
        let possible = matches!(expr, "0 0 */31 2,4 0" | "0 0 */28 * */7");
        assert_eq!(verdict.is_ok(), possible, "{expr}");
    }
    assert!(refused("0 0 31 4 *").contains("never occurs: no date has day-of-month `31`, month `4`"));
    assert_next(
        "0 0 31 2,3,4,5 *",
        "UTC",
        "2018-07-27T00:00:00Z",
        &["2019-03-31T00:00:00Z", "2019-05-31T00:00:00Z", "2020-03-31T00:00:00Z"],
    );
    assert_next("0 2 29 2 0", "UTC", "2018-05-14T00:00:00Z", &["2019-02-03T02:00:00Z", "2019-02-10T02:00:00Z"]);
}

#[test]
fn c07_the_rarest_dates_are_inside_the_horizon() {
    // `*/28` is the 1st and the 29th, and only the 29th can be the fifth of its weekday: 29 February on one weekday.
    for weekday in 0..7 {
        let rare = schedule(&format!("0 0 */28 2 {weekday}#5"), "UTC");
        assert_eq!(next(&rare, TimestampMs::EPOCH, 200).len(), 200, "one was lost although the one before is not 40 years ago");
    }
    // 2100 is no leap year, which makes this the longest wait of all.
    let mondays = schedule("0 0 */28 2 1#5", "UTC");
    assert_eq!(mondays.next_after(at("2072-02-29T00:00:00Z")), Some(at("2112-02-29T00:00:00Z")));
    assert_eq!(mondays.latest_at_or_before(at("2112-02-28T23:59:59Z")), Some(at("2072-02-29T00:00:00Z")));
}

#[test]
fn c07_wall_times_that_a_zone_always_skips_are_refused() {
    // The hour from 02:00 of the last Sunday in March does not exist in Berlin. As a wildcard job it would never run.
    let berlin = || TimeZone::parse("Europe/Berlin").unwrap();
    let skipped = CronExpr::parse("*/5 2 25-31 3 */7").unwrap();
    let refusal = Schedule::new(skipped.clone(), berlin()).unwrap_err();
    assert!(refusal.reason.contains("does not occur in Europe/Berlin within 40 years"), "{}", refusal.reason);
    assert!(Schedule::new(skipped, TimeZone::parse("UTC").unwrap()).is_ok());
    let fixed = schedule("5-59/5 2 25-31 3 */7", "Europe/Berlin");
    assert_eq!(fixed.next_after(at("2026-01-01T00:00:00Z")), Some(at("2026-03-29T01:00:00Z")));
}

#[test]
fn c09_next_is_strictly_later_to_the_millisecond() {
    assert_next("1 * * * *", "UTC", "2020-01-01T10:00:59.500Z", &["2020-01-01T10:01:00Z"]);
    assert_next("* * * * *", "UTC", "2020-01-01T15:17:00.001Z", &["2020-01-01T15:18:00Z"]);
    assert_next("* * * * *", "UTC", "2020-01-01T17:15:59.999Z", &["2020-01-01T17:16:00Z"]);
    assert_next("0 10 * * *", "UTC", "2018-01-02T10:00:00Z", &["2018-01-03T10:00:00Z"]);
    let minutely = schedule("* * * * *", "UTC");
    assert!(!minutely.matches(at("2020-01-01T15:17:00.001Z")));
    assert_eq!(minutely.latest_at_or_before(at("2020-01-01T15:17:59.999Z")), Some(at("2020-01-01T15:17:00Z")));
    assert_eq!(minutely.first_at_or_after(at("2020-01-01T15:17:00.001Z")), Some(at("2020-01-01T15:18:00Z")));
}

#[test]
fn c11_lists_and_ranges_in_a_gap_occur_once_after_it() {
    let night = "2026-03-28T12:00:00Z";
    assert_next("0,15 2 * * *", "Europe/Berlin", night, &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z", "2026-03-30T00:15:00Z"]);
    assert_next("30 2,3 * * *", "Europe/Berlin", night, &["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]);
    assert_next("0 2,3 * * *", "Europe/Berlin", night, &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z", "2026-03-30T01:00:00Z"]);
    assert_next("0-59/15 2 * * *", "Europe/Berlin", night, &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]);
    // A wildcard job has no occurrence for a time that does not come.
    assert_next("*/15 2 * * *", "Europe/Berlin", night, &["2026-03-30T00:00:00Z", "2026-03-30T00:15:00Z"]);
}

#[test]
fn c12_lists_and_ranges_in_an_overlap_occur_at_the_first_pass() {
    let night = "2026-10-24T12:00:00Z";
    assert_next("0,15 2 * * *", "Europe/Berlin", night, &["2026-10-25T00:00:00Z", "2026-10-25T00:15:00Z", "2026-10-26T01:00:00Z"]);
    assert_next("0-59/30 2 * * *", "Europe/Berlin", night, &["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"]);
    assert_next(
        "*/30 2 * * *",
        "Europe/Berlin",
        night,
        &["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:00:00Z"],
    );
    // Within the second pass the last occurrence is still the first pass's.
    let fixed = schedule("0-59/30 2 * * *", "Europe/Berlin");
    assert_eq!(fixed.latest_at_or_before(at("2026-10-25T01:45:00Z")), Some(at("2026-10-25T00:30:00Z")));
    assert!(!fixed.matches(at("2026-10-25T01:30:00Z")));
}

#[test]
fn c15_a_gap_at_midnight_costs_no_later_time() {
    assert_next("0 6 * * *", "America/Santiago", "2018-08-11T16:00:00Z", &["2018-08-12T09:00:00Z"]);
    // A whole day that never was: Apia went from 29 to 31 December 2011.
    assert_next("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", &["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"]);
    assert_next(
        "0 12 * * *",
        "Pacific/Apia",
        "2011-12-29T00:00:00Z",
        &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
    );
}

#[test]
fn c16_half_hour_shift_matches_no_other_minute() {
    assert_next("0 * * * *", "Australia/Lord_Howe", "2019-10-05T15:13:00Z", &["2019-10-05T16:00:00Z"]);
    let hourly = schedule("0 * * * *", "Australia/Lord_Howe");
    assert!(!hourly.matches(at("2019-10-05T15:30:00Z")));
    assert_eq!(hourly.occurrence(at("2019-10-05T16:00:00Z")).local, "2019-10-06T03:00:00+11:00");
}

#[test]
fn c18_utc_entries_run_once_each_on_other_zones_change_day() {
    let from = at("2022-10-30T00:00:00Z");
    for time in ["59 0", "0 1", "1 1", "30 1", "59 1", "0 2"] {
        let schedule = schedule(&format!("{time} * * *"), "UTC");
        let (minute, hour) = time.split_once(' ').unwrap();
        let due = at(&format!("2022-10-30T{hour:0>2}:{minute:0>2}:00Z"));
        assert_eq!(schedule.count_between(from, from.plus_ms(86_400_000), 10), (Some(due), 1, false));
    }
}

#[test]
fn occurrences_say_what_is_unusual() {
    let note = |expr: &str, zone: &str, t: &str| {
        let occurrence = schedule(expr, zone).occurrence(at(t));
        (occurrence.local, occurrence.note)
    };
    assert_eq!(note("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z"), ("2026-03-29T03:00:00+02:00".into(), Some(Note::Gap)));
    assert_eq!(note("0 3 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z").1, None);
    assert_eq!(note("*/15 * * * *", "Europe/Berlin", "2026-03-29T01:00:00Z").1, None);
    assert_eq!(note("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z"), ("2026-10-25T02:30:00+02:00".into(), Some(Note::Overlap)));
    assert_eq!(note("*/15 * * * *", "Europe/Berlin", "2026-10-25T01:30:00Z"), ("2026-10-25T02:30:00+01:00".into(), Some(Note::Overlap)));
    assert_eq!(note("0 3 * * *", "Europe/Berlin", "2026-10-25T02:00:00Z").1, None);
    assert_eq!(note("0 0 * * *", "UTC", "2026-10-25T00:00:00Z"), ("2026-10-25T00:00:00+00:00".into(), None));
}

#[test]
fn offsets_of_odd_seconds_are_exact() {
    // Liberia was 44:30 behind UTC until 1972-01-07T00:44:30Z.
    assert_next(
        "0 0 * * *",
        "Africa/Monrovia",
        "1972-01-05T12:00:00Z",
        &["1972-01-06T00:44:30Z", "1972-01-07T00:44:30Z", "1972-01-08T00:00:00Z"],
    );
    let swallowed = schedule("30 0 * * *", "Africa/Monrovia");
    let due = at("1972-01-07T00:44:30Z");
    assert_eq!(swallowed.next_after(at("1972-01-06T12:00:00Z")), Some(due));
    assert_eq!(swallowed.occurrence(due).note, Some(Note::Gap));
}

#[test]
fn counting_stops_at_the_cap_and_says_so() {
    let minutely = schedule("* * * * *", "Europe/Berlin");
    let (from, to) = (at("2026-03-29T00:00:00Z"), at("2026-03-29T02:00:00Z"));
    assert_eq!(minutely.count_between(from, to, 1_000), (Some(from), 120, false));
    assert_eq!(minutely.count_between(from, to, 120), (Some(from), 120, false));
    assert_eq!(minutely.count_between(from, to, 119), (Some(from), 119, true));
    assert_eq!(minutely.count_between(from, to, 0), (Some(from), 0, true));
    assert_eq!(minutely.count_between(from, from, 5), (None, 0, false));
    assert_eq!(minutely.count_between(to, from, 5), (None, 0, false));
}

#[test]
fn the_edges_of_time_are_no_edges_of_the_code() {
    for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin"] {
        for expr in ["* * * * * *", "0 0 1 1 *", "0 0 29 2 *"] {
            let schedule = schedule(expr, zone);
            assert_eq!(schedule.next_after(TimestampMs::MAX), None);
            assert_eq!(schedule.first_at_or_after(TimestampMs::MAX), None);
            assert!(!schedule.matches(TimestampMs::MAX));
            assert_eq!(schedule.occurrence(TimestampMs::MAX).note, None);
            assert_eq!(schedule.count_between(TimestampMs::MAX, TimestampMs::MAX, 9), (None, 0, false));
            let last = schedule.latest_at_or_before(TimestampMs::MAX).unwrap();
            assert!(last > at("9996-01-01T00:00:00Z") && schedule.matches(last), "{expr} in {zone}: {last}");
            assert_eq!(schedule.next_after(last), None);
            let first = schedule.first_at_or_after(TimestampMs::EPOCH).unwrap();
            assert_eq!(schedule.latest_at_or_before(first), Some(first));
            assert_eq!(
                first.get().checked_sub(1).and_then(|t| TimestampMs::new(t).ok()).and_then(|t| schedule.latest_at_or_before(t)),
                None
            );
        }
    }
}
