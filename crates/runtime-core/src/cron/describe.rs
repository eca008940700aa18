//! An expression in English. "and" and "or" are used for the day rule only, so that the line cannot be misread.

use super::{
    expr::{CronExpr, DayRule},
    field::{Field, Item},
};

const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const WEEKDAYS: [&str; 8] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const NTH: [&str; 6] = ["", "first", "second", "third", "fourth", "fifth"];
/// More times of day than this are described by their fields instead of one by one.
const TIMES_LISTED_MAX: u32 = 6;

pub(super) fn describe(expr: &CronExpr) -> String {
    let mut line = times(expr);
    let day_of_month = || phrase(expr, Field::DayOfMonth);
    let day_of_week = || phrase(expr, Field::DayOfWeek);
    let days = match expr.day_rule() {
        DayRule::Any => " every day".to_owned(),
        DayRule::DayOfMonth => format!(" on {}", day_of_month()),
        DayRule::DayOfWeek => format!(" on {}", day_of_week()),
        DayRule::And => format!(" on {} and only if that is {}", day_of_month(), day_of_week()),
        DayRule::Or => format!(" on {} or on {}, whichever comes", day_of_month(), day_of_week()),
    };
    line.push_str(&days);
    if items(expr, Field::Month) != [Item::Every { step: 1 }] {
        line.push_str(" in ");
        line.push_str(&phrase(expr, Field::Month));
    }
    line
}

fn items(expr: &CronExpr, field: Field) -> Vec<Item> {
    let text = expr.parts().find(|(found, _)| *found == field).map_or("0", |(_, text)| text);
    field.items(text, 1).expect("an expression holds only fields that were read")
}

fn times(expr: &CronExpr) -> String {
    if !expr.is_wildcard()
        && let Some(times) = expr.matcher.times_of_day(TIMES_LISTED_MAX)
    {
        let seconds = times.iter().any(|(_, _, s)| *s != 0);
        let show = |&(h, m, s): &(u32, u32, u32)| if seconds { format!("{h:02}:{m:02}:{s:02}") } else { format!("{h:02}:{m:02}") };
        return format!("at {}", times.iter().map(show).collect::<Vec<_>>().join(", "));
    }
    let every = [Item::Every { step: 1 }];
    let mut parts = Vec::new();
    let second = items(expr, Field::Second);
    if second != [Item::One(0)] {
        parts.push(phrase(expr, Field::Second));
    }
    if !(parts.len() == 1 && items(expr, Field::Minute) == every) {
        parts.push(phrase(expr, Field::Minute));
    }
    if items(expr, Field::Hour) != every {
        parts.push(phrase(expr, Field::Hour));
    } else if matches!(items(expr, Field::Minute)[..], [Item::One(_) | Item::Range { .. }, ..]) {
        parts.push("every hour".to_owned());
    }
    parts.join(" of ")
}

/// A whole field: `minutes 0, 5 to 10`.
fn phrase(expr: &CronExpr, field: Field) -> String {
    let items = items(expr, field);
    let plain = |item: &Item| matches!(item, Item::One(_) | Item::Range { step: 1, .. });
    let list: Vec<_> = items.iter().map(|item| words(field, *item)).collect();
    let unit = match field {
        Field::Month | Field::DayOfWeek => None,
        Field::DayOfMonth => Some("day"),
        other => Some(other.name()),
    };
    match unit {
        Some(unit) if plain(&items[0]) => {
            let plural = if matches!(items[..], [Item::One(_)]) { "" } else { "s" };
            format!("{unit}{plural} {}", list.join(", "))
        }
        _ => list.join(", "),
    }
}

fn words(field: Field, item: Item) -> String {
    let value = |value: u8| match field {
        Field::Month => MONTHS[usize::from(value) - 1].to_owned(),
        Field::DayOfWeek => WEEKDAYS[usize::from(value)].to_owned(),
        _ => value.to_string(),
    };
    let unit = match field {
        Field::DayOfMonth => "day",
        Field::DayOfWeek => "weekday",
        other => other.name(),
    };
    match item {
        Item::Every { step: 1 } => format!("every {unit}"),
        Item::Every { step } => format!("every {} {unit} from {}", ordinal(step), value(field.min())),
        Item::One(one) => value(one),
        Item::Range { from, to, step: 1 } => format!("{} to {}", value(from), value(to)),
        Item::Range { from, to, step } => format!("every {} {unit} from {} to {}", ordinal(step), value(from), value(to)),
        Item::LastDay => "the last day of the month".to_owned(),
        Item::LastWorkday => "the last working day (Monday to Friday) of the month".to_owned(),
        Item::NearestWorkday(day) => format!("the working day (Monday to Friday) nearest to day {day}"),
        Item::Nth { weekday, nth } => format!("the {} {} of the month", NTH[usize::from(nth)], value(weekday)),
        Item::LastOf(weekday) => format!("the last {} of the month", value(weekday)),
    }
}

fn ordinal(n: u8) -> String {
    let suffix = match (n % 10, n % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::CronExpr;

    #[test]
    fn lines_read_as_english() {
        for (text, line) in [
            ("0 3 * * *", "at 03:00 every day"),
            ("0,30 9,17 * * 1-5", "at 09:00, 09:30, 17:00, 17:30 on Monday to Friday"),
            ("15 30 2 1 * *", "at 02:30:15 on day 1"),
            ("* * * * *", "every minute every day"),
            ("*/15 * * * *", "every 15th minute from 0 every day"),
            ("5 * * * *", "minute 5 of every hour every day"),
            ("0-20/10 8-18 * * *", "every 10th minute from 0 to 20 of hours 8 to 18 every day"),
            ("* * * * * *", "every second every day"),
            ("0 0 */2 * 1", "at 00:00 on every 2nd day from 1 and only if that is Monday"),
            ("30 0 1,15 * 1", "at 00:30 on days 1, 15 or on Monday, whichever comes"),
            (
                "0 0 L,LW,15W 1,6-8 *",
                "at 00:00 on the last day of the month, the last working day (Monday to Friday) of the month, \
              the working day (Monday to Friday) nearest to day 15 in January, June to August",
            ),
            ("0 0 * * fri#2,5L,SAT-SUN", "at 00:00 on the second Friday of the month, the last Friday of the month, Saturday to Sunday"),
        ] {
            assert_eq!(CronExpr::parse(text).unwrap().describe(), line, "{text}");
        }
    }

    #[test]
    fn the_day_rule_is_said_in_one_word() {
        let line = |text: &str| CronExpr::parse(text).unwrap().describe();
        for text in ["0 16 */2 * FRI", "0 0 1,2 * */2", "*/5 1,2 */3 1,2 1-3,5L"] {
            assert!(line(text).contains(" and ") && !line(text).contains(" or "), "{}", line(text));
        }
        for text in ["0 16 1,2,3 * FRI", "0 9 1-31 * 1", "*/5 1,2 L,15W 1,2 1-3,5L"] {
            assert!(line(text).contains(" or ") && !line(text).contains(" and "), "{}", line(text));
        }
    }
}
