//! The items of one field: read, checked against the field's own rules, refused with position and hint.

use crate::Invalid;

/// One of the six fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

/// One item of a field's list. Weekdays are as written here, 0 to 7; whoever builds a set folds 7 to 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// `*` and `*/n`.
    Every { step: u8 },
    /// `a`.
    One(u8),
    /// `a-b` and `a-b/n`.
    Range { from: u8, to: u8, step: u8 },
    /// `L` in day-of-month.
    LastDay,
    /// `LW` in day-of-month.
    LastWorkday,
    /// `nW` in day-of-month.
    NearestWorkday(u8),
    /// `n#k` in day-of-week.
    Nth { weekday: u8, nth: u8 },
    /// `nL` in day-of-week.
    LastOf(u8),
}

pub(super) const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
/// How Sunday is numbered where a range ends.
const SUNDAY_LAST: u8 = 7;

/// A refusal that says where: `minute field, position 3: …`.
pub(super) fn refuse(field: Field, at: usize, what: impl std::fmt::Display) -> Invalid {
    Invalid::new("cron", format!("{} field, position {at}: {what}", field.name()))
}

impl Field {
    pub(super) const ALL: [Self; 6] = [Self::Second, Self::Minute, Self::Hour, Self::DayOfMonth, Self::Month, Self::DayOfWeek];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day-of-month",
            Self::Month => "month",
            Self::DayOfWeek => "day-of-week",
        }
    }

    pub(super) fn min(self) -> u8 {
        match self {
            Self::DayOfMonth | Self::Month => 1,
            _ => 0,
        }
    }

    /// The largest value that is not another spelling of a smaller one.
    pub(super) fn max(self) -> u8 {
        match self {
            Self::Second | Self::Minute => 59,
            Self::Hour => 23,
            Self::DayOfMonth => 31,
            Self::Month => 12,
            Self::DayOfWeek => 6,
        }
    }

    fn largest_spelling(self) -> u8 {
        if self == Self::DayOfWeek { SUNDAY_LAST } else { self.max() }
    }

    /// How many values the field has: a longer step could never step.
    fn size(self) -> u8 {
        self.max() - self.min() + 1
    }

    /// Reads the list of a field whose first character stands at position `at`.
    pub(super) fn items(self, text: &str, at: usize) -> Result<Vec<Item>, Invalid> {
        let mut items = Vec::new();
        let mut at = at;
        for item in text.split(',') {
            items.push(self.item(item, at)?);
            at += item.len() + 1;
        }
        Ok(items)
    }

    fn item(self, text: &str, at: usize) -> Result<Item, Invalid> {
        if text.is_empty() {
            return Err(refuse(self, at, "an empty list item").hint("remove the extra comma"));
        }
        let (body, step) = match text.split_once('/') {
            Some((body, step)) => (body, Some(self.step(step, at + body.len() + 1)?)),
            None => (text, None),
        };
        match (body, step) {
            ("*", step) => Ok(Item::Every { step: step.unwrap_or(1) }),
            ("", _) => Err(refuse(self, at, format!("`{text}` has nothing to step through")).hint(format!("write `*{text}`"))),
            _ if body.contains('*') => {
                Err(refuse(self, at, format!("`{body}` is not a value or range")).hint("`*` stands alone or before a step: `*/5`"))
            }
            _ if body.contains('-') => self.range(body, step, at),
            (_, Some(step)) => {
                let (from, _) = self.value(body, at)?;
                let hint = format!("write `{from}-{}/{step}` if that is what is meant", self.max());
                Err(refuse(self, at, format!("`{text}` steps from a single value")).hint(hint))
            }
            (_, None) => self.single(body, at),
        }
    }

    fn step(self, text: &str, at: usize) -> Result<u8, Invalid> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refuse(self, at, format!("step `{text}` is not a whole number")).hint("write a step as `*/5` or `0-30/5`"));
        }
        let step = text.parse().unwrap_or(u32::MAX);
        let size = self.size();
        if step == 0 {
            return Err(refuse(self, at, "a step of 0 never moves").hint(format!("a step is 1 to {size} here")));
        }
        u8::try_from(step).ok().filter(|step| *step <= size).ok_or_else(|| {
            refuse(self, at, format!("step `{text}` is longer than the field, which has {size} values"))
                .hint("a step starts anew whenever the field wraps; name the wanted values, or use a coarser field")
        })
    }

    fn range(self, body: &str, step: Option<u8>, at: usize) -> Result<Item, Invalid> {
        let (left, right) = body.split_once('-').unwrap_or((body, ""));
        let right_at = at + left.len() + 1;
        if left.eq_ignore_ascii_case("L") {
            return Err(refuse(self, at, format!("`{body}`: days before the last are not in this dialect")).hint("`L` is the last day"));
        }
        for (part, at) in [(left, at), (right, right_at)] {
            if part.is_empty() || part.contains('-') {
                return Err(
                    refuse(self, at, format!("`{body}` is not a range")).hint("write a range as `1-5`; there are no negative values")
                );
            }
        }
        let (from, from_is_name) = self.value(left, at)?;
        let (mut to, to_is_name) = self.value(right, right_at)?;
        if self == Self::DayOfWeek && to_is_name && to == 0 {
            if from_is_name && from == 0 {
                let hint = "write `SUN` for Sundays, `*` for every day";
                return Err(refuse(self, at, format!("`{body}` could mean one day or all seven")).hint(hint));
            }
            to = SUNDAY_LAST;
        }
        if from > to {
            let hint = format!("write `{}`", self.unwrapped(from, to, from_is_name && to_is_name));
            return Err(refuse(self, at, format!("`{body}` runs backwards")).hint(hint));
        }
        Ok(Item::Range { from, to, step: step.unwrap_or(1) })
    }

    /// A range that passes the end of the field, as the two ranges it is.
    fn unwrapped(self, from: u8, to: u8, names: bool) -> String {
        let show = |value: u8| if names { self.value_name(value) } else { value.to_string() };
        let piece = |a: u8, b: u8| if a == b { show(a) } else { format!("{}-{}", show(a), show(b)) };
        match (self, from, to) {
            (Self::DayOfWeek, SUNDAY_LAST, _) => piece(0, to),
            (Self::DayOfWeek, _, 0) => piece(from, SUNDAY_LAST),
            (Self::DayOfWeek, ..) => format!("{},{}", piece(from, SUNDAY_LAST), piece(1, to)),
            _ => format!("{},{}", piece(from, self.max()), piece(self.min(), to)),
        }
    }

    fn value_name(self, value: u8) -> String {
        match self {
            Self::Month => MONTHS[usize::from(value - 1)].to_owned(),
            Self::DayOfWeek => WEEKDAYS[usize::from(value % SUNDAY_LAST)].to_owned(),
            _ => value.to_string(),
        }
    }

    /// An item that is neither a star nor a range nor stepped: a value or a day extension.
    fn single(self, text: &str, at: usize) -> Result<Item, Invalid> {
        let upper = text.to_ascii_uppercase();
        match self {
            Self::DayOfMonth if upper == "L" => Ok(Item::LastDay),
            Self::DayOfMonth if upper == "LW" => Ok(Item::LastWorkday),
            Self::DayOfMonth => match upper.strip_suffix('W') {
                Some("") => Err(refuse(self, at, "`W` needs a day").hint("write `15W` for the working day nearest to the 15th")),
                Some(day) => Ok(Item::NearestWorkday(self.value(day, at)?.0)),
                None => Ok(Item::One(self.value(&upper, at)?.0)),
            },
            Self::DayOfWeek => {
                if let Some((weekday, nth)) = upper.split_once('#') {
                    let (weekday, _) = self.value(weekday, at)?;
                    let nth_at = at + text.len() - nth.len();
                    let nth = nth.parse().ok().filter(|n| (1..=5).contains(n) && nth.len() == 1).ok_or_else(|| {
                        refuse(self, nth_at, format!("`{nth}` is not a week of the month"))
                            .hint("write `2#1` for the first Tuesday; 1 to 5 are possible, and `2L` is the last one")
                    })?;
                    return Ok(Item::Nth { weekday: weekday % SUNDAY_LAST, nth });
                }
                match upper.strip_suffix('L') {
                    Some("") => Err(refuse(self, at, "`L` needs a weekday").hint("write `5L` for the last Friday of the month")),
                    Some(weekday) => Ok(Item::LastOf(self.value(weekday, at)?.0 % SUNDAY_LAST)),
                    None => Ok(Item::One(self.value(&upper, at)?.0)),
                }
            }
            _ => Ok(Item::One(self.value(&upper, at)?.0)),
        }
    }

    /// A number or a name of this field, and whether it was a name. Sunday by name is 0.
    fn value(self, text: &str, at: usize) -> Result<(u8, bool), Invalid> {
        let (min, largest) = (self.min(), self.largest_spelling());
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let value = text.parse().unwrap_or(u32::MAX);
            return u8::try_from(value).ok().filter(|value| (min..=largest).contains(value)).map(|value| (value, false)).ok_or_else(|| {
                let hint = match (self, value) {
                    (Self::Hour, 24) => "midnight is hour 0".to_owned(),
                    (_, 1970..=2999) => "there is no year field".to_owned(),
                    _ => format!("use {min} to {largest}"),
                };
                refuse(self, at, format!("{text} is outside {min}-{largest}")).hint(hint)
            });
        }
        let position = |names: &[&str]| names.iter().position(|name| name.eq_ignore_ascii_case(text)).and_then(|i| u8::try_from(i).ok());
        match (self, position(&MONTHS), position(&WEEKDAYS)) {
            (Self::Month, Some(index), _) => Ok((index + 1, true)),
            (Self::DayOfWeek, _, Some(index)) => Ok((index, true)),
            (_, Some(_), _) => Err(refuse(self, at, format!("`{text}` is a month name")).hint("month names go into the month field")),
            (_, _, Some(_)) => {
                Err(refuse(self, at, format!("`{text}` is a weekday name"))
                    .hint("weekday names go into the day-of-week field, the last one"))
            }
            _ => {
                let hint = match self {
                    Self::Month => "use 1 to 12, or JAN to DEC".to_owned(),
                    Self::DayOfWeek => "use 0 to 7, SUN to SAT, `2#1` (first Tuesday) or `5L` (last Friday)".to_owned(),
                    Self::DayOfMonth => {
                        "use 1 to 31, `L` (last day), `LW` (last working day) or `15W` (working day nearest to the 15th)".to_owned()
                    }
                    _ => format!("use {min} to {largest}"),
                };
                Err(refuse(self, at, format!("`{text}` is not a {}", self.name())).hint(hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(field: Field, text: &str) -> (String, String) {
        let invalid = field.items(text, 1).unwrap_err();
        (invalid.reason, invalid.hint.unwrap())
    }

    #[test]
    fn extensions_are_read_in_any_case() {
        assert_eq!(
            Field::DayOfMonth.items("l,lw,15w,LW", 1).unwrap(),
            [Item::LastDay, Item::LastWorkday, Item::NearestWorkday(15), Item::LastWorkday]
        );
        assert_eq!(
            Field::DayOfWeek.items("fri#2,7#5,5L,sunL", 1).unwrap(),
            [Item::Nth { weekday: 5, nth: 2 }, Item::Nth { weekday: 0, nth: 5 }, Item::LastOf(5), Item::LastOf(0)]
        );
    }

    #[test]
    fn positions_point_at_the_fault() {
        assert!(refused(Field::Minute, "1,2,,3").0.contains("position 5:"));
        assert!(refused(Field::Minute, "1,*/0").0.contains("position 5:"));
        assert!(refused(Field::Hour, "1-24").0.contains("hour field, position 3:"));
        assert!(refused(Field::DayOfWeek, "1,FRI#6").0.contains("position 7:"));
    }

    #[test]
    fn backward_ranges_come_with_the_forward_spelling() {
        for (field, text, hint) in [
            (Field::Hour, "22-2", "write `22-23,0-2`"),
            (Field::DayOfWeek, "6-0", "write `6-7`"),
            (Field::DayOfWeek, "5-1", "write `5-7,1`"),
            (Field::DayOfWeek, "FRI-MON", "write `FRI-SUN,MON`"),
            (Field::DayOfWeek, "7-2", "write `0-2`"),
            (Field::Month, "NOV-FEB", "write `NOV-DEC,JAN-FEB`"),
            (Field::DayOfMonth, "31-1", "write `31,1`"),
        ] {
            assert_eq!(refused(field, text).1, hint, "{text}");
        }
        assert!(refused(Field::DayOfWeek, "SUN-SUN").0.contains("one day or all seven"));
    }

    #[test]
    fn steps_stay_inside_the_field() {
        assert_eq!(Field::Minute.items("*/60", 1).unwrap(), [Item::Every { step: 60 }]);
        for (field, text) in [(Field::Minute, "*/61"), (Field::Hour, "*/25"), (Field::DayOfWeek, "*/8"), (Field::Month, "*/13")] {
            assert!(refused(field, text).0.contains("longer than the field"), "{text}");
        }
        for text in ["*/0", "*/00", "5-5/0"] {
            assert!(refused(Field::Minute, text).0.contains("step of 0"), "{text}");
        }
        for text in ["*/-5", "*/", "*/x", "*/5/5", "*/99999999999999999999"] {
            refused(Field::Minute, text);
        }
        assert_eq!(refused(Field::Minute, "5/15").1, "write `5-59/15` if that is what is meant");
        assert_eq!(refused(Field::Minute, "/5").1, "write `*/5`");
    }

    #[test]
    fn names_belong_to_their_own_field() {
        assert!(refused(Field::Minute, "MON").0.contains("weekday name"));
        assert!(refused(Field::Month, "MON").0.contains("weekday name"));
        assert!(refused(Field::DayOfWeek, "JAN").0.contains("month name"));
        for (field, text) in [
            (Field::Hour, "L"),
            (Field::Minute, "15W"),
            (Field::Month, "5L"),
            (Field::DayOfMonth, "5#2"),
            (Field::DayOfMonth, "W"),
            (Field::DayOfMonth, "1-5W"),
            (Field::DayOfMonth, "L-3"),
            (Field::DayOfMonth, "0W"),
            (Field::DayOfMonth, "32"),
            (Field::DayOfWeek, "L"),
            (Field::DayOfWeek, "5W"),
            (Field::DayOfWeek, "5#"),
            (Field::DayOfWeek, "5#0"),
            (Field::DayOfWeek, "#1"),
            (Field::DayOfWeek, "1-5#2"),
            (Field::DayOfWeek, "8"),
            (Field::Hour, "**"),
            (Field::Hour, "*-5"),
            (Field::Hour, "-5"),
            (Field::Hour, "5-"),
            (Field::Hour, "1-2-3"),
        ] {
            refused(field, text);
        }
        assert_eq!(refused(Field::Hour, "24").1, "midnight is hour 0");
    }
}
