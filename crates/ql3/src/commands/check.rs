//! `check`: a jobs file without a database.

use std::{collections::HashSet, path::Path};

use runtime_core::definition::TriggerSpec;
use serde_json::json;

use super::{count, default_project};
use crate::{
    cli::Global,
    failure::{Exit, Failure},
    jobs::{self, JobsFile},
    moment,
    output::Out,
    table::{Cell, Table},
};

pub fn run(path: &Path, global: &Global, out: &Out) -> Result<(), Failure> {
    let file = jobs::read(path)?;
    let project = project_of(&file, global)?;
    let triggered: HashSet<_> = file.triggers.iter().map(|trigger| &trigger.task_id).collect();
    let idle: Vec<_> = file.tasks.iter().map(|task| &task.id).filter(|id| !triggered.contains(id)).collect();
    if out.json {
        let notes: Vec<_> = idle.iter().map(|id| json!({ "object": format!("task {id}"), "message": "has no trigger" })).collect();
        out.json(&json!({
            "ok": true, "project": project, "tasks": file.tasks.len(), "triggers": file.triggers.len(), "notes": notes,
        }));
        return Ok(());
    }
    let (tasks, triggers) = (count(file.tasks.len(), "task"), count(file.triggers.len(), "trigger"));
    out.line(format_args!("{} {tasks} and {triggers} in project `{project}`", out.paint.green("ok:")));
    if !file.triggers.is_empty() {
        out.line("");
        table(&file.triggers)?.print(out);
    }
    for id in idle {
        out.line(out.paint.dim(format_args!("note: task `{id}` has no trigger; `ql3 run start {id}` starts it")));
    }
    Ok(())
}

fn table(triggers: &[TriggerSpec]) -> Result<Table, Failure> {
    let now = moment::now();
    let mut table = Table::new(&["TRIGGER", "TASK", "CRON", "WHEN", "NEXT"]);
    for trigger in triggers {
        let schedule = trigger.schedule()?;
        let next = schedule.next_after(now).filter(|_| trigger.enabled).map(|at| moment::spaced(&schedule.occurrence(at).local));
        let when = format!("{}, {}", schedule.expr().describe(), schedule.zone());
        table.row([
            trigger.id.as_str().into(),
            trigger.task_id.as_str().into(),
            trigger.cron.as_str().into(),
            Cell::dim(when),
            Cell::option(next),
        ]);
    }
    Ok(table)
}

/// The project of a file: what it says, unless the command line says another.
pub fn project_of(file: &JobsFile, global: &Global) -> Result<runtime_core::ids::ProjectId, Failure> {
    match (&file.project, &global.project) {
        (Some(named), Some(wanted)) if named != wanted => {
            let message = format!("the file is of project `{named}`, and --project (or QL3_PROJECT) says `{wanted}`");
            Err(Failure::new(Exit::Invalid, "project_mismatch", message).hint("leave one of them out"))
        }
        (Some(project), _) | (None, Some(project)) => Ok(project.clone()),
        (None, None) => Ok(default_project()),
    }
}
