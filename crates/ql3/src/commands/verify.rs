//! `verify`: the stored facts, checked.

use std::process::ExitCode;

use runtime_core::verify::verify;
use serde_json::json;

use super::{count, with_db};
use crate::{
    cli::Global,
    failure::{Exit, Failure},
    output::Out,
    table::{Cell, Table, Tone},
};

pub async fn run(global: &Global, out: &Out) -> Result<ExitCode, Failure> {
    let found = with_db(global, async |db| Ok(verify(db.history()).await?)).await?;
    if out.json {
        let findings: Vec<_> = found.findings.iter().map(|f| json!({ "code": f.code, "object": f.object, "detail": f.detail })).collect();
        out.json(&json!({
            "ok": found.ok(),
            "checked": { "runs": found.runs, "events": found.events, "triggers": found.triggers },
            "findings": findings,
            "truncated": found.truncated,
        }));
    } else {
        if !found.ok() {
            let mut table = Table::new(&["CODE", "OBJECT", "DETAIL"]);
            for finding in &found.findings {
                table.row([Cell::toned(finding.code, Tone::Bad), finding.object.as_str().into(), finding.detail.as_str().into()]);
            }
            table.print(out);
            out.line("");
        }
        let more = if found.truncated { " or more" } else { "" };
        let verdict = match found.findings.len() {
            0 => out.paint.green("ok:"),
            1 => out.paint.red("1 finding:"),
            n => out.paint.red(format_args!("{n}{more} findings:")),
        };
        let (runs, events, triggers) = (count(found.runs, "Run"), count(found.events, "event"), count(found.triggers, "trigger"));
        out.line(format_args!("{verdict} {runs}, {events} and {triggers} checked"));
    }
    Ok(if found.ok() { ExitCode::SUCCESS } else { ExitCode::from(Exit::Findings as u8) })
}
