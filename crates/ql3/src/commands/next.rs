//! `next`: when something runs, by the evaluator that decides it.

use runtime_core::{
    Invalid, TimestampMs,
    cron::{self, CronExpr, DayRule, Note, Occurrence, Schedule, TimeZone},
};
use serde_json::{Value, json};

use super::{project, with_db};
use crate::{
    cli::{Global, Next},
    failure::{Exit, Failure},
    jobs::position_in,
    moment,
    output::{Out, Paint},
    table::{Cell, Table, Tone},
};

pub async fn run(args: Next, global: &Global, out: &Out) -> Result<(), Failure> {
    let (schedule, resting) = match (&args.trigger, &args.expression) {
        (Some(id), _) => {
            let item = with_db(global, async |db| Ok(db.history().trigger(&project(global), id).await?)).await?;
            let item = item.ok_or_else(|| Failure::not_found("trigger", id.as_str()).hint("`ql3 triggers` lists what there is"))?;
            let resting = (!item.schedulable()).then(|| super::lists::state(&item));
            (item.head.spec.schedule()?, resting)
        }
        (None, expression) => (parse(expression.as_deref().unwrap_or_default(), args.tz.as_deref().unwrap_or_default())?, None),
    };
    let now = moment::now();
    let occurrences = occurrences(&schedule, args.after.unwrap_or(now), args.count);
    // Beside an instant that was asked for, how far away it all is says nothing.
    let now = args.after.is_none().then_some(now);
    if out.json {
        out.json(&to_json(&schedule, &occurrences));
    } else {
        print(&schedule, &occurrences, now, out);
        if let Some(state) = resting {
            out.line(out.paint.yellow(format_args!("the trigger is {state}: these times will not run")));
        }
    }
    Ok(())
}

fn parse(expression: &str, zone: &str) -> Result<Schedule, Failure> {
    let expr = CronExpr::parse(expression).map_err(|invalid| refusal(expression, invalid))?;
    let zone = TimeZone::parse(zone)?;
    Schedule::new(expr, zone).map_err(|invalid| refusal(expression, invalid))
}

/// A refusal with the expression and a caret under the character that it names.
fn refusal(expression: &str, invalid: Invalid) -> Failure {
    let paint = Paint::stderr();
    let position = position_in(&invalid.reason);
    let caret = position.filter(|_| !expression.contains(char::is_control)).map(|position| {
        let pad = " ".repeat(position - 1);
        format!("\n  | {expression}\n  | {pad}{}", paint.red("^"))
    });
    let hint = invalid.hint.as_ref().map(|hint| format!("\n  = help: {hint}")).unwrap_or_default();
    let text = format!("{} {}{}{hint}", paint.red("error:"), paint.bold(&invalid), caret.unwrap_or_default());
    let detail =
        json!({ "field": invalid.field, "value": expression, "position": position, "message": invalid.reason, "hint": invalid.hint });
    let failure = Failure::new(Exit::Invalid, "invalid_input", invalid.to_string()).report(text, vec![detail]);
    match invalid.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn occurrences(schedule: &Schedule, after: TimestampMs, count: u32) -> Vec<Occurrence> {
    let from = schedule.next_after(after);
    let walk = std::iter::successors(from, |at| schedule.next_after(*at));
    walk.take(count as usize).map(|at| schedule.occurrence(at)).collect()
}

fn to_json(schedule: &Schedule, occurrences: &[Occurrence]) -> Value {
    let note = |note: Option<Note>| {
        note.map(|note| match note {
            Note::Gap => "gap",
            Note::Overlap => "overlap",
        })
    };
    let occurrences: Vec<_> =
        occurrences.iter().map(|o| json!({ "at": o.at.to_string(), "local": o.local, "note": note(o.note) })).collect();
    let expr = schedule.expr();
    json!({
        "occurrences": occurrences,
        "expression": expr.as_str(),
        "timezone": schedule.zone().as_str(),
        "description": expr.describe(),
        "dayRule": day_rule(expr).0,
        "wildcard": expr.is_wildcard(),
        "dialect": cron::DIALECT,
        "zoneData": cron::zone_data_version(),
    })
}

/// The rule's name, and in words.
fn day_rule(expr: &CronExpr) -> (&'static str, &'static str) {
    match expr.day_rule() {
        DayRule::Any => ("any", "every day"),
        DayRule::DayOfMonth => ("day_of_month", "the day of the month decides"),
        DayRule::DayOfWeek => ("day_of_week", "the day of the week decides"),
        DayRule::And => ("and", "day of month AND day of week must match, because one of them begins with `*`"),
        DayRule::Or => ("or", "day of month OR day of week is enough, because none of them begins with `*`"),
    }
}

fn print(schedule: &Schedule, occurrences: &[Occurrence], now: Option<TimestampMs>, out: &Out) {
    let expr = schedule.expr();
    let transitions = if expr.is_wildcard() {
        "it runs at every instant whose wall time matches; times that do not exist are left out"
    } else {
        "a time that does not exist runs at the first instant after; a time that comes twice runs once, the first time"
    };
    out.line(format_args!("{} in {}: {}", out.paint.bold(expr), schedule.zone(), expr.describe()));
    out.line(out.paint.dim(format_args!("days         {}", day_rule(expr).1)));
    out.line(out.paint.dim(format_args!("transitions  {transitions}")));
    out.line(out.paint.dim(format_args!("zone data    {}", cron::zone_data_version())));
    out.line("");
    if occurrences.is_empty() {
        out.line("no occurrence");
        return;
    }
    let mut table = Table::new(&["LOCAL", "UTC", "", ""]);
    for occurrence in occurrences {
        let note = match occurrence.note {
            Some(Note::Gap) => "gap: the wall time does not exist on this day",
            Some(Note::Overlap) => "overlap: the wall time comes twice on this day",
            None => "",
        };
        let (local, utc) = (moment::spaced(&occurrence.local), moment::utc(occurrence.at));
        let away = now.map(|now| moment::relative(occurrence.at, now)).unwrap_or_default();
        table.row([local.into(), utc.into(), Cell::dim(away), Cell::toned(note, Tone::Warn)]);
    }
    table.print(out);
}
