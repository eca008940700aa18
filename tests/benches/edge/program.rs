//! The program itself: start, size, memory, lateness.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Stdio},
    thread,
    time::{Duration, Instant},
};

use ql3_tests::{Place, children, kill, ql3, wait_until};
use rusqlite::Connection;

use crate::{Figure, ROUNDS, median};

const SECOND: i64 = 1_000;

/// `ql3 up --json`, and the lines that it prints.
struct Up {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Up {
    fn start(place: &Place) -> Self {
        let mut child = place.command(&["up", "--json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads up to a line of this event.
    fn wait_for(&mut self, event: &str) {
        let event = format!("\"event\":\"{event}\"");
        let mut line = String::new();
        while !line.contains(&event) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "ql3 up ended before {event}");
        }
    }

    fn stop(mut self) {
        kill("TERM", self.child.id());
        // Its last lines must not find a closed pipe.
        for line in self.lines.lines() {
            drop(line.unwrap());
        }
        assert!(self.child.wait().unwrap().success());
    }
}

/// A jobs file of `count` tasks with one trigger each.
fn jobs(count: usize, cron: &str, command: &str, more: &str) -> String {
    let mut text = "[defaults]\ntimezone = \"UTC\"\n".to_owned();
    for n in 0..count {
        write!(text, "\n[[task]]\nid = \"job-{n:04}\"\ncommand = {command}\n[[task.trigger]]\ncron = \"{cron}\"\n{more}\n").unwrap();
    }
    text
}

fn applied(jobs: &str) -> Place {
    let place = Place::new();
    place.write("jobs.toml", jobs);
    place.ok(&["apply", "jobs.toml"]);
    place
}

/// From the start of the process to the line that says so; an occurrence is due each time.
pub fn start_and_size() -> Vec<Figure> {
    let place = applied(&jobs(1, "* * * * * *", r#"["true"]"#, ""));
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let began = Instant::now();
        let mut up = Up::start(&place);
        up.wait_for("admitted");
        // The first start has to wait for the first occurrence.
        if round > 0 {
            rounds.push(began.elapsed().as_secs_f64() * 1_000.0);
        }
        up.stop();
        thread::sleep(Duration::from_millis(1_100));
    }
    vec![
        Figure::new("cold start of `ql3 up` to the first admission", "ms", median(rounds), "<= 100"),
        Figure::new("stripped release binary", "MiB", mib(std::fs::metadata(ql3()).unwrap().len()), "<= 10"),
    ]
}

pub fn memory() -> Vec<Figure> {
    let idle = applied(&jobs(1_000, "0 0 1 1 *", r#"["true"]"#, ""));
    let busy = applied(&jobs(1, "* * * * * *", r#"["sleep", "60"]"#, "overlap = \"skip\""));
    let (mut scheduler, mut guard) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut up = Up::start(&idle);
        up.wait_for("ready");
        // Its first cycles set the cursors of all triggers.
        thread::sleep(Duration::from_secs(2));
        scheduler.push(resident_mib(up.child.id()));
        up.stop();

        let mut up = Up::start(&busy);
        up.wait_for("started");
        wait_until("the guard has its command", || children(up.child.id()).iter().any(|guard| !children(*guard).is_empty()));
        guard.push(resident_mib(children(up.child.id())[0]));
        for run in busy.runs().iter().filter(|run| run["finishedAt"].is_null()) {
            busy.ok(&["run", "cancel", run["id"].as_str().unwrap()]);
        }
        up.wait_for("finished");
        up.stop();
    }
    vec![
        Figure::new("resident memory of `ql3 up` with 1,000 triggers", "MiB", median(scheduler), "<= 16"),
        Figure::new("resident memory of a guard", "MiB", median(guard), "<= 3"),
    ]
}

/// `VmRSS`: shared pages of the program count as well.
fn resident_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")).unwrap();
    mib(kib.trim().parse::<u64>().unwrap() * 1_024)
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1_024).unwrap()) / 1_024.0
}

/// 20 triggers each second, in stretches of 10 s.
pub fn lateness() -> Vec<Figure> {
    const STRETCH: i64 = 10 * SECOND;
    let place = applied(&jobs(20, "* * * * * *", r#"["true"]"#, ""));
    let up = Up::start(&place);
    thread::sleep(Duration::from_secs(3 + 10 * ROUNDS as u64));
    up.stop();
    let conn = Connection::open(place.path("ql3.db")).unwrap();
    let first: i64 = conn.query_row("SELECT min(scheduled_for_ms) FROM runs", [], |row| row.get(0)).unwrap();
    let (mut middle, mut most, mut started) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..i64::try_from(ROUNDS).unwrap() {
        let from = first + SECOND + round * STRETCH;
        let admitted = late(&conn, "created_at_ms", from, from + STRETCH);
        assert_eq!(admitted.len(), 200, "20 triggers for 10 s");
        middle.push(percentile(&admitted, 50));
        most.push(percentile(&admitted, 99));
        started.push(percentile(&late(&conn, "started_at_ms", from, from + STRETCH), 99));
    }
    vec![
        Figure::new("20 triggers each second, admitted late by, p50", "ms", median(middle), ""),
        Figure::new("20 triggers each second, admitted late by, p99", "ms", median(most), "<= 10"),
        Figure::new("20 triggers each second, started late by, p99", "ms", median(started), "<= 60"),
    ]
}

/// Milliseconds between an occurrence and what was stored about its Run, in order.
fn late(conn: &Connection, column: &str, from: i64, to: i64) -> Vec<f64> {
    let sql = format!(
        "SELECT {column} - scheduled_for_ms FROM runs WHERE scheduled_for_ms >= ?1 AND scheduled_for_ms < ?2 AND {column} IS NOT NULL
         ORDER BY 1"
    );
    let mut statement = conn.prepare(&sql).unwrap();
    statement.query_map([from, to], |row| row.get::<_, i32>(0).map(f64::from)).unwrap().map(Result::unwrap).collect()
}

/// Nearest rank.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent).div_ceil(100) - 1]
}
