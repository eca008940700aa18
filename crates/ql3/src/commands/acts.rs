//! `acts`: what operators did, newest first.

use runtime_core::ports::control::OperatorAct;
use serde_json::{Value, json};

use super::with_db;
use crate::{
    cli::Global,
    failure::Failure,
    moment,
    output::Out,
    shapes,
    table::{Cell, Table},
};

pub async fn run(limit: u32, global: &Global, out: &Out) -> Result<(), Failure> {
    let acts = with_db(global, async |db| Ok(db.control().acts(limit).await?)).await?;
    if out.json {
        out.json(&json!({ "acts": acts.iter().map(to_json).collect::<Vec<_>>() }));
        return Ok(());
    }
    if acts.is_empty() {
        out.line("nobody has done anything yet");
        return Ok(());
    }
    let mut table = Table::new(&["AT", "WHO", "ACT", "PROJECT", "OBJECT", "DETAIL", "REASON"]);
    for act in &acts {
        table.row([
            moment::utc(act.at).into(),
            act.by.name.as_str().into(),
            act.act.as_str().into(),
            Cell::option(act.project_id.as_ref().map(runtime_core::ids::ProjectId::as_str)),
            act.object.as_str().into(),
            act.detail.as_str().into(),
            Cell::option(act.by.reason.as_deref()),
        ]);
    }
    table.print(out);
    Ok(())
}

fn to_json(act: &OperatorAct) -> Value {
    json!({
        "at": shapes::at(Some(act.at)), "operator": act.by.name, "reason": act.by.reason, "act": act.act, "projectId": act.project_id,
        "object": act.object, "detail": act.detail,
    })
}
