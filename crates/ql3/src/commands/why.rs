//! `why`: what became, or will become, of one instant of a trigger.

use runtime_core::{
    Invalid, TimestampMs,
    cron::{Note, Occurrence, Schedule, WallTime},
    definition::Head,
    ids::TriggerId,
    ports::instants::InstantFacts,
    run::Run,
    schedule::{LedgerEntry, LedgerReason, Pause},
    why::{Verdict, explain},
};
use serde_json::{Value, json};

use super::{count, pause::described, project, with_db};
use crate::{
    cli::Global,
    duration,
    failure::Failure,
    moment,
    output::{Out, harmless},
    reference::short,
    shapes,
};

/// What is explained, and how it was asked for.
struct Question {
    at: TimestampMs,
    /// Why `at` is not simply what was asked for.
    wall: Option<(&'static str, String)>,
}

pub async fn run(trigger: TriggerId, instant: String, global: &Global, out: &Out) -> Result<(), Failure> {
    let project = project(global);
    let (question, facts, running) = with_db(global, async |db| {
        let missing = || Failure::not_found("trigger", trigger.as_str()).hint("`ql3 triggers` lists what there is");
        let item = db.history().trigger(&project, &trigger).await?.ok_or_else(missing)?;
        let question = read(&instant, &item.head.spec.schedule()?)?;
        let facts = db.instants().instant(&project, &trigger, question.at).await?.ok_or_else(missing)?;
        Ok((question, facts, db.has_scheduler()?))
    })
    .await?;
    let verdict = explain(&facts, question.at);
    let said = summary(&facts, &verdict, question.at, running);
    if out.json {
        out.json(&to_json(&question, &facts, &verdict, &said, running));
    } else {
        print(&question, &facts, &verdict, &said, out);
    }
    Ok(())
}

/// An instant, or a wall time in the trigger's zone.
fn read(text: &str, schedule: &Schedule) -> Result<Question, Invalid> {
    if let Ok(at) = TimestampMs::parse(text) {
        return Ok(Question { at, wall: None });
    }
    let zone = schedule.zone();
    let local = |at| moment::spaced(&schedule.occurrence(at).local);
    Ok(match zone.wall_time(text)? {
        WallTime::Once(at) => Question { at, wall: None },
        WallTime::Skipped(at) => {
            let moved = if schedule.matches(at) && schedule.occurrence(at).note == Some(Note::Gap) {
                "what is due in the gap occurs then"
            } else {
                "nothing of this trigger is due in the gap"
            };
            let text = format!("{text} does not exist in {zone}: the first instant after the gap is {}, and {moved}", local(at));
            Question { at, wall: Some(("gap", text)) }
        }
        WallTime::Twice(first, second) => {
            let both = schedule.matches(first) && schedule.matches(second);
            let runs = if both { "the trigger runs both times" } else { "a fixed time runs the first time only" };
            let other = schedule.occurrence(second).local;
            let text = format!("{text} comes twice in {zone}, and {runs}: this is the first; ask for the second as {other}");
            Question { at: first, wall: Some(("overlap", text)) }
        }
    })
}

/// The answer in a sentence.
fn summary(facts: &InstantFacts, verdict: &Verdict<'_>, at: TimestampMs, running: bool) -> String {
    let item = &facts.trigger;
    let next = || item.head.spec.schedule().ok().and_then(|schedule| item.schedule.next_owed(&schedule));
    match verdict {
        Verdict::Admitted { run, late_ms } => {
            format!("admitted as run {} ({}), {} late", short(run.id), run.status, duration::show(*late_ms))
        }
        Verdict::Recorded(entry) => format!("not run: {}", recorded(facts, entry)),
        Verdict::NotAnOccurrence { .. } => {
            let spec = facts.in_force.as_ref().map_or(&item.head.spec, |head| &head.spec);
            format!("not an occurrence of `{}` in {}", spec.cron, spec.timezone)
        }
        Verdict::NotYetDefined(first) => {
            let since = first.map(|head| format!(", it was first defined {}", moment::utc(head.created_at))).unwrap_or_default();
            format!("not run: the trigger did not exist yet{since}")
        }
        Verdict::Archived(tombstone) => format!("not run: archived by revision {}, {}", tombstone.revision, period(facts, tombstone)),
        Verdict::Disabled(head) => format!("not run: disabled by revision {}, {}", head.revision, period(facts, head)),
        Verdict::TaskResting(task) => {
            let how = if task.archived { "archived" } else { "disabled" };
            format!("not run: its task `{}` is {how} by revision {}, since {}", task.spec.id, task.revision, moment::utc(task.created_at))
        }
        Verdict::Unreadable(refused) => format!("not run: its definition cannot be evaluated: {refused}"),
        Verdict::Paused(pause) => format!("not run: it {}; this is recorded when the pause ends", described(pause)),
        Verdict::SetAside(aside) => {
            format!("not run: it was set aside {}: {}; an edit gives it another chance", moment::utc(aside.at), aside.reason)
        }
        Verdict::Future { next } => {
            let away = moment::relative(at, facts.observed_at);
            match next.filter(|next| *next != at) {
                Some(next) => format!("not yet: {away}; before it comes {}", moment::utc(next)),
                None => format!("not yet: {away}, it is the next one"),
            }
        }
        Verdict::ClockBehind { mark } => format!(
            "due, and nothing is scheduled while the clock is behind what was recorded: it is {}, the mark is {}; see `ql3 help clock accept`",
            moment::utc(facts.observed_at),
            moment::utc(*mark)
        ),
        Verdict::Due if running => "due, and about to be decided".to_owned(),
        Verdict::Due => "due, but no `ql3 up` runs on this database: nothing is scheduled until one does".to_owned(),
        Verdict::Pruned(before) => {
            format!("history before {} has been pruned: what became of it is not known any more", moment::utc(*before))
        }
        Verdict::Unrecorded => {
            let next = next().map(|next| format!("; the next one is {}", moment::utc(next))).unwrap_or_default();
            let since = moment::utc(item.schedule.activated_at);
            format!("neither a Run nor a reason is recorded; the trigger was last activated {since}{next}")
        }
    }
}

/// From when until when a revision was current.
fn period<T>(facts: &InstantFacts, head: &Head<T>) -> String {
    let until = facts.followed_by.as_ref();
    let until = until.map(|next| format!(" until {} (revision {})", moment::utc(next.created_at), next.revision));
    format!("since {}{}", moment::utc(head.created_at), until.unwrap_or_default())
}

/// The reason of a ledger entry in words.
fn recorded(facts: &InstantFacts, entry: &LedgerEntry) -> String {
    let recorded_at = moment::utc(entry.recorded_at);
    let run = || {
        let status = |run: &Run| format!(" ({})", run.status);
        let id = entry.stretch.run_id.map_or_else(|| "of the trigger".to_owned(), short);
        format!("run {id}{}", facts.recorded_run.as_ref().map(status).unwrap_or_default())
    };
    match entry.stretch.reason {
        LedgerReason::Collapsed => format!("a later occurrence was admitted in its stead, as {}", run()),
        LedgerReason::Misfired => format!("it was noticed too late, {recorded_at}, and the policy is misfire = \"skip\""),
        LedgerReason::Overlap => format!("{} was unfinished, and the policy is overlap = \"skip\"", run()),
        LedgerReason::Superseded => match &facts.recorded_under {
            Some(head) if head.revision != entry.trigger_revision => {
                format!(
                    "due but not yet admitted when revision {} replaced revision {}, {recorded_at}",
                    head.revision, entry.trigger_revision
                )
            }
            _ => format!("due but not yet admitted when its task was switched, {recorded_at}"),
        },
        LedgerReason::Archived => format!("due but not yet admitted when the trigger was archived, {recorded_at}"),
        LedgerReason::Paused => match pause(facts) {
            Some(pause) => format!("it {}", described(&pause)),
            None => format!("the trigger was paused; recorded {recorded_at}"),
        },
    }
}

/// The pause that an entry speaks of.
fn pause(facts: &InstantFacts) -> Option<Pause> {
    let act = facts.pause.as_ref()?;
    Some(Pause { at: act.at, by: act.by.name.clone(), reason: act.by.reason.clone() })
}

fn print(question: &Question, facts: &InstantFacts, verdict: &Verdict<'_>, said: &str, out: &Out) {
    let paint = out.paint;
    let spec = &facts.in_force.as_ref().unwrap_or(&facts.trigger.head).spec;
    let local = |at: TimestampMs| spec.schedule().map_or_else(|_| moment::utc(at), |s| moment::spaced(&s.occurrence(at).local));
    let tone = match verdict {
        Verdict::Admitted { .. } | Verdict::Future { .. } => paint.green(harmless(said, &[])),
        Verdict::Due | Verdict::NotAnOccurrence { .. } => harmless(said, &[]),
        Verdict::Unrecorded | Verdict::Unreadable(_) | Verdict::ClockBehind { .. } => paint.red(harmless(said, &[])),
        _ => paint.yellow(harmless(said, &[])),
    };
    let at = question.at;
    out.line(format_args!("{} at {} ({}): {tone}", paint.bold(&spec.id), local(at), moment::utc(at)));
    let line = |name: &str, value: String| out.line(format_args!("  {} {}", paint.dim(format_args!("{name:<8}")), harmless(&value, &[])));
    if let Some((_, text)) = &question.wall {
        line("clock", text.clone());
    }
    match verdict {
        Verdict::Admitted { run, .. } => {
            let digest = |digest: &runtime_core::digest::Digest| digest.as_str()[..12].to_owned();
            let trigger = run.trigger_revision.zip(run.trigger_digest.as_ref());
            if let Some((revision, of)) = trigger {
                line("trigger", format!("revision {revision}, digest {}", digest(of)));
            }
            line("task", format!("{} revision {}, digest {}", run.task_id, run.task_revision, digest(&run.task_digest)));
            if let Some(by) = &run.triggered_by {
                line("by", by.clone());
            }
            line("see", format!("ql3 run show {}", run.id));
        }
        Verdict::Recorded(entry) => {
            let stretch = &entry.stretch;
            let more = if stretch.capped { " or more" } else { "" };
            let count = format!("{}{more}", count(stretch.count, "occurrence"));
            line("stretch", format!("{count} of revision {}, {} to {}", entry.trigger_revision, local(stretch.from), local(stretch.to)));
            line("reason", format!("{}, recorded {}", stretch.reason, moment::utc(entry.recorded_at)));
        }
        Verdict::NotAnOccurrence { before, after } => {
            line("before", near(before.as_ref()));
            line("after", near(after.as_ref()));
        }
        Verdict::Unrecorded => line("see", "ql3 verify".to_owned()),
        _ => {}
    }
}

fn near(occurrence: Option<&Occurrence>) -> String {
    let Some(Occurrence { at, local, note }) = occurrence else { return "none".to_owned() };
    let note = match note {
        Some(Note::Gap) => ", for a wall time that does not exist on this day",
        Some(Note::Overlap) => ", a wall time that comes twice on this day",
        None => "",
    };
    format!("{} ({}){note}", moment::spaced(local), moment::utc(*at))
}

fn to_json(question: &Question, facts: &InstantFacts, verdict: &Verdict<'_>, said: &str, running: bool) -> Value {
    let item = &facts.trigger;
    let at = question.at;
    let schedule = facts.in_force.as_ref().unwrap_or(&item.head).spec.schedule().ok();
    let occurrence = |o: &Occurrence| json!({ "at": o.at.to_string(), "local": o.local, "note": note(o.note) });
    let (mut run, mut late, mut entry, mut pause_of, mut nearest, mut next) = (None, None, None, None, Value::Null, None);
    match verdict {
        Verdict::Admitted { run: of, late_ms } => (run, late) = (Some(shapes::run_brief(of)), Some(*late_ms)),
        Verdict::Recorded(of) => {
            entry = Some(shapes::ledger(of));
            pause_of = pause(facts).filter(|_| of.stretch.reason == LedgerReason::Paused);
            run = facts.recorded_run.as_ref().map(shapes::run_brief);
        }
        Verdict::Paused(of) => pause_of = Some((*of).clone()),
        Verdict::NotAnOccurrence { before, after } => {
            nearest = json!({ "before": before.as_ref().map(occurrence), "after": after.as_ref().map(occurrence) });
        }
        Verdict::Future { next: of } => next = *of,
        _ => {}
    }
    json!({
        "triggerId": item.head.spec.id, "projectId": item.head.project_id, "at": shapes::at(Some(at)),
        "local": schedule.as_ref().map(|s| s.occurrence(at).local), "clock": question.wall.as_ref().map(|(kind, _)| *kind),
        "verdict": verdict.code(), "summary": said, "run": run, "lateMs": late, "recorded": entry,
        "pause": pause_of.map(|pause| json!({ "at": shapes::at(Some(pause.at)), "by": pause.by, "reason": pause.reason })),
        "nearest": nearest, "nextFireAt": shapes::at(next), "revision": facts.in_force.as_ref().map(head_json),
        "followedBy": facts.followed_by.as_ref().map(head_json),
        "taskRevision": facts.task.as_ref().map(head_json),
        "observedAt": shapes::at(Some(facts.observed_at)), "schedulerRunning": running,
    })
}

fn head_json<T>(head: &Head<T>) -> Value {
    json!({
        "revision": head.revision, "digest": head.digest.as_str(), "archived": head.archived, "createdAt": shapes::at(Some(head.created_at)),
    })
}

fn note(note: Option<Note>) -> Option<&'static str> {
    note.map(|note| match note {
        Note::Gap => "gap",
        Note::Overlap => "overlap",
    })
}
