//! A schedule store with something in front of it that [`store_contract::FaultyStore`] does not do.

use std::sync::Arc;

use async_trait::async_trait;
use runtime_core::{
    StoreError,
    ports::schedules::{MovedCursor, ScheduleStore},
    schedule::{ClaimCommand, ClaimPage, CommitOutcome, ScheduleClaim, ScheduleCommit},
};

/// What is going on.
pub enum Moment<'a> {
    /// Claims are about to be taken.
    Claim,
    /// Claims were taken; the answer is under way.
    Claimed,
    /// These are about to be committed.
    Commit(&'a [ScheduleCommit]),
}

type Hook = dyn Fn(Moment<'_>) -> Result<(), StoreError> + Send + Sync;

pub struct Hooked {
    inner: Arc<dyn ScheduleStore>,
    hook: Box<Hook>,
}

impl Hooked {
    /// An error of `hook` is the store's answer.
    pub fn new(inner: Arc<dyn ScheduleStore>, hook: impl Fn(Moment<'_>) -> Result<(), StoreError> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { inner, hook: Box::new(hook) })
    }
}

#[async_trait]
impl ScheduleStore for Hooked {
    async fn claim_due(&self, command: &ClaimCommand, page: u32) -> Result<ClaimPage, StoreError> {
        (self.hook)(Moment::Claim)?;
        let answer = self.inner.claim_due(command, page).await;
        (self.hook)(Moment::Claimed)?;
        answer
    }

    async fn commit(&self, commits: Vec<ScheduleCommit>) -> Result<Vec<CommitOutcome>, StoreError> {
        (self.hook)(Moment::Commit(&commits))?;
        self.inner.commit(commits).await
    }

    async fn release_claims(&self, claims: &[ScheduleClaim]) -> Result<u64, StoreError> {
        self.inner.release_claims(claims).await
    }

    async fn refresh_zone_data(&self, version: &str, page: u32) -> Result<(Vec<MovedCursor>, bool), StoreError> {
        self.inner.refresh_zone_data(version, page).await
    }
}
