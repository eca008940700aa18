//! Checks the stored facts: one Run an occurrence, contiguous sequences, versions, digests, and a reason for everything that did not
//! run.
//!
//! [`verify`] walks everything in bounded memory through [`HistoryStore`]; the rules themselves are pure functions of what was read.

mod coverage;
mod pins;
mod run;
mod trigger;

use crate::{StoreError, definition::DefinitionKey, digest::Digest, ids::ProjectId, limits::LIST_PAGE_MAX, ports::history::HistoryStore};

/// Something that cannot be what the program wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable; docs/operations.md lists them.
    pub code: &'static str,
    /// Which record: `run <id>`, `trigger <project>/<id>`.
    pub object: String,
    /// What was found and what was expected.
    pub detail: String,
}

impl Finding {
    fn new(code: &'static str, object: &str, detail: impl Into<String>) -> Self {
        Self { code, object: object.to_owned(), detail: detail.into() }
    }
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Runs looked at.
    pub runs: u64,
    /// Events looked at.
    pub events: u64,
    /// Triggers looked at, archived ones included.
    pub triggers: u64,
    /// At most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// There were more findings than are listed.
    pub truncated: bool,
}

/// So many findings are listed.
pub const FINDINGS_MAX: usize = 1_000;

impl Verification {
    /// Nothing was found.
    pub fn ok(&self) -> bool {
        self.findings.is_empty()
    }

    fn add(&mut self, found: impl IntoIterator<Item = Finding>) {
        for finding in found {
            if self.findings.len() < FINDINGS_MAX {
                self.findings.push(finding);
            } else {
                self.truncated = true;
            }
        }
    }

    /// A value that cannot be read is a finding; a store that cannot be read is an error.
    fn readable<T>(&mut self, object: &str, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Corrupt { table, column, row }) => {
                self.add([Finding::new("value_unreadable", object, format!("{table}.{column}, row {row}"))]);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

/// Walks every Run and every trigger. Safe beside a running scheduler: each record is read in one snapshot, and what moved on
/// meanwhile is read again before it is reported.
pub async fn verify(store: &dyn HistoryStore) -> Result<Verification, StoreError> {
    let mut out = Verification::default();
    let mut pins = pins::Pins::default();
    let mut after = None;
    loop {
        let page = store.run_ids(after, LIST_PAGE_MAX).await?;
        let Some(last) = page.last() else { break };
        after = Some(*last);
        for id in page {
            let object = format!("run {id}");
            let Some(facts) = out.readable(&object, store.facts(id).await)?.flatten() else { continue };
            out.runs += 1;
            out.events += facts.events.len() as u64;
            out.add(run::check(&object, &facts));
            let found = pins.check(&object, &facts.run, store).await;
            let found = out.readable(&object, found)?;
            out.add(found.into_iter().flatten());
        }
    }
    let mut after: Option<(ProjectId, crate::ids::TriggerId)> = None;
    loop {
        let read = store.all_triggers(after.as_ref().map(|(p, t)| (p, t)), LIST_PAGE_MAX).await;
        let Some(page) = out.readable("triggers", read)? else { break };
        let Some(last) = page.last() else { break };
        after = Some((last.head.project_id.clone(), last.head.spec.id.clone()));
        for item in page {
            out.triggers += 1;
            let object = format!("trigger {}/{}", item.head.project_id, item.head.spec.id);
            out.add(trigger::check(&object, &item));
            let key = DefinitionKey { kind: crate::definition::DefinitionKind::Trigger, id: item.head.spec.id.to_string() };
            for revision in 1..=item.head.revision {
                let stored = store.revision_text(&item.head.project_id, &key, revision).await;
                let Some(stored) = out.readable(&object, stored)? else { continue };
                out.add(check_revision(&object, revision, stored));
            }
            let found = coverage::check(&object, &item, store).await;
            let found = out.readable(&object, found)?;
            out.add(found.into_iter().flatten());
        }
    }
    Ok(out)
}

fn check_revision(object: &str, revision: u32, stored: Option<(String, Digest)>) -> Option<Finding> {
    match stored {
        None => Some(Finding::new("revision_missing", object, format!("revision {revision} is not stored"))),
        Some((text, digest)) if Digest::of(text.as_bytes()) != digest => {
            Some(Finding::new("digest_mismatch", object, format!("the text of revision {revision} does not have its digest {digest}")))
        }
        Some(_) => None,
    }
}
