//! The report: what became of each line, and why.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Imported, Kind, Row, Verdict};
use crate::{
    output::Out,
    table::{Cell, Table, Tone},
};

/// Prints the table of lines, what differs for all of them, and the sums.
pub fn print(imported: &Imported, line_word: &'static str, out: &Out) {
    let mut table = Table::new(&[line_word, "VERDICT", "SCHEDULE", "TASK", "WHAT AND WHY"]);
    for row in &imported.rows {
        let mut texts = texts(row).into_iter();
        table.row([
            row.line.to_string().into(),
            Cell::toned(row.verdict.as_str(), tone(row.verdict)),
            match row.kind {
                Kind::Entry if row.source.is_empty() => Cell::option(None::<String>),
                Kind::Entry => row.source.as_str().into(),
                Kind::Variable => format!("{}=…", row.source).into(),
            },
            Cell::option(row.task.as_deref()),
            texts.next().unwrap_or_else(|| "".into()),
        ]);
        for text in texts {
            table.row(["".into(), "".into(), "".into(), "".into(), text]);
        }
    }
    if !table.is_empty() {
        table.print(out);
        out.line("");
    }
    for note in &imported.notes {
        out.line(out.paint.dim(format_args!("note: {note}")));
    }
    out.line(summary(imported));
}

/// The reasons of a row, one a line.
fn texts(row: &Row) -> Vec<Cell> {
    let mut texts: Vec<Cell> = row.why.iter().map(|why| why.as_str().into()).collect();
    texts.extend(row.hint.iter().map(|hint| format!("→ {hint}").into()));
    texts.extend(row.warnings.iter().map(|warning| Cell::toned(format!("warning: {warning}"), Tone::Warn)));
    texts
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Exact => Tone::Good,
        Verdict::Translated => Tone::Plain,
        Verdict::Refused => Tone::Bad,
    }
}

/// One line of sums.
pub fn summary(imported: &Imported) -> String {
    let count = |verdict| imported.count(verdict);
    let mut line =
        format!("{} exact, {} translated, {} refused", count(Verdict::Exact), count(Verdict::Translated), count(Verdict::Refused));
    if imported.warnings() > 0 {
        let _ = write!(line, ", {} with warnings", imported.warnings());
    }
    if imported.comments > 0 {
        let _ = write!(line, "; comments and blank lines: {}", imported.comments);
    }
    line
}

/// The same for programs.
pub fn to_json(imported: &Imported) -> Value {
    let lines: Vec<_> = imported
        .rows
        .iter()
        .map(|row| {
            json!({
                "line": row.line, "kind": row.kind.as_str(), "verdict": row.verdict.as_str(), "source": row.source, "cron": row.cron,
                "taskId": row.task, "why": row.why, "hint": row.hint, "warnings": row.warnings,
            })
        })
        .collect();
    json!({
        "lines": lines,
        "notes": imported.notes,
        "summary": {
            "exact": imported.count(Verdict::Exact), "translated": imported.count(Verdict::Translated),
            "refused": imported.count(Verdict::Refused), "warnings": imported.warnings(), "comments": imported.comments,
            "tasks": imported.jobs.len(), "triggers": imported.jobs.iter().map(|job| job.triggers.len()).sum::<usize>(),
        },
    })
}
