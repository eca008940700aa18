//! Translations against the rules of the programs that they come from, written down a second time, in those programs' own way.

use runtime_core::{
    TimestampMs,
    cron::{CronExpr, Schedule, TimeZone},
    ports::executor::Command,
};
use serde_json::{Value, json};

use super::{
    Imported, Row, Verdict,
    crontab::{self, Format},
    fields::Engine,
    qinglong, schedule,
};

const DAY_MS: i64 = 86_400_000;
/// 2023-01-01, a Sunday.
const START_MS: i64 = 1_672_531_200_000;

fn utc(cron: &CronExpr) -> Schedule {
    Schedule::new(cron.clone(), TimeZone::parse("UTC").unwrap()).unwrap()
}

fn translated(engine: Engine, text: &str) -> Option<CronExpr> {
    let words: Vec<_> = text.split(' ').collect();
    schedule::translate(engine, &words).ok().map(|translation| translation.cron)
}

/// Day, month, weekday and the length of the month, for each day of three years, one of them a leap year.
fn days() -> impl Iterator<Item = (i64, usize, usize, usize, usize)> {
    let lengths = |leap: bool| [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let years = [false, true, false].into_iter().flat_map(move |leap| (1..).zip(lengths(leap)));
    let dates = years.flat_map(|(month, length)| (1..=length).map(move |day| (day, month, length)));
    dates
        .enumerate()
        .map(|(index, (day, month, length))| (START_MS + i64::try_from(index).unwrap() * DAY_MS, day, month, index % 7, length))
}

const DAYS_OF_MONTH: [&str; 18] = [
    "*",
    "*/2",
    "1-31",
    "1-15",
    "31",
    "1,15",
    "*/40",
    "10-20/3",
    "*,5",
    "1-31/1",
    "1-31/2",
    "5,*/7",
    "*/31",
    "7",
    "2-6,20-22",
    "*/1",
    "3-3",
    "30-31",
];
const DAYS_OF_WEEK: [&str; 17] =
    ["*", "0-7", "*/2", "1-5", "0", "7", "5-7", "MON,WED", "*/1", "0-6", "*,1", "3-7/2", "sat", "*/7", "1-6/5", "tue-thu", "0-7/3"];

/// Cron's bit string of a field, character by character as cronie's `get_list` fills it; `None` for what it refuses.
fn cronie_bits(text: &str, low: usize, high: usize) -> Option<Vec<bool>> {
    let mut bits = vec![false; high + 1];
    let names = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let number = |text: &str| text.parse().ok().or_else(|| names.iter().position(|name| name.eq_ignore_ascii_case(text)));
    for item in text.split(',') {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (low, high),
            Some((from, to)) => (number(from)?, number(to)?),
            None if step.is_some() => return None,
            None => (number(range)?, number(range)?),
        };
        let step: usize = step.map_or(Some(1), |step| step.parse().ok())?;
        if from > to || from < low || to > high || step == 0 {
            return None;
        }
        let mut at = from;
        while at <= to {
            bits[at] = true;
            at += step;
        }
    }
    Some(bits)
}

#[test]
fn day_fields_of_a_crontab_mean_what_cron_means() {
    let mut compared = 0;
    for dom in DAYS_OF_MONTH {
        for dow in DAYS_OF_WEEK {
            let (days_bits, mut week) = (cronie_bits(dom, 1, 31).unwrap(), cronie_bits(dow, 0, 7).unwrap());
            let sunday = week[0] || week[7];
            (week[0], week[7]) = (sunday, sunday);
            let schedule = utc(&translated(Engine::Cron, &format!("0 0 {dom} * {dow}")).unwrap());
            for (at, day, _, weekday, _) in days() {
                let (day_matches, week_matches) = (days_bits[day], week[weekday]);
                let star = dom.starts_with('*') || dow.starts_with('*');
                let runs = if star { day_matches && week_matches } else { day_matches || week_matches };
                assert_eq!(
                    schedule.matches(TimestampMs::clamped(at)),
                    runs,
                    "{dom} {dow}, day {day}, weekday {weekday}: {}",
                    schedule.expr()
                );
            }
            compared += 1;
        }
    }
    assert_eq!(compared, DAYS_OF_MONTH.len() * DAYS_OF_WEEK.len());
}

#[test]
fn times_of_a_crontab_mean_what_cron_means() {
    for text in ["*", "*/7", "5-50/9", "*/60", "*/90", "0", "59,0", "1-1", "07", "*/2,1", "0-59/100", "10,*/20"] {
        let (minutes, hours) = (cronie_bits(text, 0, 59).unwrap(), cronie_bits(text, 0, 23));
        let schedule = utc(&translated(Engine::Cron, &format!("{text} * * * *")).unwrap());
        for (minute, runs) in (0..).zip(minutes) {
            assert_eq!(schedule.matches(TimestampMs::clamped(START_MS + minute * 60_000)), runs, "{text}, minute {minute}");
        }
        let hourly = translated(Engine::Cron, &format!("0 {text} * * *"));
        assert_eq!(hourly.is_some(), hours.is_some(), "{text}");
        for (hour, runs) in (0..).zip(hours.unwrap_or_default()) {
            assert_eq!(
                utc(hourly.as_ref().unwrap()).matches(TimestampMs::clamped(START_MS + hour * 3_600_000)),
                runs,
                "{text}, hour {hour}"
            );
        }
    }
}

/// The values of a field as `cron-parser` 4 makes them: a list with repetitions, 7 kept in ranges, Sunday put in front of ranges to 7.
fn panel_values(text: &str, min: usize, max: usize) -> Vec<usize> {
    let weekday = max == 7;
    let mut text = text.to_ascii_lowercase();
    for (index, name) in ["sun", "mon", "tue", "wed", "thu", "fri", "sat"].iter().enumerate() {
        text = text.replace(name, &index.to_string());
    }
    let text = text.replace(['*', '?'], &format!("{min}-{max}"));
    let mut values = Vec::new();
    for atom in text.split(',') {
        let (range, interval) = match atom.split_once('/') {
            Some((range, interval)) if range.parse::<usize>().is_ok() => (format!("{range}-{max}"), interval.parse().unwrap()),
            Some((range, interval)) => (range.to_owned(), interval.parse().unwrap()),
            None => (atom.to_owned(), 1),
        };
        let Some((from, to)) = range.split_once('-') else {
            let value: usize = range.parse().unwrap();
            values.push(if weekday { value % 7 } else { value });
            continue;
        };
        let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
        let mut stack = Vec::new();
        if weekday && to % 7 == 0 {
            stack.push(0);
        }
        let mut repeat = interval;
        for index in from..=to {
            if !stack.contains(&index) && repeat % interval == 0 {
                repeat = 1;
                stack.push(index);
            } else {
                repeat += 1;
            }
        }
        values.extend(stack);
    }
    values
}

#[test]
fn day_fields_of_the_panel_mean_what_its_engine_means() {
    let more_days = ["?", "5/3", "1/1", "20/20"];
    let more_weekdays = ["?", "2/2", "1/1", "6/3", "0/7", "1/2", "1-7", "0-6,3", "0-6,3,4"];
    let mut compared = 0;
    for dom in DAYS_OF_MONTH.into_iter().chain(more_days) {
        for dow in DAYS_OF_WEEK.into_iter().chain(more_weekdays) {
            let (month_days, week_days) = (panel_values(dom, 1, 31), panel_values(dow, 0, 7));
            let schedule = utc(&translated(Engine::Panel, &format!("0 0 0 {dom} * {dow}")).unwrap_or_else(|| panic!("{dom} {dow}")));
            for (at, day, month, weekday, _) in days() {
                let longest = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1];
                let (day_matches, week_matches) = (month_days.contains(&day), week_days.contains(&weekday));
                let (any_day, any_weekday) = (month_days.len() >= longest, week_days.len() == 8);
                let runs =
                    (day_matches || week_matches) && (any_day || !any_weekday || day_matches) && (!any_day || any_weekday || week_matches);
                let found = schedule.matches(TimestampMs::clamped(at));
                assert_eq!(found, runs, "{dom} {dow}, day {day} of month {month}, weekday {weekday}: {}", schedule.expr());
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 22 * 26);
}

#[test]
fn times_of_the_panel_mean_what_its_engine_means() {
    for text in ["*", "*/7", "5/9", "0/30", "*/60", "*/90", "0", "59,0", "7/7,3", "0-59/100", "58/1", "10,*/20"] {
        let values = panel_values(text, 0, 59);
        for (field, unit_ms) in [(format!("{text} * * * * *"), 1_000), (format!("0 {text} * * * *"), 60_000)] {
            let schedule = utc(&translated(Engine::Panel, &field).unwrap());
            for value in 0..60 {
                let at = TimestampMs::clamped(START_MS + i64::try_from(value).unwrap() * unit_ms);
                assert_eq!(schedule.matches(at), values.contains(&value), "{field}, {value}");
            }
        }
    }
}

#[test]
fn what_an_engine_refuses_is_refused() {
    let refused = |engine, text: &str| assert!(translated(engine, text).is_none(), "{text}");
    for text in [
        "0/5 * * * *",
        "* * ? * *",
        "* * * * 6-0",
        "* * L * *",
        "* * * * 5#2",
        "0~5 * * * *",
        "60 * * * *",
        "*/0 * * * *",
        "a * * * *",
        "* * 0 * *",
        "*5 * * * *",
        "\u{665} * * * *",
    ] {
        refused(Engine::Cron, text);
    }
    for text in [
        "? * * * * *",
        "* * * * * fri-sun",
        "* * * 15W * *",
        "0 0 0 1-30 * *",
        "0 0 0 5 * 5#2",
        "0 0 0 L,1 * *",
        "0 0 0 * * 1#6",
        "* * * * FOO *",
    ] {
        refused(Engine::Panel, text);
    }
}

fn user(text: &str) -> Imported {
    let options = crontab::Options { format: Format::User, zone: Some(TimeZone::parse("UTC").unwrap()), user: None };
    crontab::read(text, &options)
}

fn only(imported: &Imported) -> &Row {
    assert_eq!(imported.rows.len(), 1, "{:?}", imported.rows);
    &imported.rows[0]
}

/// What the lines of case C40 become.
#[test]
fn per_cent_signs_become_what_cron_makes_of_them() {
    let shell = |text: &str| Command::Shell(text.to_owned());
    for (line, verdict, command, stdin, warned) in [
        (r"* * * * * date '+\%s'", Verdict::Translated, "date '+%s'", None, false),
        ("* * * * * date '+%s'", Verdict::Translated, "date '+", Some("s'\n"), true),
        ("0 5 * * 1 cat%line one%line two", Verdict::Translated, "cat", Some("line one\nline two\n"), false),
        ("0 0 * * 7 true", Verdict::Exact, "true", None, false),
    ] {
        let imported = user(&format!("{line}\n"));
        let (row, job) = (only(&imported), &imported.jobs[0]);
        assert_eq!((row.verdict, !row.warnings.is_empty()), (verdict, warned), "{row:?}");
        assert_eq!((&job.task.command, job.task.stdin.as_deref()), (&shell(command), stdin));
    }
    assert_eq!(only(&user("@reboot true\n")).verdict, Verdict::Refused);
}

#[test]
fn variables_are_for_the_lines_below_them() {
    let imported =
        user("* * * * * a\nA=1\nSHELL=/bin/bash\nHOME=/srv/x\n* * * * * b\nA=2\nSHELL=/bin/sh\nCRON_TZ=Asia/Tokyo\n* * * * * c\n");
    let [a, b, c] = &imported.jobs[..] else { panic!("{imported:?}") };
    assert!(a.task.env.is_empty() && a.task.cwd.is_none());
    assert_eq!((b.task.env["A"].as_str(), b.task.cwd.as_deref()), ("1", Some("/srv/x")));
    assert_eq!(b.task.command, Command::Argv(vec!["/bin/bash".into(), "-c".into(), "b".into()]));
    assert_eq!((c.task.env["A"].as_str(), &c.task.command), ("2", &Command::Shell("c".into())));
    assert_eq!([&a.triggers[0].timezone, &c.triggers[0].timezone], ["UTC", "Asia/Tokyo"]);
}

#[test]
fn a_file_of_the_other_format_is_noticed() {
    let looks_wrong = |format, text: &str| crontab::mismatch(text, format).map(|mismatch| mismatch.line);
    let system = "SHELL=/bin/sh\n17 * * * * root cd / && run-parts /etc/cron.hourly\n";
    assert_eq!(looks_wrong(Format::User, system), Some(2));
    assert_eq!(looks_wrong(Format::System, system), None);
    assert_eq!(looks_wrong(Format::User, "* * * * * deploy /srv/run.sh\n1 * * * * deploy test -e /x\n"), Some(1));
    assert_eq!(looks_wrong(Format::User, "@daily alice /srv/run.sh\n"), Some(1));
    for line in ["/opt/x.sh", "certbot -q renew", "php x.php", "cd /srv && make", "FOO=1 ./x", "[ -x /a ] && /a", "backup.sh --all", "make"]
    {
        let file = format!("# x\nPATH=/bin\n0 3 * * * {line}\n");
        assert_eq!(looks_wrong(Format::User, &file), None, "{line}");
        assert_eq!(looks_wrong(Format::System, &file), Some(3), "{line}");
    }
    assert_eq!(looks_wrong(Format::User, "* * * * * deploy /srv/run.sh\n1 * * * * /opt/x\n"), None, "one of them is surely a command");
    assert_eq!(looks_wrong(Format::User, "* * * * * root -b macro.C\n"), None, "a command does not begin with a dash");
    assert_eq!(looks_wrong(Format::User, "* * * * * /opt/x\n* * * * * www-data php /x\n"), Some(2));
    assert_eq!(looks_wrong(Format::System, "* * * * * alice /opt/x\n* * * * * bob_2 make\n"), None);
}

#[test]
fn only_the_named_users_lines_of_a_system_crontab_are_imported() {
    let options = crontab::Options { format: Format::System, zone: Some(TimeZone::parse("UTC").unwrap()), user: Some("alice".into()) };
    let imported = crontab::read("* * * * *  alice\t a b\n* * * * * root c\n* * * * * alice \n", &options);
    assert_eq!(imported.rows.iter().map(|row| row.verdict).collect::<Vec<_>>(), [Verdict::Exact, Verdict::Refused, Verdict::Refused]);
    assert_eq!(imported.jobs[0].task.command, Command::Shell("a b".into()));
    assert!(imported.rows[1].hint.as_ref().unwrap().contains("--user root"));
    let nobody = crontab::Options { user: None, ..options };
    assert_eq!(crontab::read("* * * * * alice a\n", &nobody).count(Verdict::Refused), 1);
}

#[test]
fn ids_do_not_change_with_the_schedule() {
    let ids = |text: &str| user(text).jobs.iter().map(|job| job.task.id.to_string()).collect::<Vec<_>>();
    let before =
        ids("# Dump the shop\n1 1 * * * pg_dump shop\n2 2 * * * pg_dump app\n# c\n3 3 * * * pg_dump x\n@daily 签到\n@daily 签到\n");
    assert_eq!(before, ["pg_dump", "pg_dump-2", "c", "job", "job-2"]);
    assert_eq!(
        before,
        ids("# Dump the shop\n5 5 * * * pg_dump shop\n@daily pg_dump app\n# c\n3 3 * * 1 pg_dump x\n@daily 签到\n@hourly 签到\n")
    );
}

#[test]
fn lines_end_as_they_end() {
    let imported = user("A=1\r\n* * * * * a b\r\n* * * * * c");
    assert_eq!(imported.jobs[0].task.command, Command::Shell("a b".into()));
    assert_eq!((imported.jobs[1].task.command.clone(), imported.jobs[1].task.env["A"].as_str()), (Command::Shell("c".into()), "1"));
    assert_eq!(imported.notes.iter().filter(|note| note.contains("carriage return") || note.contains("last line")).count(), 2);
    assert!(user("").rows.is_empty());
}

fn panel(items: &Value) -> Imported {
    qinglong::read(&qinglong::list(&items.to_string()).unwrap(), Some(&TimeZone::parse("Asia/Shanghai").unwrap()))
}

/// The field count of the text decides, and nothing else (case C05).
#[test]
fn field_counts_of_the_panel_are_kept() {
    let imported = panel(&json!([
        { "name": "a", "command": "task a", "schedule": "7 7 * * *" },
        { "name": "b", "command": "task b", "schedule": "0/5 * * * * *" },
        { "name": "c", "command": "task c", "schedule": "0/5 * * * *" },
    ]));
    assert_eq!(imported.rows.iter().map(|row| row.verdict).collect::<Vec<_>>(), [Verdict::Exact, Verdict::Translated, Verdict::Refused]);
    let triggers: Vec<_> = imported.jobs.iter().map(|job| (job.triggers[0].cron.as_str(), job.triggers[0].fields)).collect();
    assert_eq!(triggers, [("7 7 * * *", 5), ("0-59/5 * * * * *", 6)]);
    assert!(imported.rows[2].hint.as_ref().unwrap().contains("`0-59/5`"));
}

#[test]
fn the_panels_settings_become_keys_of_the_task() {
    let imported = panel(&json!([{
        "name": "签到", "command": " task jd_bean.js ", "schedule": "0 8 * * *", "isDisabled": 1, "labels": ["x", "", "y z"],
        "task_before": "a\nb", "status": 1, "id": 7, "extra_schedules": [{ "schedule": "0 0 9 * * *" }],
    }]));
    let job = &imported.jobs[0];
    assert_eq!((job.task.id.as_str(), job.task.name.as_deref(), job.task.enabled), ("jd_bean", Some("签到"), false));
    assert_eq!(job.task.command, Command::Shell("task jd_bean.js".into()));
    assert_eq!(job.task.labels.keys().collect::<Vec<_>>(), ["x", "y z"]);
    assert_eq!(job.task.env["task_before"], "a\nb");
    assert_eq!(
        job.triggers.iter().map(|t| (t.id.as_str(), t.cron.as_str())).collect::<Vec<_>>(),
        [("jd_bean", "0 8 * * *"), ("jd_bean:2", "0 0 9 * * *")]
    );
}

#[test]
fn a_list_is_found_in_the_panels_answers() {
    for text in ["[{}]", r#"{"data":[{}]}"#, r#"{"code":200,"data":{"data":[{}],"total":1}}"#, "\u{feff}[{}]"] {
        assert_eq!(qinglong::list(text).unwrap().len(), 1, "{text}");
    }
    for text in ["", "{}", "1", r#"{"data":{}}"#, "[", "task a"] {
        assert!(!qinglong::list(text).unwrap_err().hint.is_empty(), "{text}");
    }
    let rows = panel(&json!([1, {}, { "command": "x" }, { "schedule": "* * * * *" }, { "command": "x", "schedule": 5 }])).rows;
    assert!(rows.iter().all(|row| row.verdict == Verdict::Refused && row.hint.is_some()), "{rows:?}");
}

/// Whatever one wrong key press makes of a crontab: it is answered, and nothing that is imported is refused by `check`.
#[test]
fn no_single_mistake_panics() {
    let text = "PATH=/bin\n# x\n-*/5 1-3 * JAN MON-FRI date '+\\%F' %a%\\%b\n@daily \"x\nCRON_TZ=Asia/Tokyo\n";
    let answer = |text: &str| {
        for job in user(text).jobs {
            job.task.check().unwrap();
            job.triggers[0].check().unwrap();
        }
    };
    for (at, c) in text.char_indices() {
        let (before, after) = text.split_at(at);
        answer(before);
        answer(&format!("{before}{}", &after[c.len_utf8()..]));
        for wrong in ["\"", "%", "\\", "\n", "€", "#", " ", "\0", "@", "*", "/", "-", ",", "999999999999", "="] {
            answer(&format!("{before}{wrong}{after}"));
        }
    }
}
