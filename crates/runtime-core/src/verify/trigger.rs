//! The rules of one trigger's schedule.

use super::Finding;
use crate::ports::history::TriggerItem;

/// Everything that contradicts itself.
pub(super) fn check(object: &str, item: &TriggerItem) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut find = |code, detail: String| out.push(Finding::new(code, object, detail));
    let schedule = &item.schedule;
    if schedule.trigger_revision != item.head.revision {
        find(
            "schedule_revision",
            format!("the schedule is at revision {}, the trigger at {}", schedule.trigger_revision, item.head.revision),
        );
    }
    if let (Some(next), Some(last)) = (schedule.next_fire_at, schedule.last_scheduled_at)
        && next <= last
    {
        find("cursor_back", format!("the cursor {next} is not after the last admitted occurrence {last}"));
    }
    if schedule.paused.is_some() && schedule.next_fire_at.is_some() {
        find("paused_cursor", "a paused trigger has a cursor".to_owned());
    }
    if item.schedulable()
        && let Err(refused) = item.head.spec.schedule()
    {
        find("trigger_unreadable", refused.to_string());
    }
    out
}
