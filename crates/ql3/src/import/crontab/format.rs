//! The two formats of a crontab, and files that look like the other one.

/// Whether the sixth word is a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `crontab -l`: five fields, then the command.
    User,
    /// `/etc/crontab` and `/etc/cron.d/*`: five fields, a user, then the command.
    System,
}

/// Users that are no programs.
const USERS: [&str; 14] = [
    "root", "nobody", "daemon", "www-data", "apache", "wwwrun", "http", "postgres", "mysql", "redis", "rabbitmq", "munin", "logcheck",
    "list",
];
/// Programs that are no users, as far as anybody knows.
const PROGRAMS: [&str; 59] = [
    "awk",
    "bash",
    "bundle",
    "bzip2",
    "cat",
    "cd",
    "certbot",
    "chmod",
    "chown",
    "chronic",
    "cp",
    "curl",
    "date",
    "dd",
    "df",
    "docker",
    "du",
    "echo",
    "env",
    "exec",
    "export",
    "false",
    "find",
    "flock",
    "git",
    "gzip",
    "ionice",
    "if",
    "java",
    "kill",
    "ls",
    "mkdir",
    "mv",
    "mysqldump",
    "nice",
    "node",
    "perl",
    "pg_dump",
    "php",
    "pkill",
    "printf",
    "python",
    "python3",
    "rm",
    "rsync",
    "ruby",
    "run-parts",
    "sed",
    "sh",
    "sleep",
    "sudo",
    "tar",
    "task",
    "test",
    "timeout",
    "touch",
    "true",
    "wget",
    "xargs",
];

impl Format {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::System => "system",
        }
    }
}

/// A line that looks like the other format.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// 1-based.
    pub line: usize,
    /// What gives it away.
    pub why: String,
    /// What to do.
    pub hint: String,
}

/// Looks whether the lines are of the other format than the one that was named. If they are, nothing may be imported: the user would be
/// taken for the command, or the command for the user.
pub fn mismatch(text: &str, format: Format) -> Option<Mismatch> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim_start_matches([' ', '\t'])));
    let entries: Vec<(usize, &str)> = lines
        .filter(|(_, line)| !line.starts_with('#') && super::variables::parse(line).is_none())
        .filter_map(|(number, line)| super::parse(line).ok().map(|entry| (number, entry.rest)))
        .collect();
    match format {
        Format::User => names_users(&entries),
        Format::System => entries.iter().find_map(|(line, rest)| {
            let why = no_user(rest)?;
            let hint =
                "if this is the output of `crontab -l`, import it with --format user; if not, put the user before the command".to_owned();
            Some(Mismatch { line: *line, why, hint })
        }),
    }
}

/// Lines that name a user although they should not: one that is surely no program, or all of them something that could be a user.
fn names_users(entries: &[(usize, &str)]) -> Option<Mismatch> {
    let found = |line: usize, word: &str| Mismatch {
        line,
        why: format!("`{word}` before the command looks like a user"),
        hint: format!(
            "if this is /etc/crontab or a file of /etc/cron.d, import it with --format system; if `{word}` is a program, write its whole path"
        ),
    };
    let users = entries.iter().map(|(line, rest)| {
        let (word, next) = two_words(rest);
        (*line, word, !next.is_empty() && !next.starts_with('-') && could_be_user(word), next)
    });
    let users: Vec<_> = users.collect();
    if let Some((line, word, ..)) = users.iter().find(|(_, word, possible, _)| *possible && USERS.contains(word)) {
        return Some(found(*line, word));
    }
    let all = users.iter().all(|(_, word, possible, next)| {
        *possible && !PROGRAMS.contains(word) && (next.starts_with('/') || PROGRAMS.contains(next) || *next == "[")
    });
    users.first().filter(|_| all).map(|(line, word, ..)| found(*line, word))
}

/// Why the first word cannot be a user with a command after it.
fn no_user(rest: &str) -> Option<String> {
    let (word, next) = two_words(rest);
    let shown = word.escape_debug();
    if !could_be_user(word) || PROGRAMS.contains(&word) {
        return Some(format!("`{shown}` where the user should be looks like a command"));
    }
    if next.starts_with('-') || (next.is_empty() && !USERS.contains(&word)) {
        return Some(format!("there is no command after `{shown}`, which should be the user"));
    }
    None
}

fn two_words(rest: &str) -> (&str, &str) {
    let mut words = rest.split_ascii_whitespace();
    (words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

fn could_be_user(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') && chars.all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}
