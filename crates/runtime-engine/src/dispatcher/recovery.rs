//! What earlier sessions of this worker left behind: ended, examined, settled on evidence.

use std::{collections::HashSet, sync::Arc, time::Duration};

use runtime_core::{
    StoreError,
    ids::RunId,
    limits::CLAIM_PAGE_MAX,
    ports::{
        dispatch::{Evidence, Fenced, OpenLease},
        executor::{ExecutorError, Recovered},
    },
    run::{AttemptOutcome, AttemptStatus, Run, RunStatus},
};
use tokio::task::JoinSet;

use super::{Shared, outcome};
use crate::event::EngineEvent;

/// When what could not be proved is looked at again.
pub(super) const AGAIN: Duration = Duration::from_secs(10);

/// What an executor's answer means for an attempt.
pub(super) enum Finding {
    Ended(AttemptOutcome),
    Gone(String),
    Unproven(String),
}

/// What one pass over the open leases did.
#[derive(Default)]
pub(super) struct Pass {
    pub settled: u64,
    pub unproven: u64,
    /// Runs that became final, for their tasks' `on_failure`.
    pub ended: Vec<(RunId, RunStatus)>,
}

pub(super) fn finding(recovered: Result<Recovered, ExecutorError>, run: &Run) -> Finding {
    match recovered {
        Ok(Recovered::Ended(end)) => outcome::recovered(&end, run)
            .map_or_else(|| Finding::Gone(end.detail.unwrap_or_else(|| "stopped before it ended by itself".to_owned())), Finding::Ended),
        Ok(Recovered::Gone) => Finding::Gone("nothing of it runs any more, and nobody knows how it ended".to_owned()),
        Ok(Recovered::Unproven(reason)) => Finding::Unproven(reason),
        Err(error) => Finding::Unproven(error.to_string()),
    }
}

/// Settles every open lease of an earlier session that can be settled. A lease that cannot stays open, so its Run cannot begin again.
pub(super) async fn pass(shared: &Arc<Shared>) -> Result<Pass, StoreError> {
    let mut pass = Pass::default();
    let mut seen = HashSet::new();
    loop {
        let read = || shared.ports.dispatch.earlier_leases(&shared.session, CLAIM_PAGE_MAX);
        let Some(page) = shared.retries("read the leases of earlier sessions").until_done(&shared.handle, read).await? else {
            return Ok(pass);
        };
        // What could not be settled comes back at the head of each page; a page of nothing else is the end.
        let fresh: Vec<_> = page.into_iter().filter(|lease| seen.insert(lease.attempt.id)).collect();
        if fresh.is_empty() {
            return Ok(pass);
        }
        let mut examined: JoinSet<_> = fresh.into_iter().map(|lease| examine(Arc::clone(shared), lease)).collect();
        while let Some(joined) = examined.join_next().await {
            let Ok((lease, evidence)) = joined else {
                pass.unproven += 1;
                continue;
            };
            match evidence {
                Ok(evidence) => settle(shared, &lease, &evidence, &mut pass).await,
                Err(reason) => unproven(shared, &lease, reason, &mut pass),
            }
        }
    }
}

/// The error is what stands in the way.
async fn examine(shared: Arc<Shared>, lease: OpenLease) -> (OpenLease, Result<Evidence, String>) {
    if lease.attempt.status == AttemptStatus::Starting {
        // The order to start is given after the start is durable, and a guard without it ends with its program.
        return (lease, Ok(Evidence::NeverStarted));
    }
    let OpenLease { run, attempt, .. } = &lease;
    let recovered = shared.ports.executor.recover(run.id, attempt.id, attempt.attempt, attempt.executor_handle.as_deref()).await;
    let evidence = match finding(recovered, run) {
        Finding::Ended(outcome) => Ok(Evidence::Finished(outcome)),
        Finding::Gone(summary) => Ok(Evidence::Gone { summary }),
        Finding::Unproven(reason) => Err(reason),
    };
    (lease, evidence)
}

async fn settle(shared: &Shared, lease: &OpenLease, evidence: &Evidence, pass: &mut Pass) {
    let (run_id, attempt_id) = (lease.run.id, lease.attempt.id);
    let settle = || shared.ports.dispatch.settle(&shared.session, lease, evidence);
    match shared.retries("settle an attempt of an earlier session").until_done(&shared.handle, settle).await {
        Ok(Some(settled)) => {
            pass.settled += 1;
            if let Fenced::Applied(status) = settled {
                let finding = match evidence {
                    Evidence::NeverStarted => "it never started".to_owned(),
                    Evidence::Finished(_) => "it had ended, and its guard kept the result".to_owned(),
                    Evidence::Gone { summary } => summary.clone(),
                };
                shared.tell(&EngineEvent::Settled { run_id, attempt_id, finding, status });
                pass.ended.push((run_id, status));
            }
        }
        Ok(None) => {}
        Err(error) => unproven(shared, lease, error.to_string(), pass),
    }
}

fn unproven(shared: &Shared, lease: &OpenLease, reason: String, pass: &mut Pass) {
    pass.unproven += 1;
    shared.unproven(lease.run.id, lease.attempt.id, reason);
}
