//! Definitions as a jobs file that reads back as the same definitions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use runtime_core::{ids::ProjectId, ports::executor::Command};

use super::Job;

/// A jobs file. `head` are lines for its beginning, as comments.
pub fn render(head: &[String], project: Option<&ProjectId>, jobs: &[Job]) -> String {
    let mut out = String::new();
    for line in head {
        comment(&mut out, line);
    }
    if let Some(project) = project {
        let _ = writeln!(out, "\nproject = {}", string(project.as_str()));
    }
    let (zone, env) = (common_zone(jobs), common_env(jobs));
    if zone.is_some() || !env.is_empty() {
        out.push_str("\n[defaults]\n");
        if let Some(zone) = zone {
            let _ = writeln!(out, "timezone = {}", string(zone));
        }
        if !env.is_empty() {
            let _ = writeln!(out, "env = {}", table(&env));
        }
    }
    for job in jobs {
        task(&mut out, job, &env);
        for trigger in &job.triggers {
            out.push_str("\n[[task.trigger]]\n");
            if trigger.id.as_str() != job.task.id.as_str() {
                let _ = writeln!(out, "id = {}", string(trigger.id.as_str()));
            }
            let _ = writeln!(out, "cron = {}", string(&trigger.cron));
            if zone != Some(trigger.timezone.as_str()) {
                let _ = writeln!(out, "timezone = {}", string(&trigger.timezone));
            }
        }
    }
    out
}

fn task(out: &mut String, job: &Job, common: &BTreeMap<&str, &str>) {
    let spec = &job.task;
    out.push('\n');
    for line in &job.comments {
        comment(out, line);
    }
    out.push_str("[[task]]\n");
    let mut key = |key: &str, value: String| {
        let _ = writeln!(out, "{key} = {value}");
    };
    key("id", string(spec.id.as_str()));
    if let Some(name) = &spec.name {
        key("name", string(name));
    }
    if !spec.enabled {
        key("enabled", "false".to_owned());
    }
    match &spec.command {
        Command::Shell(line) => key("shell", string(line)),
        Command::Argv(argv) => key("command", format!("[{}]", argv.iter().map(|part| string(part)).collect::<Vec<_>>().join(", "))),
    }
    let own = spec.env.iter().filter(|(name, _)| !common.contains_key(name.as_str()));
    let own: BTreeMap<&str, &str> = own.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if !own.is_empty() {
        key("env", table(&own));
    }
    if let Some(cwd) = &spec.cwd {
        key("cwd", string(cwd));
    }
    if let Some(stdin) = &spec.stdin {
        key("stdin", string(stdin));
    }
    if !spec.labels.is_empty() {
        key("labels", table(&spec.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()));
    }
}

/// The zone of the first trigger, for all that do not say another.
fn common_zone(jobs: &[Job]) -> Option<&str> {
    jobs.iter().flat_map(|job| &job.triggers).map(|trigger| trigger.timezone.as_str()).next()
}

/// What every task has in its environment: a task cannot take back what `[defaults]` says.
fn common_env(jobs: &[Job]) -> BTreeMap<&str, &str> {
    let pairs = |job: &'_ Job| -> BTreeSet<(String, String)> { job.task.env.clone().into_iter().collect() };
    let Some((first, others)) = jobs.split_first() else { return BTreeMap::new() };
    let shared = others.iter().fold(pairs(first), |shared, job| shared.intersection(&pairs(job)).cloned().collect());
    let env = first.task.env.iter().filter(|(name, value)| shared.contains(&((*name).clone(), (*value).clone())));
    env.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn comment(out: &mut String, line: &str) {
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let _ = writeln!(out, "{}", format!("# {line}").trim_end());
}

fn table(pairs: &BTreeMap<&str, &str>) -> String {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{} = {}", bare_or_quoted(name), string(value))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn bare_or_quoted(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if bare { name.to_owned() } else { string(name) }
}

/// A string on one line: as it is in single quotes if it has what double quotes would escape, and escaped if it must be.
fn string(text: &str) -> String {
    let plain = !text.contains(char::is_control);
    if plain && text.contains(['"', '\\']) && !text.contains('\'') {
        return format!("'{text}'");
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each character that TOML treats specially, alone and between others, and every control character.
    #[test]
    fn any_string_reads_back_as_itself() {
        let special =
            ["\"", "'", "\\", "\n", "\r", "\t", "\0", "\u{7f}", "\u{85}", "#", "=", "ä", "\u{feff}", "\u{2028}", "🦀", "'''", "\"\"\""];
        let mut texts: Vec<String> = (0..0xA0).filter_map(char::from_u32).map(String::from).collect();
        for a in special {
            texts.extend(special.iter().map(|b| format!("{a}x{b}")));
            texts.extend(special.iter().map(|b| format!("{b}{a}")));
        }
        texts.push(String::new());
        for text in texts {
            let file = format!("{} = {}\n", bare_or_quoted(&text), string(&text));
            let table: toml::Table = file.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
            assert_eq!(table.get(&text).and_then(|value| value.as_str()), Some(text.as_str()), "{file}");
        }
    }
}
