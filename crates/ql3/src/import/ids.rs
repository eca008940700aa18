//! Task ids: readable, taken from the command, the same for the same file, and unique.

use std::collections::BTreeSet;

use runtime_core::ids::TaskId;

/// Longer names say no more.
const BYTES_MAX: usize = 48;
/// Programs that start the one that matters.
const WRAPPERS: [&str; 17] = [
    "sudo",
    "nice",
    "ionice",
    "nohup",
    "env",
    "chronic",
    "time",
    "timeout",
    "flock",
    "setsid",
    "stdbuf",
    "exec",
    "command",
    "chrt",
    "run-one",
    "systemd-cat",
    "doas",
];
/// Programs that run a script.
const INTERPRETERS: [&str; 21] = [
    "sh",
    "bash",
    "dash",
    "ash",
    "zsh",
    "ksh",
    "python",
    "python2",
    "python3",
    "perl",
    "ruby",
    "php",
    "node",
    "nodejs",
    "deno",
    "java",
    "rscript",
    "run-parts",
    "task",
    ".",
    "source",
];
const EXTENSIONS: [&str; 12] = [".sh", ".bash", ".py", ".pl", ".rb", ".php", ".js", ".ts", ".mjs", ".jar", ".lua", ".r"];

/// The ids that are taken.
#[derive(Debug, Default)]
pub struct Ids {
    taken: BTreeSet<String>,
}

impl Ids {
    /// The first that is free of `name`, `other`, `name-2`, `name-3`, …
    pub fn take(&mut self, name: &str, other: Option<&str>) -> TaskId {
        let free = |id: &&str| !self.taken.contains(*id);
        let mut id = [Some(name), other].into_iter().flatten().find(free).unwrap_or(name).to_owned();
        let mut number = 1;
        while !self.taken.insert(id.clone()) {
            number += 1;
            id = format!("{name}-{number}");
        }
        TaskId::new(id).expect("slugs are within the alphabet of ids")
    }
}

/// A text as an id, if anything of it can be in one.
pub fn slug(text: &str) -> Option<String> {
    let mut out = String::new();
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => out.push(c),
            c @ ('.' | '_') if !out.is_empty() => out.push(c),
            _ if !out.is_empty() && !out.ends_with('-') => out.push('-'),
            _ => {}
        }
    }
    out.truncate(BYTES_MAX);
    let trimmed = out.trim_end_matches(['-', '.', '_']);
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

/// The id that a command suggests: the program that matters in it, without directory and extension.
pub fn of_command(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut rest = &words[..];
    loop {
        rest = without_guards(rest);
        let (word, tail) = rest.split_first()?;
        let name = bare(word);
        if is_assignment(word) || matches!(*word, "(" | "{" | "!" | "[" | "if" | "then" | "while" | "do") {
            rest = tail;
        } else if WRAPPERS.contains(&name.as_str()) {
            rest = wrapped(&name, tail);
        } else if INTERPRETERS.contains(&name.as_str()) || word.starts_with('$') {
            return script(tail).or_else(|| slug(&name));
        } else {
            return slug(&name);
        }
    }
}

/// Without `cd somewhere &&`, `test -x something ||`, `[ … ] &&` before the command.
fn without_guards<'a, 'w>(mut words: &'a [&'w str]) -> &'a [&'w str] {
    while let Some(first) = words.first() {
        let guard =
            matches!(first.trim_start_matches(['(', '{']), "cd" | "test" | "[" | "[[" | "." | "source" | "umask" | "export" | "sleep");
        let end = words.iter().position(|word| matches!(*word, "&&" | "||" | ";") || word.ends_with(';'));
        match end {
            Some(end) if guard && end + 1 < words.len() => words = &words[end + 1..],
            _ => return words,
        }
    }
    words
}

/// What a wrapper starts: after its options and their values.
fn wrapped<'a, 'w>(wrapper: &str, mut words: &'a [&'w str]) -> &'a [&'w str] {
    let takes_path = wrapper == "flock";
    let mut path_seen = false;
    while let Some(word) = words.first() {
        let value_follows =
            matches!((wrapper, *word), ("sudo" | "doas", "-u" | "-g") | ("systemd-cat", "-t" | "-p") | ("timeout", "-s" | "-k"));
        let is_path = takes_path && !path_seen && word.starts_with(['/', '.', '~', '$']);
        if value_follows {
            words = words.get(2..).unwrap_or_default();
        } else if is_path || word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit()) {
            path_seen |= is_path;
            words = &words[1..];
        } else {
            break;
        }
    }
    words
}

/// The script that an interpreter is given; of `sh -c '…'` what is inside.
fn script(words: &[&str]) -> Option<String> {
    let shell_line = words.iter().position(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'));
    if let Some(at) = shell_line.filter(|at| words[..*at].iter().all(|word| word.starts_with('-'))) {
        return of_command(words[at + 1..].join(" ").trim_matches(['\'', '"']));
    }
    words.iter().find(|word| !word.starts_with('-')).and_then(|word| slug(&bare(word)))
}

/// The last part of a path, without quotes, punctuation and a script's extension.
fn bare(word: &str) -> String {
    let word = word.trim_matches(['\'', '"', '(', ')', '{', '}', ';', '&', '|', '`']);
    let name = word.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let stem = EXTENSIONS.iter().find_map(|extension| name.strip_suffix(extension)).filter(|stem| !stem.is_empty());
    stem.map_or_else(|| name.clone(), str::to_owned)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_the_program_that_matters() {
        for (command, id) in [
            ("/usr/local/bin/backup.sh --full", "backup"),
            ("pg_dump -Fc app > /srv/dump", "pg_dump"),
            ("cd /srv/app && bundle exec rake mail", "bundle"),
            ("cd / && run-parts --report /etc/cron.hourly", "cron.hourly"),
            ("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "cron.daily"),
            ("test -e /run/systemd/system || SERVICE_MODE=1 /sbin/e2scrub_all -A -r", "e2scrub_all"),
            ("[ -x /usr/bin/certbot ] && certbot -q renew", "certbot"),
            ("nice -n 10 ionice -c3 /opt/sync.py", "sync"),
            ("flock -n /run/lock/x.lock /opt/queue.sh", "queue"),
            ("timeout -k 5 300 python3 -u /srv/etl/load.py --all", "load"),
            ("sudo -u www-data php /srv/www/artisan schedule:run", "artisan"),
            ("python3 -m reports.daily", "reports.daily"),
            ("/bin/sh -c 'rm -rf /var/cache/x'", "rm"),
            ("bash -lc \"backup-all now\"", "backup-all"),
            ("task JD_bean.js now", "jd_bean"),
            ("ql update", "ql"),
            ("FOO=bar BAZ=1 ./Run-It.rb", "run-it"),
            ("node", "node"),
            ("$PYTHON manage.py mail", "manage"),
        ] {
            assert_eq!(of_command(command).as_deref(), Some(id), "{command}");
        }
        for command in ["", "''", "签到", "((("] {
            assert_eq!(of_command(command), None, "{command}");
        }
    }

    #[test]
    fn ids_are_unique_and_within_the_alphabet() {
        let mut ids = Ids::default();
        let taken: Vec<_> = ["a", "a", "a-2", "a"].iter().map(|name| ids.take(name, None).to_string()).collect();
        assert_eq!(taken, ["a", "a-2", "a-2-2", "a-3"]);
        assert_eq!([ids.take("a", Some("b")).as_str(), ids.take("a", Some("b")).as_str()], ["b", "a-4"]);
        assert_eq!(slug("  Täglich: Bericht! "), Some("t-glich-bericht".to_owned()));
        assert_eq!(slug(&"x.".repeat(60)).unwrap().len(), 47);
        assert_eq!(slug("签到"), None);
    }
}
