//! Every occurrence has exactly one fate: it was admitted, or the ledger says why not. Never both, never neither.

use std::collections::BTreeSet;

use super::Finding;
use crate::{
    StoreError, TimestampMs,
    limits::LIST_PAGE_MAX,
    ports::history::{HistoryStore, TriggerItem},
    schedule::LedgerEntry,
};

/// So many occurrences of the current activation are walked, newest first, for each trigger.
const WALK_MAX: usize = 10_000;

/// Looks at what the current activation of a trigger owed up to its cursor, and at the whole ledger.
pub(super) async fn check(object: &str, item: &TriggerItem, store: &dyn HistoryStore) -> Result<Vec<Finding>, StoreError> {
    let mut out = Vec::new();
    let (project, trigger) = (&item.head.project_id, &item.head.spec.id);
    let since = item.schedule.activated_at;
    let ledger = store.ledger(project, trigger, TimestampMs::EPOCH, LIST_PAGE_MAX).await?;
    for entry in &ledger {
        out.extend(check_entry(object, entry));
        // Both fates at once.
        let runs = store.occurrences(project, trigger, entry.stretch.from, entry.stretch.to, LIST_PAGE_MAX).await?;
        for run in runs.iter().filter(|run| run.trigger_revision == Some(entry.trigger_revision)) {
            let detail = format!("{} is admitted as run {} and recorded as {}", text(run.scheduled_for), run.id, entry.stretch.reason);
            out.push(Finding::new("occurrence_twice", object, detail));
        }
    }
    out.extend(check_cursor(object, item, &ledger, store).await?);
    let (Ok(evaluator), Some(cursor)) = (item.head.spec.schedule(), item.schedule.next_fire_at) else { return Ok(out) };
    if !item.schedulable() {
        return Ok(out);
    }
    // Neither fate. Walk backwards from the cursor, so that the newest are always looked at.
    let mut owed = Vec::new();
    let mut at = evaluator.latest_at_or_before(cursor.minus_ms(1));
    while let Some(instant) = at.filter(|at| *at >= since && owed.len() < WALK_MAX) {
        owed.push(instant);
        at = evaluator.latest_at_or_before(instant.minus_ms(1));
    }
    let Some(first) = owed.last().copied() else { return Ok(out) };
    // The ledger page may not reach back as far as the walk; what lies before its oldest entry is not judged.
    let horizon = if ledger.len() < LIST_PAGE_MAX as usize { first } else { ledger.last().map_or(first, |e| e.stretch.to.max(first)) };
    let mut admitted = BTreeSet::new();
    let mut from = horizon;
    loop {
        let runs = store.occurrences(project, trigger, from, cursor.minus_ms(1), LIST_PAGE_MAX).await?;
        let last = runs.last().and_then(|run| run.scheduled_for);
        let full = runs.len() == LIST_PAGE_MAX as usize;
        admitted.extend(runs.iter().filter_map(|run| run.scheduled_for));
        match last {
            Some(last) if full => from = last.plus_ms(1),
            _ => break,
        }
    }
    let mut lost: Vec<_> = owed.into_iter().filter(|at| *at >= horizon && !admitted.contains(at)).collect();
    lost.retain(|at| !ledger.iter().any(|e| (e.stretch.from..=e.stretch.to).contains(at)));
    if !lost.is_empty() {
        // Asked for last: what was removed while all this was read is not lost either.
        let pruned_before = store.pruned_before().await?;
        lost.retain(|at| pruned_before.is_none_or(|before| *at >= before));
    }
    for instant in lost.into_iter().rev() {
        out.push(Finding::new("occurrence_lost", object, format!("{instant} is neither admitted nor in the ledger")));
    }
    if let (Some(latest), last) = (admitted.last(), item.schedule.last_scheduled_at)
        && last.is_none_or(|last| last < *latest)
    {
        out.push(Finding::new("proof_behind", object, format!("{latest} is admitted, the schedule says {}", text(last))));
    }
    Ok(out)
}

/// What is recorded was decided, so the cursor stands behind it. The scheduler may have moved on since `item` was read, but the schedule
/// that is read now is later than the ledger.
async fn check_cursor(
    object: &str,
    item: &TriggerItem,
    ledger: &[LedgerEntry],
    store: &dyn HistoryStore,
) -> Result<Option<Finding>, StoreError> {
    let behind = |item: &TriggerItem| {
        let cursor = item.schedule.next_fire_at?;
        let latest = ledger.iter().map(|entry| entry.stretch.to).max()?;
        (cursor <= latest).then_some((cursor, latest))
    };
    if behind(item).is_none() {
        return Ok(None);
    }
    let now = store.trigger(&item.head.project_id, &item.head.spec.id).await?;
    Ok(now.as_ref().and_then(behind).map(|(cursor, latest)| {
        Finding::new("cursor_back", object, format!("the cursor {cursor} is not after the last recorded occurrence {latest}"))
    }))
}

fn check_entry(object: &str, entry: &LedgerEntry) -> Option<Finding> {
    let stretch = &entry.stretch;
    let bad = stretch.from > stretch.to || stretch.count == 0 || (stretch.count == 1) != (stretch.from == stretch.to);
    bad.then(|| {
        let detail = format!("{} occurrences from {} to {} recorded as {}", stretch.count, stretch.from, stretch.to, stretch.reason);
        Finding::new("ledger_entry", object, detail)
    })
}

fn text(at: Option<TimestampMs>) -> String {
    at.map_or_else(|| "none".to_owned(), |at| at.to_string())
}
