//! A whole expression: translated, and proved to mean the same before it is used.

use runtime_core::{
    TimestampMs,
    cron::{CronExpr, DayRule, Schedule, TimeZone},
};

use super::{
    Refusal,
    fields::{DAY_OF_MONTH, DAY_OF_WEEK, Engine, Field, HOUR, MINUTE, MONTH, Reading, SECOND},
};

/// An expression of this dialect that means what was written.
#[derive(Debug)]
pub struct Translation {
    pub cron: CronExpr,
    /// What is written differently, and why it means the same; empty if nothing is.
    pub why: Vec<String>,
    /// What the author may not have meant.
    pub remarks: Vec<String>,
}

/// In a leap year, which is what the panel's engine goes by.
const FEBRUARY_DAYS: usize = 29;
const FIELDS: [Field; 6] = [SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK];

/// Cron's nicknames, as cron itself expands them.
pub fn nickname(word: &str) -> Option<&'static str> {
    match word {
        "@yearly" | "@annually" => Some("0 0 1 1 *"),
        "@monthly" => Some("0 0 1 * *"),
        "@weekly" => Some("0 0 * * 0"),
        "@daily" | "@midnight" => Some("0 0 * * *"),
        "@hourly" => Some("0 * * * *"),
        _ => None,
    }
}

/// Translates five words, or six with seconds first.
pub fn translate(engine: Engine, words: &[&str]) -> Result<Translation, Refusal> {
    let fields = &FIELDS[FIELDS.len() - words.len()..];
    let mut readings = Vec::new();
    for (field, word) in fields.iter().zip(words) {
        readings.push(field.read(engine, word)?);
    }
    let (day, week) = (fields.len() - 3, fields.len() - 1);
    if readings[week].text.contains('#') && !readings[day].open {
        let what = format!("day-of-week field: `{}` beside a day of the month means nothing that could be kept", readings[week].text);
        return Err(Refusal::new(what, "make two triggers of it"));
    }
    let either = !readings[day].open && !readings[week].open;
    if engine == Engine::Panel {
        join_days(&mut readings, (day, week), either)?;
    }
    let cron = prove(fields, &mut readings, either)?;
    if engine == Engine::Cron && cron.is_wildcard() != (readings[day - 2].star || readings[day - 1].star) {
        return Err(unprovable(cron.as_str()));
    }
    let mut translation = Translation { cron, why: Vec::new(), remarks: Vec::new() };
    for reading in readings {
        translation.why.extend(reading.why);
        translation.remarks.extend(reading.remarks);
    }
    Ok(translation)
}

/// The panel joins two restricted day fields by "or", also where one begins with a star; here such a star would mean "and".
fn join_days(readings: &mut [Reading], (day, week): (usize, usize), either: bool) -> Result<(), Refusal> {
    // It compares the length of its list with the month's.
    if readings[day].length >= FEBRUARY_DAYS && !readings[day].open {
        let what = format!("day-of-month field: the panel takes `{}` as every day in the months that are not longer", readings[day].text);
        return Err(Refusal::new(what, "name the days that are meant, or all of them"));
    }
    for (at, field) in [(day, &DAY_OF_MONTH), (week, &DAY_OF_WEEK)] {
        let reading = &mut readings[at];
        let text = if reading.open {
            "*".to_owned()
        } else if either && reading.star {
            field.without_star(&reading.text)
        } else {
            continue;
        };
        if text != reading.text {
            let because = if reading.open { "the panel takes it as every day" } else { "the panel joins the two day fields by \"or\"" };
            reading.why.push(format!("{} field `{}` is written `{text}`: {because}", field.name, reading.text));
            reading.text = text;
        }
    }
    Ok(())
}

/// Reads the result with the evaluator that will run it, and compares it with what the source means, field by field.
fn prove(fields: &[Field], readings: &mut [Reading], either: bool) -> Result<CronExpr, Refusal> {
    for (field, reading) in fields.iter().zip(&mut *readings) {
        if reading.special {
            continue;
        }
        if values(field, &reading.text)? != reading.values {
            let list = field.list(reading.values);
            reading.why.push(format!("{} field `{}` is written `{list}`: the values it has where it comes from", field.name, reading.text));
            reading.text = list;
            if values(field, &reading.text)? != reading.values {
                return Err(unprovable(&reading.text));
            }
        }
    }
    let text: Vec<_> = readings.iter().map(|reading| reading.text.as_str()).collect();
    let cron = parse(&text.join(" "))?;
    if (cron.day_rule() == DayRule::Or) != either {
        return Err(unprovable(cron.as_str()));
    }
    Ok(cron)
}

fn unprovable(text: &str) -> Refusal {
    Refusal::new(format!("`{text}` would not mean the same here"), "write the schedule by hand, and look at it with `ql3 next`")
}

fn parse(text: &str) -> Result<CronExpr, Refusal> {
    CronExpr::parse(text)
        .map_err(|invalid| Refusal::new(invalid.reason, invalid.hint.unwrap_or_else(|| "see docs/scheduling.md".to_owned())))
}

/// Which values a field's text has, asked of the evaluator.
fn values(field: &Field, text: &str) -> Result<u64, Refusal> {
    // 2024-01-01 is a Monday; January has every day of a month.
    const JANUARY_S: i64 = 1_704_067_200;
    const MONTHS_DAYS: [i64; 12] = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335];
    let (expression, second): (String, fn(i64) -> i64) = match field.name {
        "second" => (format!("{text} * * * * *"), |value| value),
        "minute" => (format!("{text} * * * *"), |value| value * 60),
        "hour" => (format!("0 {text} * * *"), |value| value * 3_600),
        "day-of-month" => (format!("0 0 {text} * *"), |value| (value - 1) * 86_400),
        "month" => (format!("0 0 1 {text} *"), |value| usize::try_from(value - 1).map_or(0, |month| MONTHS_DAYS[month]) * 86_400),
        _ => (format!("0 0 * * {text}"), |value| (value + 6) * 86_400),
    };
    let utc = TimeZone::parse("UTC").expect("a constant of the zone data");
    let schedule = Schedule::new(parse(&expression)?, utc).map_err(|invalid| Refusal::new(invalid.reason, "choose a day that exists"))?;
    let matches = |value: &u8| schedule.matches(TimestampMs::clamped((JANUARY_S + second(i64::from(*value))) * 1_000));
    Ok((field.min..=field.max).filter(matches).fold(0, |bits, value| bits | 1 << value))
}
