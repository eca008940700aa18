//! What goes on beside the claims: keeping leases alive, and looking again at what could not be proved.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{Shared, recovery, slots::End};
use crate::POLL_MS;

/// Renews all leases every third of a lease, for ever.
pub(super) async fn renew(shared: &Shared) {
    let cadence = Duration::from_millis(shared.options.lease_ms / 3);
    let mut retries = shared.retries("renew leases");
    loop {
        tokio::time::sleep(cadence).await;
        while let Err(pause) = renew_once(shared, &mut retries).await {
            tokio::time::sleep(pause).await;
        }
    }
}

/// The error is how long to wait before trying again.
async fn renew_once(shared: &Shared, retries: &mut crate::retries::Retries) -> Result<(), Duration> {
    let fences = shared.slots.fences();
    if fences.is_empty() {
        return Ok(());
    }
    if !shared.clock.may_stamp() {
        // A leap that passes within the deadline costs nothing; by the leapt clock all of them would be lost.
        return Err(Duration::from_millis(POLL_MS));
    }
    // Measured before sending: however long the answer takes, the store's expiry is later.
    let deadline_ms = shared.now_ms().saturating_add(shared.options.usable_ms());
    let renewal = match shared.ports.dispatch.renew(&shared.session, &fences, shared.options.lease_ms).await {
        Ok(renewal) => renewal,
        Err(error) => return Err(retries.failed(&error)),
    };
    retries.succeeded();
    renewal.renewed.iter().for_each(|id| shared.slots.extend(*id, deadline_ms));
    renewal.cancel_requested.iter().for_each(|id| shared.slots.end(*id, End::Cancel));
    renewal.lost.iter().for_each(|id| shared.slots.end(*id, End::Lost));
    if renewal.renewed.len() + renewal.lost.len() < fences.len() {
        // Below the clock's mark nothing is extended, and nothing is lost either.
        return Err(Duration::from_millis(POLL_MS));
    }
    Ok(())
}

/// Until all is settled or the engine stops. Expiry waits for it: an expired lease would let the Run begin again.
pub(super) async fn look_again(shared: &Arc<Shared>) {
    while shared.unproven.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(recovery::AGAIN).await;
        if shared.handle.stopping() {
            break;
        }
        if !shared.clock.may_stamp() {
            continue;
        }
        match recovery::pass(shared).await {
            Ok(pass) => {
                shared.unproven.store(pass.unproven, Ordering::Relaxed);
                for (run_id, status) in pass.ended {
                    super::notice::look_up_and_run(shared, run_id, status).await;
                }
            }
            Err(error) => tracing::warn!(%error, "attempts of earlier sessions could not be looked at"),
        }
    }
    std::future::pending::<()>().await;
}
