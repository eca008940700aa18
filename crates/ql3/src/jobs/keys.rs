//! Taking the keys of a table: each has one type, and what is not known is an error with a suggestion.

use std::{collections::BTreeMap, ops::Range};

use runtime_core::Invalid;
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::{
    source::{Problem, Source},
    suggest::nearest,
};
use crate::duration;

/// A value with its place.
pub type Value<'i> = Spanned<DeValue<'i>>;

/// What is read, and what is wrong with it.
pub struct Reader<'s> {
    pub source: &'s mut Source,
    pub problems: Vec<Problem>,
}

/// Where values of a definition stand, by key as core names it: `retry.backoff`.
pub type Places = BTreeMap<String, Range<usize>>;

impl Reader<'_> {
    pub fn push(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Never shows what `value` holds; the names of its keys may be shown.
    pub fn hide(&mut self, value: &Value<'_>) {
        match value.get_ref() {
            DeValue::Table(table) => table.iter().for_each(|(_, value)| self.hide(value)),
            DeValue::Array(items) => items.iter().for_each(|value| self.hide(value)),
            _ => self.source.hide(value.span()),
        }
    }

    fn wrong_type(&mut self, field: &str, value: &Value<'_>, wanted: &str, hint: &str) {
        if matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_)) {
            // Wherever a table does not belong, it may hold an `env`.
            self.hide(value);
        }
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        self.push(Problem::new(value.span(), field, format!("is {found}, {wanted} is expected")).hint(hint));
    }

    pub fn string(&mut self, field: &str, value: &Value<'_>) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong_type(field, value, "a string", "put it in quotes");
        }
        text
    }

    pub fn boolean(&mut self, field: &str, value: &Value<'_>) -> Option<bool> {
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(field, value, "true or false", "write it without quotes");
        }
        flag
    }

    pub fn integer<T: TryFrom<i128>>(&mut self, field: &str, value: &Value<'_>, allowed: &str) -> Option<T> {
        let Some(number) = value.get_ref().as_integer() else {
            self.wrong_type(field, value, "a whole number", &format!("{allowed} is allowed"));
            return None;
        };
        let parsed = i128::from_str_radix(number.as_str(), number.radix()).ok().and_then(|number| T::try_from(number).ok());
        if parsed.is_none() {
            self.push(Problem::new(value.span(), field, format!("is {number}, {allowed} is allowed")));
        }
        parsed
    }

    pub fn duration_ms(&mut self, field: &str, value: &Value<'_>) -> Option<u64> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(
                field,
                value,
                "a duration",
                "write a number with its unit in quotes: \"500ms\", \"10s\", \"5m\", \"1h\", \"2d\"",
            );
            return None;
        };
        duration::parse_ms(text).map_err(|invalid| self.refuse(field, value, invalid)).ok()
    }

    pub fn strings(&mut self, field: &str, value: &Value<'_>) -> Option<Vec<String>> {
        let Some(items) = value.get_ref().as_array() else {
            let hint = "write [\"program\", \"argument\"]; a line for a shell is [\"sh\", \"-c\", \"line\"]";
            self.wrong_type(field, value, "an array of strings", hint);
            return None;
        };
        let texts: Vec<_> = items.iter().map(|item| self.string(field, item)).collect();
        texts.into_iter().collect()
    }

    /// A table of strings; adds to `into`. Answers the keys that were taken.
    pub fn string_map(&mut self, field: &str, value: &Value<'_>, into: &mut BTreeMap<String, String>, places: &mut Places) {
        let Some(table) = value.get_ref().as_table() else {
            let key = field.rsplit(' ').next().unwrap_or(field);
            self.wrong_type(field, value, "a table of strings", &format!("write {key} = {{ NAME = \"value\" }}"));
            return;
        };
        for (key, value) in table {
            let field = format!("{field}.{}", key.get_ref());
            places.insert(field.clone(), value.span());
            if let Some(text) = self.string(&field, value) {
                into.insert(key.get_ref().to_string(), text);
            }
        }
    }

    pub fn table<'v, 'i>(&mut self, field: &str, value: &'v Value<'i>, hint: &str) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(field, value, "a table", hint);
        }
        table
    }

    pub fn array<'v, 'i>(&mut self, field: &str, value: &'v Value<'i>, hint: &str) -> Option<&'v DeArray<'i>> {
        let array = value.get_ref().as_array();
        if array.is_none() {
            self.wrong_type(field, value, "a list of tables", hint);
        }
        array
    }

    /// A refusal by core, at the value that it speaks of.
    pub fn refuse(&mut self, field: &str, value: &Value<'_>, invalid: Invalid) {
        let problem = self.located(value.span(), value.get_ref().as_str(), field, invalid);
        self.push(problem);
    }

    /// Moves a refusal to the character inside the string that it names, if it names one.
    pub fn located(&self, span: Range<usize>, text: Option<&str>, field: &str, invalid: Invalid) -> Problem {
        let inside =
            text.and_then(|text| position_in(&invalid.reason).and_then(|position| self.source.inside_string(&span, text, position)));
        Problem { hint: invalid.hint, ..Problem::new(inside.unwrap_or(span), field, invalid.reason) }
    }

    /// An unknown key, with what might have been meant. Its value is not shown: it may be what `env` was misspelled for.
    pub fn unknown(
        &mut self,
        whose: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Value<'_>,
        known: &[&str],
        elsewhere: &[(&[&str], &str)],
    ) {
        self.hide(value);
        let name = key.get_ref().as_ref();
        let placed = elsewhere.iter().find(|(keys, _)| keys.contains(&name)).map(|(_, place)| format!("`{name}` belongs to {place}"));
        let meant = || nearest(name, known).map(|meant| format!("did you mean `{meant}`?"));
        let hint = placed.or_else(meant).unwrap_or_else(|| format!("the keys here are {}", known.join(", ")));
        self.push(Problem::new(key.span(), whose, format!("`{}` is not a key", name.escape_debug())).hint(hint));
    }
}

/// The 1-based character position that a refusal names: `position 7`, `at character 3`.
pub fn position_in(reason: &str) -> Option<usize> {
    ["position ", "at character "].iter().find_map(|word| {
        let (_, rest) = reason.split_once(word)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok().filter(|position| *position > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_its_position() {
        assert_eq!(position_in("day-of-week field, position 11: 8 is outside 0-7"), Some(11));
        assert_eq!(position_in("`a b` has ' ' at character 2"), Some(2));
        assert_eq!(position_in("is empty"), None);
        assert_eq!(position_in("position x"), None);
    }
}
