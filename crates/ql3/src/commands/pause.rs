//! `pause` and `resume`: occurrences are recorded instead of run, and run again.

use runtime_core::{
    ids::{RunId, TriggerId},
    ports::definitions::{Missed, PauseCommand, PauseOutcome},
    schedule::{LedgerEntry, Pause},
};
use serde_json::{Value, json};

use super::{count, operator, project, with_db};
use crate::{
    cli::{Global, MissedChoice},
    failure::Failure,
    moment,
    output::{Out, harmless},
    shapes,
};

pub async fn pause(trigger: TriggerId, reason: Option<String>, global: &Global, out: &Out) -> Result<(), Failure> {
    let command =
        PauseCommand { project_id: project(global), trigger_id: trigger, paused: true, missed: Missed::Skip, by: operator(reason)? };
    act(&command, global, out).await
}

pub async fn resume(trigger: TriggerId, missed: MissedChoice, reason: Option<String>, global: &Global, out: &Out) -> Result<(), Failure> {
    let missed = match missed {
        MissedChoice::Skip => Missed::Skip,
        MissedChoice::One => Missed::One,
    };
    let command = PauseCommand { project_id: project(global), trigger_id: trigger, paused: false, missed, by: operator(reason)? };
    act(&command, global, out).await
}

async fn act(command: &PauseCommand, global: &Global, out: &Out) -> Result<(), Failure> {
    let id = &command.trigger_id;
    let (outcome, item) = with_db(global, async |db| {
        let outcome = db.definitions().set_paused(command).await?;
        Ok((outcome, db.history().trigger(&command.project_id, id).await?))
    })
    .await?;
    if out.json {
        out.json(&to_json(command, &outcome));
        return Ok(());
    }
    let pause = item.as_ref().and_then(|item| item.schedule.paused.as_ref());
    let said = match (outcome.changed, pause) {
        (true, Some(_)) => format!("{id} is paused: its occurrences are recorded, not run, until `ql3 resume {id}`"),
        (true, None) => format!("{id} runs again, from now on"),
        (false, Some(pause)) => format!("nothing changed: {id} {}", described(pause)),
        (false, None) => format!("nothing changed: {id} is not paused"),
    };
    out.line(harmless(&said, &[]));
    if let Some(recorded) = recorded(&outcome) {
        out.line(recorded);
    }
    Ok(())
}

/// What became of occurrences that were due, in words.
fn recorded(outcome: &PauseOutcome) -> Option<String> {
    let made_up = |id: RunId| format!("run {id} makes up for the latest one that was missed");
    match (&outcome.ledger, outcome.admitted) {
        (None, None) => None,
        (None, Some(run)) => Some(made_up(run)),
        (Some(entry), None) => Some(kept_back(entry)),
        (Some(entry), Some(run)) => Some(format!("{}; {}", made_up(run), kept_back(entry))),
    }
}

fn kept_back(entry: &LedgerEntry) -> String {
    let stretch = &entry.stretch;
    let more = if stretch.capped { "more than " } else { "" };
    format!(
        "{more}{} not run and recorded as {}, {} to {}",
        count(stretch.count, "occurrence"),
        stretch.reason,
        moment::utc(stretch.from),
        moment::utc(stretch.to)
    )
}

/// `was paused 2026-03-29 01:00:00Z by tester: the disk is full`.
pub fn described(pause: &Pause) -> String {
    let reason = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("was paused {} by {}{reason}", moment::utc(pause.at), pause.by)
}

fn to_json(command: &PauseCommand, outcome: &PauseOutcome) -> Value {
    json!({
        "triggerId": command.trigger_id, "paused": command.paused, "changed": outcome.changed,
        "recorded": outcome.ledger.as_ref().map(shapes::ledger), "runId": outcome.admitted,
    })
}
