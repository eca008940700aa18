//! One field of an expression, read as the program reads it from which it comes, and written as this dialect writes the same values.

use super::Refusal;

/// Who reads expressions where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The daemons of the Vixie family: cronie, Debian's cron, ISC cron.
    Cron,
    /// `cron-parser` as Qinglong's panel uses it, for six fields and for extra schedules.
    Panel,
}

/// What a field may hold.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub min: u8,
    /// The largest value that is not another spelling of a smaller one.
    pub max: u8,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
/// Sunday, where a range ends.
const SUNDAY_LAST: u8 = 7;
/// As many weekdays, Sunday twice, are no restriction to `cron-parser`.
const WEEKDAYS_OPEN: usize = 8;

pub const SECOND: Field = Field { name: "second", min: 0, max: 59, names: &[] };
pub const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
pub const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
pub const DAY_OF_MONTH: Field = Field { name: "day-of-month", min: 1, max: 31, names: &[] };
pub const MONTH: Field = Field { name: "month", min: 1, max: 12, names: &MONTHS };
pub const DAY_OF_WEEK: Field = Field { name: "day-of-week", min: 0, max: 6, names: &WEEKDAYS };

/// What a field says.
#[derive(Debug, Default)]
pub struct Reading {
    /// The values, a bit each; weekday 7 is 0. Without meaning if `special`.
    pub values: u64,
    /// The same in this dialect.
    pub text: String,
    /// It begins with a star (or with `?`, where that is one).
    pub star: bool,
    /// The engine takes it as "no restriction", which decides how the two day fields are joined.
    pub open: bool,
    /// How many values the panel's engine lists for it, repetitions included: it takes a full list as "no restriction".
    pub length: usize,
    /// It is `L` or has a `#`, which are no fixed values.
    pub special: bool,
    /// What was written differently, and why it means the same.
    pub why: Vec<String>,
    /// What the author may not have meant, though it is what was written.
    pub remarks: Vec<String>,
}

impl Field {
    fn is_weekday(&self) -> bool {
        self.max == DAY_OF_WEEK.max
    }

    fn is_day_of_month(&self) -> bool {
        self.max == DAY_OF_MONTH.max
    }

    /// The largest number that may be written.
    fn largest(&self) -> u8 {
        if self.is_weekday() { SUNDAY_LAST } else { self.max }
    }

    fn size(&self) -> u32 {
        u32::from(self.max - self.min) + 1
    }

    /// Every value.
    pub fn all(&self) -> u64 {
        (self.min..=self.max).fold(0, |bits, value| bits | 1 << value)
    }

    /// The values as a list; `bits` is not empty.
    pub fn list(&self, bits: u64) -> String {
        let values = (self.min..=self.max).filter(|value| bits >> value & 1 == 1);
        values.map(|value| value.to_string()).collect::<Vec<_>>().join(",")
    }

    /// Without a star at the beginning.
    pub fn without_star(&self, text: &str) -> String {
        let items: Vec<_> = text.split(',').map(|item| item.replacen('*', &format!("{}-{}", self.min, self.max), 1)).collect();
        items.join(",")
    }

    fn refuse(&self, what: impl std::fmt::Display, hint: impl Into<String>) -> Refusal {
        Refusal::new(format!("{} field: {what}", self.name), hint)
    }

    /// Reads a field.
    pub fn read(&self, engine: Engine, text: &str) -> Result<Reading, Refusal> {
        let mut reading = Reading { star: text.starts_with(['*', '?']), ..Reading::default() };
        let mut items = Vec::new();
        for item in text.split(',') {
            items.push(self.item(engine, item, &mut reading)?);
        }
        reading.text = items.join(",");
        if engine == Engine::Panel && reading.special && items.len() > 1 {
            return Err(self.refuse(format!("`{text}` mixes `L` or `#` with other values"), "make two triggers of it"));
        }
        reading.open = match engine {
            Engine::Cron => reading.star,
            Engine::Panel if self.is_weekday() => reading.length == WEEKDAYS_OPEN,
            Engine::Panel => reading.values == self.all(),
        };
        Ok(reading)
    }

    fn item(&self, engine: Engine, text: &str, reading: &mut Reading) -> Result<String, Refusal> {
        if text.is_empty() {
            return Err(self.refuse("an empty list item", "remove the extra comma"));
        }
        if let Some(hint) = foreign(text) {
            return Err(self.refuse(format!("`{}`", text.escape_debug()), hint));
        }
        if let Some(special) = self.special(text)? {
            if engine == Engine::Cron {
                return Err(self.refuse(format!("cron does not know `{text}`"), "ql3 does: write the trigger by hand if it is meant"));
            }
            reading.special = true;
            return Ok(special);
        }
        let (body, step) = match text.split_once('/') {
            Some((body, step)) => (body, Some(self.step(step)?)),
            None => (text, None),
        };
        match body {
            "*" => Ok(self.star_item(engine, text, step, reading)),
            "?" if engine == Engine::Panel && (self.is_day_of_month() || self.is_weekday()) => {
                let starred = text.replacen('?', "*", 1);
                reading.why.push(format!("`{text}` is written `{starred}`: it is every value"));
                Ok(self.star_item(engine, &starred, step, reading))
            }
            "?" => Err(self.refuse("`?` is not a value", "write `*` if every value is meant")),
            _ if body.contains('-') => self.range(engine, text, body, step, reading),
            _ => self.single(engine, text, body, step, reading),
        }
    }

    fn star_item(&self, engine: Engine, text: &str, step: Option<u32>, reading: &mut Reading) -> String {
        let last = if engine == Engine::Panel { self.largest() } else { self.max };
        self.add(engine, self.min, last, step.unwrap_or(1), reading);
        match step {
            Some(step) => self.shortened("*", text, step, reading),
            None => text.to_owned(),
        }
    }

    fn range(&self, engine: Engine, text: &str, body: &str, step: Option<u32>, reading: &mut Reading) -> Result<String, Refusal> {
        let (left, right) = body.split_once('-').unwrap_or((body, ""));
        let (from, mut to) = (self.value(left)?, self.value(right)?);
        let sunday_by_name = self.is_weekday() && to == 0 && right.eq_ignore_ascii_case("SUN") && from > 0;
        if sunday_by_name && engine == Engine::Cron {
            to = SUNDAY_LAST;
            reading.why.push(format!("`{text}` ends on Sunday here; some crons refuse or ignore a range that ends on SUN"));
        }
        if from > to {
            let piece = |a: u8, b: u8| if a == b { a.to_string() } else { format!("{a}-{b}") };
            let hint = match (self.is_weekday(), to) {
                (true, 0) => format!("write `{}` if a range that ends on Sunday is meant", piece(from, SUNDAY_LAST)),
                (true, _) => format!("write `{},{}` if it is meant to wrap", piece(from, SUNDAY_LAST), piece(1, to)),
                (false, _) => format!("write `{},{}` if it is meant to wrap", piece(from, self.max), piece(self.min, to)),
            };
            return Err(self.refuse(format!("`{text}` runs backwards, which cron does not run"), hint));
        }
        self.add(engine, from, to, step.unwrap_or(1), reading);
        match step {
            Some(step) => Ok(self.shortened(body, text, step, reading)),
            None => Ok(text.to_owned()),
        }
    }

    fn single(&self, engine: Engine, text: &str, body: &str, step: Option<u32>, reading: &mut Reading) -> Result<String, Refusal> {
        let value = self.value(body)?;
        let Some(step) = step else {
            self.add(engine, value, value, 1, reading);
            return Ok(text.to_owned());
        };
        let spelled = format!("{value}-{}/{step}", self.largest());
        if engine == Engine::Cron {
            let hint = format!("write `{spelled}` if every {step} from {value} is meant, `{value}` for this value alone");
            return Err(self.refuse(format!("`{text}`: cronie and Debian's cron refuse it, older crons run it at {value} only"), hint));
        }
        self.add(engine, value, self.largest(), step, reading);
        reading.why.push(format!("`{text}` is written `{spelled}`: the panel steps from {value} to the end of the field"));
        Ok(self.shortened(&format!("{value}-{}", self.largest()), &spelled, step, reading))
    }

    /// A step beyond the field's size takes the first value only, as the longest step does that this dialect accepts.
    fn shortened(&self, body: &str, text: &str, step: u32, reading: &mut Reading) -> String {
        if step >= self.size() {
            reading.remarks.push(format!("`{text}` takes the first {} only: a step starts anew when the field wraps", self.name));
        }
        if step <= self.size() {
            return text.to_owned();
        }
        let short = format!("{body}/{}", self.size());
        reading.why.push(format!("`{text}` is written `{short}`: both take the first value only"));
        short
    }

    fn add(&self, engine: Engine, from: u8, to: u8, step: u32, reading: &mut Reading) {
        let weekday = |value: u8| if self.is_weekday() { value % SUNDAY_LAST } else { value };
        for value in (from..=to).step_by(step as usize) {
            reading.values |= 1 << weekday(value);
            reading.length += 1;
        }
        // cron-parser puts Sunday into every range that ends in 7, whatever its step.
        if engine == Engine::Panel && self.is_weekday() && from < to && to == SUNDAY_LAST {
            reading.values |= 1;
            reading.length += usize::from(from > 0);
        }
    }

    fn step(&self, text: &str) -> Result<u32, Refusal> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A step of that length is as good as any longer one.
        let step = if digits { text.parse().unwrap_or(1_000_000_u32).min(1_000_000) } else { 0 };
        if step == 0 {
            return Err(self.refuse(format!("`{text}` is not a step"), "a step is a whole number above 0"));
        }
        Ok(step)
    }

    /// A number or a name; Sunday by name is 0.
    fn value(&self, text: &str) -> Result<u8, Refusal> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let value = text.parse::<u8>().ok().filter(|value| (self.min..=self.largest()).contains(value));
            return value.ok_or_else(|| self.refuse(format!("{text} is out of range"), format!("use {} to {}", self.min, self.largest())));
        }
        let found = (self.min..).zip(self.names).find(|(_, name)| name.eq_ignore_ascii_case(text));
        found.map(|(value, _)| value).ok_or_else(|| {
            let names = if self.names.is_empty() {
                String::new()
            } else {
                format!(" or {} to {}", self.names[0], self.names[self.names.len() - 1])
            };
            self.refuse(format!("`{text}` is not a value"), format!("use {} to {}{names}", self.min, self.largest()))
        })
    }

    /// `L` and `#`.
    fn special(&self, text: &str) -> Result<Option<String>, Refusal> {
        let upper = text.to_ascii_uppercase();
        if self.is_day_of_month() && upper == "L" {
            return Ok(Some(upper));
        }
        if !self.is_weekday() {
            return Ok(None);
        }
        if let Some(day) = upper.strip_suffix('L').filter(|day| !day.is_empty()) {
            return Ok(Some(format!("{}L", self.value(day)? % SUNDAY_LAST)));
        }
        if let Some((day, nth)) = upper.split_once('#') {
            return Ok(Some(format!("{}#{nth}", self.value(day)? % SUNDAY_LAST)));
        }
        Ok(None)
    }
}

/// Characters that mean something elsewhere, with what to do.
fn foreign(text: &str) -> Option<&'static str> {
    if text.contains('~') {
        return Some("random times are not in this dialect; choose a time within the range");
    }
    (!text.is_ascii()).then_some("fields are made of digits, names, `*`, `/`, `,` and `-`")
}
