//! `run logs`: what a Run printed, and what it still prints.

use std::{io::Read as _, time::Duration};

use edge_control::logs::{LogReader, LossyText};
use runtime_core::{ids::RunId, run::RunAttempt};
use serde_json::json;

use super::run::{facts, find};
use crate::{
    cli::{Global, Logs},
    failure::Failure,
    output::{Out, complain, harmless},
    store::Db,
};

/// How often a follower looks again.
const FOLLOW: Duration = Duration::from_millis(200);

pub async fn show(args: Logs, db: &Db, global: &Global, out: &Out) -> Result<(), Failure> {
    let latest = facts(db, &args.run, global).await?.attempts.last().map_or(1, |attempt| attempt.attempt);
    let run_id = find(db, &args.run, global).await?;
    let mut attempt = args.attempt.unwrap_or(latest);
    if state(db, run_id, attempt).await?.is_none() {
        return Err(Failure::not_found("attempt", &format!("{attempt} of run {run_id}")).hint("`ql3 run show RUN` lists the attempts"));
    }
    let mut printer = Printer { out, raw: args.raw, follow: args.follow, lossy: LossyText::default(), collected: String::new() };
    loop {
        print_attempt(db, run_id, attempt, &mut printer).await?;
        // A follower without an attempt of its own goes on with the next one until the Run has ended.
        if !args.follow || args.attempt.is_some() || out.closed() {
            break;
        }
        match next_attempt(db, run_id, attempt).await? {
            Some(next) => attempt = next,
            None => break,
        }
        if !out.json {
            complain(out.paint.dim(format_args!("--- attempt {attempt} ---")));
        }
    }
    if out.json && !args.follow {
        out.json(&json!({
            "runId": run_id, "attempt": attempt, "text": printer.collected, "undecodableBytes": printer.lossy.undecodable_bytes(),
        }));
    }
    Ok(())
}

async fn state(db: &Db, run_id: RunId, attempt: u32) -> Result<Option<RunAttempt>, Failure> {
    Ok(db.history().attempts(run_id).await?.into_iter().find(|found| found.attempt == attempt))
}

/// Waits for the attempt after `attempt`; `None` once there will be none.
async fn next_attempt(db: &Db, run_id: RunId, attempt: u32) -> Result<Option<u32>, Failure> {
    loop {
        if state(db, run_id, attempt + 1).await?.is_some() {
            return Ok(Some(attempt + 1));
        }
        if db.runs().run(run_id).await?.is_none_or(|run| run.status.is_final()) {
            return Ok(None);
        }
        tokio::time::sleep(FOLLOW).await;
    }
}

async fn print_attempt(db: &Db, run_id: RunId, attempt: u32, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let mut reader: Option<LogReader> = None;
    loop {
        // Asked before reading: what an attempt printed is all there once it has ended.
        let ended = state(db, run_id, attempt).await?.is_none_or(|attempt| attempt.status.is_final());
        if reader.is_none() {
            reader = LogReader::open(db.log_dir(), run_id, attempt).map_err(|error| unreadable(&error))?;
        }
        if let Some(reader) = &mut reader {
            printer.all(reader, attempt)?;
        }
        if ended || !printer.follow || printer.out.closed() {
            printer.finish(attempt);
            if reader.is_none() && !printer.out.json {
                complain(format_args!("attempt {attempt} has printed nothing yet; `ql3 run show RUN` tells where it stands"));
            }
            return Ok(());
        }
        tokio::time::sleep(FOLLOW).await;
    }
}

fn unreadable(error: &std::io::Error) -> Failure {
    Failure::new(crate::failure::Exit::Unavailable, "log_unreadable", format!("cannot read the log: {error}"))
}

struct Printer<'a> {
    out: &'a Out,
    raw: bool,
    follow: bool,
    lossy: LossyText,
    /// For the one JSON object at the end.
    collected: String,
}

impl Printer<'_> {
    fn all(&mut self, reader: &mut LogReader, attempt: u32) -> Result<(), Failure> {
        let mut buffer = vec![0; 64 * 1024];
        while !self.out.closed() {
            let count = reader.read(&mut buffer).map_err(|error| unreadable(&error))?;
            if count == 0 {
                break;
            }
            if self.raw {
                self.out.text(&buffer[..count]);
            } else {
                let text = self.lossy.push(&buffer[..count]);
                self.text(&text, attempt);
            }
        }
        Ok(())
    }

    fn finish(&mut self, attempt: u32) {
        let rest = self.lossy.finish();
        self.text(&rest, attempt);
    }

    fn text(&mut self, text: &str, attempt: u32) {
        match (self.out.json, self.follow) {
            _ if text.is_empty() => {}
            (true, true) => self.out.line(json!({ "attempt": attempt, "text": text })),
            (true, false) => self.collected.push_str(text),
            (false, _) => self.out.text(harmless(&text.replace("\r\n", "\n"), &['\n', '\t'])),
        }
    }
}
