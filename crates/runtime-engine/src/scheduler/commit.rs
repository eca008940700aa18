//! Committing a page of decisions through everything that a store may answer.

use runtime_core::{
    Retry, StoreError,
    ids::RunId,
    schedule::{CommitOutcome, ScheduleCommit, Verdict},
};

use super::Scheduler;

impl Scheduler {
    /// One outcome each, in order. An error means that nothing is known to be durable, and that the claims are the caller's to give back.
    pub(super) async fn commit(&self, commits: &[ScheduleCommit], sent_ms: u64) -> Result<Vec<CommitOutcome>, StoreError> {
        match self.commit_same(commits, sent_ms).await {
            Err(error) if is_of_one_row(&error) => self.commit_one_by_one(commits, sent_ms).await,
            answer => answer,
        }
    }

    /// Something about one row cannot be stored. The others are not held up by it; it is set aside.
    async fn commit_one_by_one(&self, commits: &[ScheduleCommit], sent_ms: u64) -> Result<Vec<CommitOutcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(commits.len());
        for commit in commits {
            let answer = match self.commit_same(std::slice::from_ref(commit), sent_ms).await {
                Err(error) if is_of_one_row(&error) => {
                    let aside = ScheduleCommit::new(commit.claim().clone(), Verdict::SetAside(error.to_string()))?;
                    self.commit_same(&[aside], sent_ms).await
                }
                answer => answer,
            };
            match answer {
                Ok(outcome) => outcomes.extend(outcome),
                // Not even that could be stored: its claim ends by itself.
                Err(error) if is_of_one_row(&error) => {
                    tracing::error!(trigger = %commit.claim().candidate.trigger.id, %error, "a trigger can neither be decided nor set aside");
                    outcomes.push(CommitOutcome::Raced);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(outcomes)
    }

    /// The same commits with the same identities until there is an answer, as long as the claims last.
    async fn commit_same(&self, commits: &[ScheduleCommit], sent_ms: u64) -> Result<Vec<CommitOutcome>, StoreError> {
        let mut retries = self.retries("commit decisions");
        let mut unknown = false;
        loop {
            let error = match self.store.commit(commits.to_vec()).await {
                Ok(outcomes) => {
                    retries.succeeded();
                    return Ok(if unknown { self.verified(commits, outcomes).await } else { outcomes });
                }
                Err(error) => error,
            };
            unknown |= error.retry() == Retry::AfterVerify;
            let delay = retries.failed(&error);
            if error.retry() == Retry::Never || self.handle.stopping() || self.lapsed(sent_ms) {
                if !unknown {
                    return Err(error);
                }
                let nothing_known = vec![CommitOutcome::Raced; commits.len()];
                return Ok(self.verified(commits, nothing_known).await);
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// A repeat may find its own claim used up by the commit whose answer was lost. A Run with the identity that was allocated for it is
    /// the proof that it was this one.
    async fn verified(&self, commits: &[ScheduleCommit], outcomes: Vec<CommitOutcome>) -> Vec<CommitOutcome> {
        let mut verified = Vec::with_capacity(outcomes.len());
        for (commit, outcome) in commits.iter().zip(outcomes) {
            let own = allocated(commit).filter(|_| outcome == CommitOutcome::Raced);
            let found = match own {
                Some(run_id) => self.runs.run(run_id).await.ok().flatten(),
                None => None,
            };
            verified.push(found.map_or(outcome, |run| CommitOutcome::AlreadyAdmitted { run_id: run.id }));
        }
        verified
    }
}

/// The identity that was allocated for the commit's Run.
pub(super) fn allocated(commit: &ScheduleCommit) -> Option<RunId> {
    match commit.verdict() {
        Verdict::Decided(_, Some(ids)) => Some(ids.run),
        Verdict::Decided(_, None) | Verdict::SetAside(_) => None,
    }
}

/// Whether one row of the page is the cause, and the same page would fail again.
fn is_of_one_row(error: &StoreError) -> bool {
    match error {
        StoreError::DuplicateIdempotencyKey
        | StoreError::DuplicateAttemptNumber
        | StoreError::DuplicateEventSequence
        | StoreError::DuplicateEventDedupeKey
        | StoreError::Constraint { .. }
        | StoreError::Corrupt { .. }
        | StoreError::Invalid(_)
        | StoreError::Illegal(_)
        | StoreError::NotFound { .. } => true,
        StoreError::Busy { .. }
        | StoreError::Unavailable { .. }
        | StoreError::CommitUnknown
        | StoreError::MigrationHistory { .. }
        | StoreError::SchemaNewer { .. }
        | StoreError::AlreadyRunning { .. }
        | StoreError::Closed => false,
    }
}
