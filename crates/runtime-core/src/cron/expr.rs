//! An expression: its text, which is kept and digested, and its match set.

use std::fmt;

use super::{
    describe,
    field::{Field, refuse},
    matcher::Matcher,
};
use crate::{Invalid, limits::CRON_BYTES_MAX};

/// A valid expression of the dialect. Two are equal when their texts are, after blanks were trimmed and joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronExpr {
    text: Box<str>,
    pub(super) matcher: Matcher,
    fields: u8,
    wildcard: bool,
    day_rule: DayRule,
}

/// How the two day fields decide about a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DayRule {
    /// Both are open: every day.
    Any,
    /// Only day-of-month restricts.
    DayOfMonth,
    /// Only day-of-week restricts.
    DayOfWeek,
    /// Both must match, because one begins with `*`.
    And,
    /// One is enough, because none begins with `*`.
    Or,
}

impl CronExpr {
    /// Reads five fields, or six with seconds first.
    ///
    /// # Errors
    /// [`Invalid`] on the field `cron`, whose reason names the cron field and the 1-based character position in `text`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() > CRON_BYTES_MAX {
            return Err(Invalid::new("cron", format!("{} bytes are more than the {CRON_BYTES_MAX} allowed", text.len()))
                .hint("ranges and steps are shorter than lists"));
        }
        check_characters(text)?;
        let words = words(text);
        let fields = fields_of(&words, text)?;
        let mut matcher = Matcher::default();
        if fields.len() == 5 {
            Field::Second.items("0", 1)?.into_iter().for_each(|item| matcher.add(Field::Second, item));
        }
        for (field, (at, word)) in fields.iter().zip(&words) {
            for item in field.items(word, *at)? {
                matcher.add(*field, item);
            }
        }
        let star = |wanted| fields.iter().zip(&words).any(|(field, (_, word))| *field == wanted && word.starts_with('*'));
        let day_rule = matcher.set_day_rule(star(Field::DayOfMonth) || star(Field::DayOfWeek));
        let text: Vec<_> = words.iter().map(|(_, word)| *word).collect();
        Ok(Self {
            text: text.join(" ").into(),
            matcher,
            fields: if fields.len() == 5 { 5 } else { 6 },
            wildcard: star(Field::Minute) || star(Field::Hour),
            day_rule,
        })
    }

    /// The text as written, with single blanks between fields.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// 5, or 6 with seconds.
    pub fn fields(&self) -> u8 {
        self.fields
    }

    /// Whether the minute or hour field begins with `*`: the job then runs at every instant whose wall time matches, and not once for
    /// a time that a zone skips or repeats.
    pub fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// How the two day fields decide.
    pub fn day_rule(&self) -> DayRule {
        self.day_rule
    }

    /// One line of English; two restricted day fields are joined by "and" or "or".
    pub fn describe(&self) -> String {
        describe::describe(self)
    }

    /// The fields with their texts.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Field, &str)> {
        Field::ALL.into_iter().skip(usize::from(6 - self.fields)).zip(self.text.split(' '))
    }
}

impl fmt::Display for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The words of the text with their 1-based positions. Only called on ASCII, where bytes are characters.
fn words(text: &str) -> Vec<(usize, &str)> {
    text.split_ascii_whitespace().map(|word| (word.as_ptr().addr() - text.as_ptr().addr() + 1, word)).collect()
}

/// Which fields the words are.
fn fields_of(words: &[(usize, &str)], text: &str) -> Result<&'static [Field], Invalid> {
    const SIX: &[Field] = &Field::ALL;
    match words {
        [] => Err(Invalid::new("cron", "is empty").hint("write `minute hour day-of-month month day-of-week`, such as `0 3 * * *`")),
        [(at, word), ..] if word.starts_with('@') => {
            let hint = match word.to_ascii_lowercase().as_str() {
                "@yearly" | "@annually" => "write `0 0 1 1 *`",
                "@monthly" => "write `0 0 1 * *`",
                "@weekly" => "write `0 0 * * 0`",
                "@daily" | "@midnight" => "write `0 0 * * *`",
                "@hourly" => "write `0 * * * *`",
                "@reboot" => "there is no trigger for a start of the machine",
                _ => "write the five fields",
            };
            Err(Invalid::new("cron", format!("position {at}: nicknames such as `{word}` are not in this dialect")).hint(hint))
        }
        [_, _, _, _, _] => Ok(&SIX[1..]),
        [_, _, _, _, _, _] => Ok(SIX),
        [_, _, _, _, _, _, (at, word), ..] => {
            let hint = "write 5 fields, or 6 with seconds first; there is no year field and no command here";
            Err(Invalid::new("cron", format!("position {at}: `{word}` is one field too many")).hint(hint))
        }
        _ => {
            let missing = SIX[words.len() + 1];
            let hint = "write `minute hour day-of-month month day-of-week`, with seconds before them if wanted";
            Err(refuse(missing, text.trim_ascii_end().len() + 1, format!("missing; there are only {} fields", words.len())).hint(hint))
        }
    }
}

/// Refuses what no field could contain, before anything is cut into fields.
fn check_characters(text: &str) -> Result<(), Invalid> {
    for (index, found) in text.chars().enumerate() {
        let hint = match found {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '*' | '/' | ',' | '-' | '#' | '@' | ' ' | '\t' | '\n' | '\r' => continue,
            '?' => "write `*`",
            '~' => "random times are not in this dialect; choose a time",
            _ if found.is_numeric() => "digits are 0 to 9",
            _ if found.is_whitespace() => "separate fields by plain spaces",
            _ => "fields are made of digits, names, `*`, `/`, `,`, `-`, `#`",
        };
        let reason = match field_at(text, index) {
            Some(field) => format!("{} field, position {}: `{}` is not allowed", field.name(), index + 1, found.escape_debug()),
            None => format!("position {}: `{}` is not allowed", index + 1, found.escape_debug()),
        };
        return Err(Invalid::new("cron", reason).hint(hint));
    }
    // `@` is let through so that a nickname can be named as one; anywhere else it is just a stray character.
    match text.char_indices().find(|(index, found)| *found == '@' && !text[..*index].trim_ascii().is_empty()) {
        Some((index, _)) => Err(Invalid::new("cron", format!("position {}: `@` is not allowed", index + 1)).hint("write the five fields")),
        None => Ok(()),
    }
}

/// The field in which a character stands, as far as the number of words tells.
fn field_at(text: &str, index: usize) -> Option<Field> {
    let word_count = text.split_ascii_whitespace().count();
    let skipped = match word_count {
        5 => 1,
        6 => 0,
        _ => return None,
    };
    let before: String = text.chars().take(index + 1).collect();
    Field::ALL.get(before.split_ascii_whitespace().count().checked_sub(1)? + skipped).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reason(text: &str) -> String {
        let invalid = CronExpr::parse(text).unwrap_err();
        assert_eq!(invalid.field, "cron");
        assert!(invalid.hint.is_some(), "{text}: {} has no hint", invalid.reason);
        invalid.reason
    }

    #[test]
    fn text_is_kept_but_for_blanks() {
        let expr = CronExpr::parse("  05\t3 * * fri \n").unwrap();
        assert_eq!(expr.as_str(), "05 3 * * fri");
        assert_eq!(expr.fields(), 5);
        assert_eq!(CronExpr::parse("*/5 * * * * *").unwrap().fields(), 6);
    }

    #[test]
    fn star_flags_come_from_the_first_character() {
        for (text, rule) in [
            ("0 0 * * *", DayRule::Any),
            ("0 0 */1 * *", DayRule::Any),
            ("0 0 5 * *", DayRule::DayOfMonth),
            ("0 0 L * *", DayRule::DayOfMonth),
            ("0 0 * * 1", DayRule::DayOfWeek),
            ("0 0 * * 5L", DayRule::DayOfWeek),
            ("0 0 */2 * 1", DayRule::And),
            ("0 0 1 * */2", DayRule::And),
            ("0 0 1 * 1", DayRule::Or),
            ("0 0 1-31 * 1", DayRule::Or),
            ("0 0 2,* * 1", DayRule::Or),
        ] {
            assert_eq!(CronExpr::parse(text).unwrap().day_rule(), rule, "{text}");
        }
        for (text, wildcard) in [
            ("* 3 * * *", true),
            ("0 */2 * * *", true),
            ("*,5 3 * * *", true),
            ("0-59 2 * * *", false),
            ("5,* 2 * * *", false),
            ("* 30 2 * * *", false),
        ] {
            assert_eq!(CronExpr::parse(text).unwrap().is_wildcard(), wildcard, "{text}");
        }
    }

    #[test]
    fn refusals_name_field_and_position() {
        assert_eq!(reason("0 0 ? * *"), "day-of-month field, position 5: `?` is not allowed");
        assert_eq!(reason("  0 0 * * 8"), "day-of-week field, position 11: 8 is outside 0-7");
        assert_eq!(reason("*/5 * * JAN,,MAR *"), "month field, position 13: an empty list item");
        assert_eq!(reason("0 \u{665} * * *"), "hour field, position 3: `\u{665}` is not allowed");
        assert_eq!(reason("0\u{a0}0 * * * *"), "minute field, position 2: `\\u{a0}` is not allowed");
        assert_eq!(reason("0 0 * *"), "day-of-week field, position 8: missing; there are only 4 fields");
        assert_eq!(reason("0 0 0 1 1 * 2027"), "position 13: `2027` is one field too many");
        assert_eq!(reason("0 0 1 1 * 2027"), "day-of-week field, position 11: 2027 is outside 0-7");
        assert_eq!(reason("@daily"), "position 1: nicknames such as `@daily` are not in this dialect");
        assert_eq!(reason("0/5 * * * * *"), "second field, position 1: `0/5` steps from a single value");
        reason("");
        reason(" \t");
        reason("0 0 @ * *");
        reason("@every 5m");
        reason("\0 0 * * *");
        reason("0 0 * * 1~5");
        reason(&"1,".repeat(400));
    }

    #[test]
    fn absurd_input_is_refused_at_once() {
        for text in
            ["9".repeat(768), "*".repeat(768), ",".repeat(768), "- ".repeat(384), "*/".repeat(300) + " * * * *", "L".repeat(1 << 20)]
        {
            reason(&text);
        }
    }
}
