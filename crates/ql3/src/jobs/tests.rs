use runtime_core::{
    definition::{Misfire, Overlap},
    ports::executor::Command,
    run::{Backoff, Safety},
};

use super::*;

fn read(text: &str) -> JobsFile {
    parse(Source::new("jobs.toml", text)).unwrap_or_else(|failure| panic!("{:#}", failure.to_json()))
}

/// Each error as `line:column field: message`.
fn errors(text: &str) -> Vec<String> {
    let json = parse(Source::new("jobs.toml", text)).unwrap_err().to_json();
    let details = json["error"]["details"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    details
        .iter()
        .map(|e| {
            let colon = if e["field"] == "" { "" } else { ": " };
            format!("{}:{} {}{colon}{}", e["line"], e["column"], text(&e["field"]), text(&e["message"]))
        })
        .collect()
}

#[test]
fn every_key_is_taken() {
    let file = read(
        r#"
project = "shop"
[[task]]
id = "backup"
name = "Back up"
enabled = false
command = ["pg_dump", "-f", "/backup/app.sql", "app"]
env = { PGUSER = "app" }
env_file = "/etc/app.env"
cwd = "/backup"
stdin = "yes"
priority = -5
timeout = "10m"
max_concurrent = 2
retry = { max_attempts = 3, backoff = "10s", max_backoff = "5m", on_lost = true, safety = "idempotent" }
on_failure = ["notify", "backup failed"]
labels = { team = "db" }
[[task.trigger]]
id = "nightly"
name = "Every night"
enabled = false
cron = "0 3 * * *"
timezone = "Europe/Berlin"
misfire = "fire_once"
overlap = "skip"
"#,
    );
    assert_eq!(file.project.unwrap().as_str(), "shop");
    let task = &file.tasks[0];
    assert_eq!((task.id.as_str(), task.name.as_deref(), task.enabled), ("backup", Some("Back up"), false));
    assert_eq!(task.command, Command::Argv(["pg_dump", "-f", "/backup/app.sql", "app"].map(str::to_owned).to_vec()));
    assert_eq!((task.env["PGUSER"].as_str(), task.labels["team"].as_str()), ("app", "db"));
    assert_eq!(
        (task.env_file.as_deref(), task.cwd.as_deref(), task.stdin.as_deref()),
        (Some("/etc/app.env"), Some("/backup"), Some("yes"))
    );
    assert_eq!((task.priority, task.timeout_ms, task.max_concurrent), (-5, Some(600_000), Some(2)));
    assert_eq!((task.retry.max_attempts, task.retry.on_lost, task.retry.safety), (3, true, Safety::Idempotent));
    assert_eq!(task.retry.backoff, Backoff { base_ms: 10_000, max_ms: 300_000 });
    assert_eq!(task.on_failure.as_deref(), Some(&["notify".to_owned(), "backup failed".to_owned()][..]));
    let trigger = &file.triggers[0];
    assert_eq!(
        (trigger.id.as_str(), trigger.task_id.as_str(), trigger.name.as_deref(), trigger.enabled),
        ("nightly", "backup", Some("Every night"), false)
    );
    assert_eq!((trigger.cron.as_str(), trigger.timezone.as_str(), trigger.fields), ("0 3 * * *", "Europe/Berlin", 5));
    assert_eq!((trigger.misfire, trigger.overlap), (Misfire::FireOnce, Overlap::Skip));
}

#[test]
fn what_is_not_said_has_a_default() {
    let file = read("[[task]]\nid = \"a\"\nshell = \"true\"\n[[task.trigger]]\ncron = \"* * * * *\"\ntimezone = \"UTC\"");
    assert_eq!(file.project, None);
    assert_eq!(file.tasks, [TaskSpec::new("a".parse().unwrap(), Command::Shell("true".into()))]);
    let trigger = &file.triggers[0];
    assert_eq!((trigger.id.as_str(), trigger.misfire, trigger.overlap), ("a", Misfire::Skip, Overlap::Allow), "its id is the task's");
}

/// `generate | ql3 apply -` with a generator that failed must not archive a whole project.
#[test]
fn a_file_without_tasks_is_refused_unless_it_names_its_project() {
    for text in ["", "# nothing\n", "[defaults]\ntimezone = \"UTC\"\n", "task = []"] {
        assert_eq!(errors(text), ["1:1 defines no task"], "{text}");
    }
    assert_eq!(read("project = \"shop\"").tasks, []);
}

#[test]
fn delays_stop_doubling_after_an_hour_unless_said_otherwise() {
    let backoff = |retry: &str| read(&format!("[[task]]\nid = \"a\"\nshell = \"true\"\nretry = {{ {retry} }}")).tasks[0].retry.backoff;
    assert_eq!(backoff("max_attempts = 3, backoff = \"10s\""), Backoff { base_ms: 10_000, max_ms: 3_600_000 });
    assert_eq!(backoff("max_attempts = 3, backoff = \"2h\""), Backoff { base_ms: 7_200_000, max_ms: 7_200_000 });
    assert_eq!(backoff("max_attempts = 3"), Backoff { base_ms: 0, max_ms: 0 });
}

#[test]
fn defaults_stand_where_nothing_else_is_said() {
    let file = read(
        r#"
[defaults]
timezone = "Europe/Berlin"
shell = "echo default"
timeout = "1m"
env = { A = "1", B = "2" }
retry = { max_attempts = 3, backoff = "1s" }
overlap = "skip"
[[task]]
id = "own"
command = ["true"]
timeout = "2m"
env = { B = "3" }
retry = { max_attempts = 1 }
[[task.trigger]]
cron = "* * * * *"
timezone = "UTC"
overlap = "allow"
[[task]]
id = "default"
[[task.trigger]]
cron = "* * * * *"
"#,
    );
    let [own, default] = &file.tasks[..] else { panic!("{:?}", file.tasks) };
    assert_eq!(own.command, Command::Argv(vec!["true".into()]));
    assert_eq!((own.timeout_ms, own.retry.max_attempts, own.retry.backoff.base_ms), (Some(120_000), 1, 1_000));
    assert_eq!(own.env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(), [("A", "1"), ("B", "3")]);
    assert_eq!(default.command, Command::Shell("echo default".into()));
    assert_eq!((default.timeout_ms, default.retry.max_attempts), (Some(60_000), 3));
    let [own, default] = &file.triggers[..] else { panic!("{:?}", file.triggers) };
    assert_eq!((own.timezone.as_str(), own.overlap), ("UTC", Overlap::Allow));
    assert_eq!((default.timezone.as_str(), default.overlap), ("Europe/Berlin", Overlap::Skip));
}

#[test]
fn line_ends_and_byte_order_marks_of_other_systems_are_taken() {
    let unix = "[[task]]\nid = \"a\"\nshell = \"true\"\n";
    assert_eq!(read(&format!("\u{feff}{}", unix.replace('\n', "\r\n"))), read(unix));
    assert_eq!(
        errors(&"\u{feff}\n[[task]]\nid = \"a b\"\nshell = \"x\"\n".replace('\n', "\r\n")),
        ["3:8 task `a b`: id: `a b` has ' ' at character 2"]
    );
}

#[test]
fn a_trigger_names_its_zone() {
    let text = "[[task]]\nid = \"a\"\nshell = \"true\"\n[[task.trigger]]\ncron = \"* * * * *\"\n";
    assert_eq!(errors(text), ["4:1 trigger of task `a`: `timezone` is missing"]);
}

#[test]
fn ids_are_unique() {
    let task = |id: &str, trigger: &str| {
        format!("[[task]]\nid = \"{id}\"\nshell = \"true\"\n[[task.trigger]]\n{trigger}cron = \"* * * * *\"\ntimezone = \"UTC\"\n")
    };
    assert_eq!(errors(&(task("a", "") + &task("a", "id = \"b\"\n"))), ["8:6 task `a`: is defined twice"]);
    assert_eq!(errors(&(task("a", "") + &task("b", "id = \"a\"\n"))), ["11:6 trigger `a`: is defined twice"]);
    let two = task("a", "") + "[[task.trigger]]\ncron = \"1 * * * *\"\ntimezone = \"UTC\"\n";
    assert_eq!(errors(&two), ["7:1 trigger `a`: is defined twice"]);
}

#[test]
fn tables_are_lists_of_tables() {
    assert_eq!(errors("[task]\nid = \"a\""), ["1:1 task: is a table, a list of tables is expected"]);
    assert_eq!(
        errors("[[task]]\nid = \"a\"\nshell = \"x\"\n[task.trigger]\ncron = \"x\""),
        ["4:1 task `a`: trigger: is a table, a list of tables is expected"]
    );
    assert_eq!(
        errors("task = 1\ndefaults = 2"),
        ["1:8 task: is an integer, a list of tables is expected", "2:12 defaults: is an integer, a table is expected"]
    );
    assert_eq!(errors("[[trigger]]\ncron = \"x\""), ["1:3 `trigger` is not a key"]);
    assert_eq!(errors("task = [1]"), ["1:9 task: is an integer, a table is expected"]);
}

#[test]
fn one_missing_quote_is_one_error() {
    assert_eq!(errors("[[task]]\nid = \"a\nshell = \"x\"\n\n[[task]]\nid = \"b\"\n").len(), 1);
    assert_eq!(errors("[[task]]\nid = \"a\n\n[[task]]\nid = b\n").len(), 2, "one a section");
}

#[test]
fn numbers_out_of_any_range_are_refused() {
    let error = |line: &str| errors(&format!("[[task]]\nid = \"a\"\nshell = \"x\"\n{line}\n")).join("; ");
    assert_eq!(error("max_concurrent = -1"), "4:18 task `a`: max_concurrent: is -1, 1 ..= 1000 is allowed");
    assert_eq!(
        error("priority = 99999999999999999999999999999999999999999999"),
        "4:12 task `a`: priority: is 99999999999999999999999999999999999999999999, -1000 ..= 1000 is allowed"
    );
    assert_eq!(read("[[task]]\nid = \"a\"\nshell = \"x\"\nmax_concurrent = 0x10").tasks[0].max_concurrent, Some(16));
}

/// Whatever one wrong key press makes of a file: it is answered, and shows no secret.
#[test]
fn no_single_mistake_panics_or_shows_a_secret() {
    let text = "project = \"p\"\n[defaults]\ntimezone = \"UTC\" # ä\n[[task]]\nid = \"ä€\"\ncommand = [\"a\", 'b']\n\
                env = { TOKEN = \"s3cret s3cret\", N = 5 }\nlabels = { \"x\" = \"\"\"y\nz\"\"\" }\n\n[[task.trigger]]\ncron = \"0 0 ? * *\"\n\
                [[task]]\nid = \"b\"\n[task.env]\nTOKEN = '''\ns3cret\ns3cret'''\n";
    let answer = |text: &str| {
        let Err(failure) = parse(Source::new("jobs.toml", text)) else { return };
        let shown = format!("{}{}", failure.to_text(crate::output::Paint::plain()), failure.to_json());
        assert!(!shown.contains("s3cret"), "{text}\n{shown}");
    };
    for (at, c) in text.char_indices() {
        let (before, after) = text.split_at(at);
        answer(before);
        answer(&format!("{before}{}", &after[c.len_utf8()..]));
        for wrong in ["\"", "'", "{", "]", "=", "\n", "€", "#", "\\", "\0", "["] {
            answer(&format!("{before}{wrong}{after}"));
        }
    }
}
