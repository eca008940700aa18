//! Variable lines of a crontab, read as cron reads them, and what each means here.

use std::collections::BTreeMap;

use runtime_core::cron::TimeZone;

use super::{Kind, Refusal, Row};

const SHELL: &str = "/bin/sh";

/// What the lines so far have set, for the entries below them.
#[derive(Clone, Debug)]
pub struct Variables {
    /// The environment of the jobs.
    pub env: BTreeMap<String, String>,
    /// The zone of the schedules; an error if the line that names it was refused.
    pub zone: Result<Option<TimeZone>, usize>,
}

impl Variables {
    pub fn new(zone: Option<TimeZone>) -> Self {
        Self { env: BTreeMap::new(), zone: Ok(zone) }
    }

    /// The shell of the jobs, unless it is the one that `shell` uses here too.
    pub fn other_shell(&self) -> Option<&str> {
        self.env.get("SHELL").map(String::as_str).filter(|shell| *shell != SHELL)
    }

    /// The directory in which cron starts the jobs, if the file says.
    pub fn home(&self) -> Option<&str> {
        self.env.get("HOME").map(String::as_str).filter(|home| !home.is_empty())
    }

    /// Takes a variable.
    pub fn set(&mut self, line: usize, name: &str, value: &str) -> Row {
        let row = Row::new(line, Kind::Variable, name);
        match name {
            "CRON_TZ" => return self.set_zone(row, value),
            "RANDOM_DELAY" => {
                let why = "there are no random delays: jobs below start at their time";
                return row.refused(Refusal::new(why, "remove the line if that is fine; put `sleep` before a command if not"));
            }
            "LOGNAME" | "USER" => return row.translated("left out: cron sets it to the user, whatever the crontab says"),
            _ if name.is_empty() || name.contains('\0') || value.contains('\0') => {
                return row.refused(Refusal::new("this cannot be a variable", "remove the line"));
            }
            _ if name.starts_with("QL3_") => {
                let why = "names that begin with QL3_ are set for each attempt";
                return row.refused(Refusal::new(why, "give the variable another name, here and in the script that reads it"));
            }
            _ => {}
        }
        self.env.insert(name.to_owned(), value.to_owned());
        match name {
            "SHELL" if value != SHELL => {
                row.translated(format!("commands below become [\"{}\", \"-c\", …], which is how cron starts them", value.escape_debug()))
            }
            "HOME" => row.translated("also the working directory (`cwd`) of the jobs below, as in cron"),
            "MAILTO" => {
                let what =
                    if value.is_empty() { "no mail was sent; output is kept anyway" } else { "no mail is sent; output is kept instead" };
                row.translated(format!("{what}, see `ql3 run logs`; jobs still see the variable"))
            }
            "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => row.translated("no mail is sent; jobs still see the variable"),
            "TZ" => row.translated("for the commands only, as in cron: schedules do not follow it (`CRON_TZ` or --tz names their zone)"),
            _ if value.contains('$') => {
                Row { warnings: vec!["the `$` stays as it is: neither cron nor ql3 expands variables here".to_owned()], ..row }
            }
            _ => row,
        }
    }

    fn set_zone(&mut self, row: Row, value: &str) -> Row {
        match TimeZone::parse(value) {
            Ok(zone) => {
                let why = format!(
                    "{zone} is the `timezone` of the entries below; cronie reads it so, Debian's cron ignored it",
                    zone = zone.as_str()
                );
                self.zone = Ok(Some(zone));
                row.translated(why)
            }
            Err(invalid) => {
                self.zone = Err(row.line);
                row.refused(Refusal::new(
                    invalid.reason,
                    invalid.hint.unwrap_or_else(|| "write an IANA name such as Europe/Berlin".to_owned()),
                ))
            }
        }
    }
}

/// The name and value of a variable line, by the rules of cron's `load_env`; `None` if the line is no such line.
pub fn parse(line: &str) -> Option<(String, String)> {
    let (name, rest) = if line.starts_with(['"', '\'']) {
        quoted(line).filter(|(name, _)| !name.contains('='))?
    } else {
        line.split_at(line.find(|c: char| c == '=' || is_space(c))?)
    };
    let value = rest.trim_start_matches(is_space).strip_prefix('=')?.trim_start_matches(is_space);
    if !value.starts_with(['"', '\'']) {
        // Cron takes an empty value only in quotes.
        return (!value.is_empty()).then(|| (name.to_owned(), value.trim_end_matches(is_space).to_owned()));
    }
    let (value, rest) = quoted(value)?;
    rest.chars().all(is_space).then(|| (name.to_owned(), value.to_owned()))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\x0b' | '\x0c')
}

/// What is between quotes, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    text[1..].split_once(quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_cron_reads_them() {
        let parsed = |line: &str| parse(line).map(|(name, value)| format!("{name}|{value}"));
        for (line, read) in [
            ("A=b", "A|b"),
            ("A = b c  ", "A|b c"),
            ("A=\"  b c  \"", "A|  b c  "),
            ("A='b'  ", "A|b"),
            ("\"A B\" = c", "A B|c"),
            ("A=\"\"", "A|"),
            ("A=b=c", "A|b=c"),
            ("A=b \"c\"", "A|b \"c\""),
            ("PATH=$HOME/bin:$PATH", "PATH|$HOME/bin:$PATH"),
            ("A=b # not a comment", "A|b # not a comment"),
        ] {
            assert_eq!(parsed(line).as_deref(), Some(read), "{line}");
        }
        for line in ["* * * * * A=b", "@daily A=b", "0 5 * * 1 cmd --x=y", "A", "A=\"b", "A='b' c", "\"A=b\"=c", "'A=b", "A=", "A= ", ""] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}
