//! Parsed triggers, by digest: a definition that did not change is not parsed again.

use std::{collections::HashMap, sync::Arc};

use runtime_core::{Invalid, cron::Schedule, digest::Digest, schedule::Candidate};

/// A parsed trigger takes a few hundred bytes, so this is a few MiB at most.
const KEPT_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct Evaluators(HashMap<Digest, Arc<Schedule>>);

impl Evaluators {
    /// The candidate's own evaluator.
    pub fn of(&mut self, candidate: &Candidate) -> Result<Arc<Schedule>, Invalid> {
        if let Some(kept) = self.0.get(&candidate.trigger_digest) {
            return Ok(Arc::clone(kept));
        }
        let parsed = Arc::new(candidate.trigger.schedule()?);
        if self.0.len() >= KEPT_MAX {
            // Parsing takes microseconds: an order of use would cost more than it saves.
            self.0.clear();
        }
        self.0.insert(candidate.trigger_digest.clone(), Arc::clone(&parsed));
        Ok(parsed)
    }
}
