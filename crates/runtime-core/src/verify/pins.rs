//! What a Run pins: the revisions that it was admitted under, and its occurrence, which no other Run may have.

use std::collections::HashMap;

use super::{Finding, check_revision};
use crate::{
    StoreError,
    definition::{DefinitionKey, DefinitionKind},
    digest::Digest,
    ids::ProjectId,
    ports::history::HistoryStore,
    run::{Run, TriggerType},
};

/// So many revisions are remembered, to look each of them up about once.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Pins {
    digests: HashMap<(ProjectId, DefinitionKey, u32), Option<Digest>>,
}

impl Pins {
    /// Everything about `run` that its definitions or another Run contradict.
    pub(super) async fn check(&mut self, object: &str, run: &Run, store: &dyn HistoryStore) -> Result<Vec<Finding>, StoreError> {
        let mut out = Vec::new();
        let task = DefinitionKey { kind: DefinitionKind::Task, id: run.task_id.to_string() };
        out.extend(self.check_pin(object, run, task, run.task_revision, &run.task_digest, store).await?);
        let (Some(trigger), Some(revision), Some(digest)) = (&run.trigger_id, run.trigger_revision, &run.trigger_digest) else {
            return Ok(out);
        };
        let key = DefinitionKey { kind: DefinitionKind::Trigger, id: trigger.to_string() };
        out.extend(self.check_pin(object, run, key, revision, digest, store).await?);
        if let Some(due) = run.scheduled_for.filter(|_| run.trigger_type == TriggerType::Cron) {
            let same = store.occurrences(&run.project_id, trigger, due, due, 2).await?;
            // Each of the pair would say so; the one with the higher id does.
            if let Some(other) = same.iter().find(|other| other.trigger_type == TriggerType::Cron && other.id < run.id) {
                out.push(Finding::new("occurrence_doubled", object, format!("{trigger} at {due} is run {} too", other.id)));
            }
        }
        Ok(out)
    }

    async fn check_pin(
        &mut self,
        object: &str,
        run: &Run,
        key: DefinitionKey,
        revision: u32,
        pinned: &Digest,
        store: &dyn HistoryStore,
    ) -> Result<Option<Finding>, StoreError> {
        let place = (run.project_id.clone(), key, revision);
        let stored = if let Some(known) = self.digests.get(&place) {
            known.clone()
        } else {
            let text = store.revision_text(&place.0, &place.1, revision).await?;
            let name = format!("{} {}/{}", place.1.kind.as_str(), place.0, place.1.id);
            if let Some(finding) = check_revision(&name, revision, text.clone()) {
                return Ok(Some(finding));
            }
            if self.digests.len() >= REMEMBERED_MAX {
                self.digests.clear();
            }
            let digest = text.map(|(_, digest)| digest);
            self.digests.insert(place.clone(), digest.clone());
            digest
        };
        let fits = stored.as_ref() == Some(pinned);
        Ok((!fits).then(|| {
            let (kind, id) = (place.1.kind.as_str(), &place.1.id);
            Finding::new("pinned_digest", object, format!("revision {revision} of {kind} {id} does not have the digest {pinned}"))
        }))
    }
}
