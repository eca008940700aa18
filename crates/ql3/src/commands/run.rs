//! `run show|events|start|cancel|retry`; `run logs` has a module of its own.

use runtime_core::{
    ids::RunId,
    limits::EVENT_PAGE_MAX,
    ports::{
        control::{CancelOutcome, StartCommand},
        history::RunFacts,
    },
    run::{CancelReason, RunStatus, TriggerType},
};
use serde_json::{Value, json};

use super::{logs, operator, project, with_db};
use crate::{
    cli::{Global, Run},
    duration,
    failure::{Exit, Failure},
    moment,
    output::{Out, harmless},
    reference::RunRef,
    shapes,
    store::Db,
    table::{Cell, Table},
};

pub async fn run(command: Run, global: &Global, out: &Out) -> Result<(), Failure> {
    with_db(global, async |db| act(command, db, global, out).await).await
}

async fn act(command: Run, db: &Db, global: &Global, out: &Out) -> Result<(), Failure> {
    match command {
        Run::Show { run } => show(&facts(db, &run, global).await?, out),
        Run::Events { run } => events(db, find(db, &run, global).await?, out).await?,
        Run::Start { task, key, reason } => {
            let by = operator(reason)?;
            let command =
                StartCommand { project_id: project(global), task_id: task, trigger_type: TriggerType::Manual, idempotency_key: key, by };
            let started = db.control().start(&command).await?;
            let said = if started.created { "queued (a running `ql3 up` starts it) as" } else { "the key was used before, by" };
            answer(out, &json!({ "runId": started.run_id, "created": started.created }), &format!("{said} {}", started.run_id));
        }
        Run::Cancel { run, reason } => cancel(db, find(db, &run, global).await?, reason, out).await?,
        Run::Retry { run, reason } => {
            let of = find(db, &run, global).await?;
            let id = db.control().retry(of, &operator(reason)?).await?;
            answer(out, &json!({ "runId": id, "retryOfRunId": of }), &format!("queued as {id}, a retry of {of}"));
        }
        Run::Logs(args) => logs::show(args, db, global, out).await?,
    }
    Ok(())
}

fn answer(out: &Out, json: &Value, text: &str) {
    if out.json { out.json(json) } else { out.line(text) }
}

/// The Run that a reference means.
pub async fn find(db: &Db, reference: &RunRef, global: &Global) -> Result<RunId, Failure> {
    reference.resolve(db.history(), &project(global)).await
}

/// Everything about it.
pub async fn facts(db: &Db, reference: &RunRef, global: &Global) -> Result<RunFacts, Failure> {
    let id = find(db, reference, global).await?;
    let facts = db.history().facts(id).await?;
    facts.ok_or_else(|| Failure::not_found("run", &id.to_string()).hint("`ql3 runs` lists the newest ones"))
}

fn show(facts: &RunFacts, out: &Out) {
    let run = &facts.run;
    if out.json {
        let attempts: Vec<_> = facts.attempts.iter().map(shapes::attempt).collect();
        out.json(&json!({
            "run": shapes::run(run, facts.attempts.len()), "attempts": attempts, "retryPolicy": facts.policy.as_ref().map(shapes::policy),
        }));
        return;
    }
    let now = moment::now();
    let line = |name: &str, value: &str| out.line(format_args!("{} {value}", out.paint.dim(format_args!("{name:<14}"))));
    line("run", &out.paint.bold(run.id));
    line("status", &shapes::status_text(run.status, out.paint));
    line("task", &format!("{} (revision {}, {})", run.task_id, run.task_revision, &run.task_digest.as_str()[..12]));
    if let (Some(trigger), Some(revision)) = (&run.trigger_id, run.trigger_revision) {
        line("trigger", &format!("{trigger} (revision {revision})"));
    }
    if let Some(of) = run.retry_of_run_id {
        line("retry of", &of.to_string());
    }
    if let Some(by) = &run.triggered_by {
        line("started by", &harmless(by, &[]));
    }
    for (name, at) in [
        ("scheduled for", run.scheduled_for),
        ("created", Some(run.created_at)),
        ("started", run.started_at),
        ("finished", run.finished_at),
    ] {
        if let Some(at) = at {
            line(name, &format!("{} ({})", moment::utc_ms(at), moment::relative(at, now)));
        }
    }
    if let Some(at) = run.cancel_requested_at {
        line("cancelled", &format!("asked for {} ({})", moment::utc_ms(at), run.cancel_reason.map_or("-", |reason| reason.as_str())));
    }
    if let Some(at) = facts.policy.as_ref().and_then(|policy| policy.next_attempt_at) {
        line("next attempt", &format!("{} ({})", moment::utc_ms(at), moment::relative(at, now)));
    }
    if let Some(code) = &run.error_code {
        line("error", &harmless(&format!("{code}: {}", run.error_summary.as_deref().unwrap_or("-")), &[]));
    }
    out.line("");
    let mut table = Table::new(&["ATTEMPT", "STATUS", "STARTED", "TOOK", "EXIT", "PID", "ERROR"]);
    for attempt in &facts.attempts {
        let took = attempt.started_at.map(|start| duration::show(attempt.finished_at.unwrap_or(now).since_ms(start)));
        let error = attempt.error_code.as_ref().map(|code| format!("{code}: {}", attempt.error_summary.as_deref().unwrap_or("-")));
        table.row([
            attempt.attempt.to_string().into(),
            attempt.status.as_str().into(),
            Cell::option(attempt.started_at.map(moment::utc_ms)),
            Cell::option(took),
            Cell::option(attempt.exit_code.map(|code| code.to_string())),
            Cell::option(attempt.pid.map(|pid| pid.to_string())),
            Cell::option(error),
        ]);
    }
    table.print(out);
}

async fn events(db: &Db, id: RunId, out: &Out) -> Result<(), Failure> {
    if db.runs().run(id).await?.is_none() {
        return Err(Failure::not_found("run", &id.to_string()).hint("`ql3 runs` lists the newest ones"));
    }
    let mut events = Vec::new();
    loop {
        let after = events.last().map_or(0, |event: &runtime_core::run::RunEvent| event.sequence);
        let page = db.runs().events(id, after, EVENT_PAGE_MAX).await?;
        let more = page.len() == EVENT_PAGE_MAX as usize;
        events.extend(page);
        if !more {
            break;
        }
    }
    if out.json {
        let events: Vec<_> = events.iter().map(shapes::event).collect();
        out.json(&json!({ "events": events }));
        return Ok(());
    }
    let mut table = Table::new(&["SEQ", "AT", "EVENT", "ACTOR", "DETAIL"]);
    for event in &events {
        let actor = match &event.actor.id {
            Some(id) => format!("{} {id}", event.actor.kind),
            None => event.actor.kind.to_string(),
        };
        let detail = Some(event.payload.as_str()).filter(|text| *text != "{}");
        table.row([
            event.sequence.to_string().into(),
            moment::utc_ms(event.created_at).into(),
            event.kind.name().into(),
            actor.into(),
            Cell::option(detail),
        ]);
    }
    table.print(out);
    Ok(())
}

async fn cancel(db: &Db, id: RunId, reason: Option<String>, out: &Out) -> Result<(), Failure> {
    let outcome = db.control().cancel(id, CancelReason::User, &operator(reason)?).await?;
    let (code, text) = match outcome {
        CancelOutcome::Cancelled => ("cancelled", "cancelled".to_owned()),
        CancelOutcome::Requested => ("requested", "asked to end; `ql3 up` stops its process".to_owned()),
        CancelOutcome::AlreadyRequested => ("already_requested", "had been asked to end before".to_owned()),
        CancelOutcome::AlreadyFinal(RunStatus::Cancelled) => ("already_cancelled", "had been cancelled before".to_owned()),
        CancelOutcome::AlreadyFinal(status) => {
            return Err(Failure::new(Exit::Conflict, "already_final", format!("run {id} has ended before: {status}")));
        }
    };
    answer(out, &json!({ "runId": id, "outcome": code }), &format!("{id}: {text}"));
    Ok(())
}
