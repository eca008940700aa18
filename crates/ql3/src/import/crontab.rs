//! A crontab, line by line: as cronie and Debian's cron read it.

use runtime_core::{
    cron::TimeZone,
    definition::{TaskSpec, TriggerSpec},
    ids::TriggerId,
    ports::executor::Command,
};

use super::{
    Imported, Job, Kind, Refusal, Row, Verdict, command,
    fields::Engine,
    ids::{self, Ids},
    schedule::{self, Translation},
    variables::{self, Variables},
};

mod comments;
mod format;

pub use format::{Format, mismatch};

/// What the caller says about the file.
#[derive(Debug)]
pub struct Options {
    pub format: Format,
    /// The machine's zone, for lines that no `CRON_TZ` stands above.
    pub zone: Option<TimeZone>,
    /// Whose lines of a system crontab are imported: the user that will start `ql3 up`.
    pub user: Option<String>,
}

/// An entry, cut but not understood.
#[derive(Debug)]
struct Entry<'a> {
    /// It begins with `-`.
    unlogged: bool,
    /// One nickname, or five fields.
    when: Vec<&'a str>,
    /// The user, if the format has one, and the command.
    rest: &'a str,
}

/// Reads a whole file. Ask [`mismatch`] first.
pub fn read(text: &str, options: &Options) -> Imported {
    let mut reader = Reader {
        options,
        variables: Variables::new(options.zone.clone()),
        ids: Ids::default(),
        comments: Vec::new(),
        out: Imported::default(),
        without_home: false,
        without_path: false,
    };
    for (index, line) in text.lines().enumerate() {
        // Cron skips blanks at the beginning of a line, of a comment too. `lines` has cut off a carriage return.
        reader.line(index + 1, line.trim_start_matches([' ', '\t']));
    }
    reader.notes(text);
    reader.out
}

struct Reader<'a> {
    options: &'a Options,
    variables: Variables,
    ids: Ids,
    /// Comment lines since the last line that was none.
    comments: Vec<String>,
    out: Imported,
    without_home: bool,
    without_path: bool,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, line: &str) {
        if line.is_empty() {
            self.out.comments += 1;
            self.comments.clear();
        } else if let Some(comment) = line.strip_prefix('#') {
            self.out.comments += 1;
            self.comments.push(comment.to_owned());
        } else if let Some((name, value)) = variables::parse(line) {
            let row = self.variables.set(number, &name, &value);
            self.out.rows.push(row);
            self.comments.clear();
        } else {
            let comments = std::mem::take(&mut self.comments);
            let source = parse(line).map(|entry| entry.when.join(" ")).unwrap_or_default();
            let row = Row::new(number, Kind::Entry, source);
            let row = match parse(line).and_then(|entry| self.entry(row.clone(), &entry, &comments)) {
                Ok((row, job)) => {
                    self.without_home |= self.variables.home().is_none();
                    self.without_path |= !self.variables.env.contains_key("PATH");
                    self.out.jobs.push(job);
                    row
                }
                Err(refusal) => row.refused(refusal),
            };
            self.out.rows.push(row);
        }
    }

    fn entry(&mut self, mut row: Row, entry: &Entry<'_>, comments: &[String]) -> Result<(Row, Job), Refusal> {
        let line = match self.options.format {
            Format::User => entry.rest,
            Format::System => self.own(entry.rest)?,
        };
        let parts = command::split(line);
        if parts.command.trim().is_empty() {
            return Err(Refusal::new("there is no command", "write one, or remove the line"));
        }
        let Translation { cron, why, remarks } = translate(&entry.when)?;
        row.cron = (row.source != cron.as_str()).then(|| cron.as_str().to_owned());
        row.why.extend(why);
        row.warnings.extend(remarks);
        if entry.unlogged {
            row.why.push("the `-` is left out: it kept cronie from logging the command to syslog".to_owned());
        }
        explain_per_cent(&mut row, line, &parts);
        if parts.command.ends_with('\\') {
            row.warnings.push("it ends with a backslash: cron does not join lines".to_owned());
        }
        if row.why.is_empty() && row.warnings.is_empty() {
            row.verdict = Verdict::Exact;
        } else if !row.why.is_empty() {
            row.verdict = Verdict::Translated;
        }
        let kept = comments::useful(comments);
        let (by_command, by_name) = (ids::of_command(&parts.command), kept.name.as_deref().and_then(ids::slug));
        let zone = self.zone(row.line)?;
        let command = match self.variables.other_shell() {
            Some(shell) => Command::Argv(vec![shell.to_owned(), "-c".to_owned(), parts.command]),
            None => Command::Shell(parts.command),
        };
        let id = self.ids.take(by_command.as_deref().or(by_name.as_deref()).unwrap_or("job"), by_name.as_deref());
        let task = TaskSpec {
            name: kept.name,
            env: self.variables.env.clone(),
            cwd: self.variables.home().map(str::to_owned),
            stdin: parts.stdin,
            ..TaskSpec::new(id.clone(), command)
        };
        let trigger_id = TriggerId::new(id.as_str()).expect("task and trigger ids have one alphabet");
        let trigger = TriggerSpec::new(trigger_id, id, &cron, &zone);
        task.check().and_then(|()| trigger.check())?;
        row.task = Some(task.id.to_string());
        Ok((row, Job { task, triggers: vec![trigger], comments: kept.lines }))
    }

    /// The command of a line with a user, if it is the importing user's.
    fn own<'l>(&self, rest: &'l str) -> Result<&'l str, Refusal> {
        let (user, command) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let command = command.trim_start_matches([' ', '\t']);
        if command.is_empty() {
            return Err(Refusal::new("there is no command after the user", "write one, or remove the line"));
        }
        if self.options.user.as_deref() != Some(user) {
            let why = format!("it runs as `{}`, and ql3 runs every job as the user that starts `ql3 up`", user.escape_debug());
            let hint = format!(
                "import the file once more with --user {} for a `ql3 up` of that user, with a database of its own",
                user.escape_debug()
            );
            return Err(Refusal::new(why, hint));
        }
        Ok(command)
    }

    fn zone(&mut self, line: usize) -> Result<TimeZone, Refusal> {
        match &self.variables.zone {
            Ok(Some(zone)) => Ok(zone.clone()),
            Ok(None) => {
                self.out.needs_zone.get_or_insert(line);
                Err(Refusal::new("it has no zone", "name the machine's zone with --tz"))
            }
            Err(line) => Err(Refusal::new(format!("its zone was refused in line {line}"), "name the zone as an IANA name there")),
        }
    }

    fn notes(&mut self, text: &str) {
        let mut note = |wanted: bool, text: &str| {
            if wanted {
                self.out.notes.push(text.to_owned());
            }
        };
        note(true, "cron mails what a job prints; here it is kept, see `ql3 run logs`");
        note(
            self.without_path,
            "cron starts jobs with PATH=/usr/bin:/bin if the crontab sets none; here they have the environment of `ql3 up`",
        );
        note(
            self.without_home,
            "cron starts jobs in the user's home directory; here, as the crontab sets no HOME, in the directory where `ql3 up` was started: \
             start it there, or add `cwd`",
        );
        note(text.contains('\r'), "lines end with a carriage return, which cron would hand to the command; it is left out");
        let last = text.lines().last().is_some_and(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        note(last && !text.ends_with('\n'), "the last line does not end with a newline: cron does not run it, ql3 will");
    }
}

/// Cuts an entry into its parts.
fn parse(line: &str) -> Result<Entry<'_>, Refusal> {
    let (unlogged, line) = line.strip_prefix('-').map_or((false, line), |line| (true, line));
    let count = if line.starts_with('@') { 1 } else { 5 };
    let (mut when, mut rest) = (Vec::new(), line);
    while when.len() < count && !rest.is_empty() {
        let (word, tail) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        when.push(word);
        rest = tail.trim_start_matches([' ', '\t']);
    }
    if let Some(name) = line.trim_end().strip_suffix('=').filter(|name| !name.contains([' ', '\t'])) {
        let hint = format!("write {}=\"\" for an empty value", name.escape_debug());
        return Err(Refusal::new("cron does not take an empty value without quotes", hint));
    }
    if when.len() < count {
        let why = format!("it has only {} of the five fields, and no command", when.len());
        return Err(Refusal::new(why, "write `minute hour day-of-month month day-of-week command`"));
    }
    if rest.is_empty() {
        return Err(Refusal::new("there is no command", "write one, or remove the line"));
    }
    if rest.starts_with('*') {
        return Err(Refusal::new(
            "there is a `*` where the command begins, which cron refuses",
            "a crontab has five fields, without seconds",
        ));
    }
    Ok(Entry { unlogged, when, rest })
}

fn translate(when: &[&str]) -> Result<Translation, Refusal> {
    let [nickname] = when else { return schedule::translate(Engine::Cron, when) };
    let Some(fields) = schedule::nickname(nickname) else {
        return Err(match *nickname {
            "@reboot" => Refusal::new(
                "there is no trigger for a start of the machine",
                "leave it in the crontab, make a systemd unit of it, or run it before `ql3 up` where that is started",
            ),
            other => Refusal::new(
                format!("cron does not know `{}`", other.escape_debug()),
                "cron knows @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly, in small letters",
            ),
        });
    };
    let words: Vec<_> = fields.split(' ').collect();
    let mut translation = schedule::translate(Engine::Cron, &words)?;
    translation.why.push(format!("`{nickname}` is written `{fields}`, as cron expands it"));
    Ok(translation)
}

fn explain_per_cent(row: &mut Row, line: &str, parts: &command::Parts) {
    if line.contains(r"\%") {
        row.why.push(r"`\%` is written `%`: the backslash was for cron".to_owned());
    }
    let cut = parts.command.len() < line.len() && (parts.stdin.is_some() || line.ends_with('%') && !line.ends_with(r"\%"));
    if !cut {
        return;
    }
    row.why.push(match &parts.stdin {
        Some(stdin) => {
            let count = stdin.matches('\n').count();
            format!("what follows the first `%` is the command's `stdin` ({count} {})", if count == 1 { "line" } else { "lines" })
        }
        None => "the `%` is left out: nothing follows it".to_owned(),
    });
    if let Some(why) = command::surely_not_meant(&parts.command, line) {
        row.warnings.push(format!("the command is cut at a bare `%`, as cron does: surely not meant, as {why}; `\\%` keeps it whole"));
    }
}
