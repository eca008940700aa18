//! An event as JSON.

use edge_control::EngineEvent;
use runtime_core::{
    ids::{AttemptId, RunId},
    schedule::Stretch,
};
use serde_json::{Value, json};

fn stretch_json(stretch: &Stretch) -> Value {
    json!({
        "reason": stretch.reason.as_str(), "from": stretch.from.to_string(), "to": stretch.to.to_string(), "count": stretch.count,
        "capped": stretch.capped, "runId": stretch.run_id,
    })
}

pub fn of(event: &EngineEvent) -> Value {
    match event {
        EngineEvent::Ready { settled, unproven } => json!({ "event": "ready", "settled": settled, "unproven": unproven }),
        EngineEvent::Admitted { run_id, project_id, task_id, trigger_id, scheduled_for, lateness_ms } => json!({
            "event": "admitted", "runId": run_id, "projectId": project_id, "taskId": task_id, "triggerId": trigger_id,
            "scheduledFor": scheduled_for.to_string(), "latenessMs": lateness_ms,
        }),
        EngineEvent::Recorded { project_id, trigger_id, stretch } => {
            json!({ "event": "recorded", "projectId": project_id, "triggerId": trigger_id, "stretch": stretch_json(stretch) })
        }
        EngineEvent::SetAside { project_id, trigger_id, reason } => {
            json!({ "event": "set_aside", "projectId": project_id, "triggerId": trigger_id, "reason": reason })
        }
        EngineEvent::Started { run_id, attempt_id, attempt, task_id, pid } => {
            json!({ "event": "started", "runId": run_id, "attemptId": attempt_id, "attempt": attempt, "taskId": task_id, "pid": pid })
        }
        EngineEvent::Finished { run_id, attempt_id, attempt, task_id, outcome, status, duration_ms, output_dropped_bytes } => json!({
            "event": "finished", "runId": run_id, "attemptId": attempt_id, "attempt": attempt, "taskId": task_id, "status": status.as_str(),
            "exitCode": outcome.exit_code, "errorCode": outcome.error_code, "errorSummary": outcome.error_summary,
            "durationMs": duration_ms, "outputDroppedBytes": output_dropped_bytes,
        }),
        EngineEvent::NotStarted { run_id, attempt_id, reason } => attempt_json("not_started", *run_id, attempt_id, reason),
        EngineEvent::ExecutorTrouble { run_id, attempt_id, error } => {
            attempt_json("executor_trouble", *run_id, attempt_id, &error.to_string())
        }
        EngineEvent::LateResult { run_id, attempt_id } => json!({ "event": "late_result", "runId": run_id, "attemptId": attempt_id }),
        EngineEvent::Left { run_id, attempt_id, reason } => attempt_json("left", *run_id, attempt_id, reason),
        EngineEvent::Settled { run_id, attempt_id, finding, status } => {
            json!({ "event": "settled", "runId": run_id, "attemptId": attempt_id, "finding": finding, "status": status.as_str() })
        }
        EngineEvent::Unproven { run_id, attempt_id, reason } => attempt_json("unproven", *run_id, attempt_id, reason),
        EngineEvent::FailureCommand { run_id, ended } => {
            json!({ "event": "failure_command", "runId": run_id, "error": ended.as_ref().err() })
        }
        EngineEvent::CursorMoved(moved) => json!({
            "event": "cursor_moved", "projectId": moved.project_id, "triggerId": moved.trigger_id, "from": moved.from.to_string(),
            "to": moved.to.to_string(),
        }),
        EngineEvent::Clock(state) => json!({ "event": "clock", "trusted": state.trusted(), "notReady": state.not_ready() }),
        EngineEvent::StoreTrouble { doing, error } => {
            json!({ "event": "store_trouble", "doing": doing, "code": error.code().as_str(), "message": error.to_string() })
        }
        EngineEvent::StoreRecovered { doing } => json!({ "event": "store_recovered", "doing": doing }),
        EngineEvent::Draining { running } => json!({ "event": "draining", "running": running }),
        EngineEvent::Stopping { running } => json!({ "event": "stopping", "running": running }),
    }
}

fn attempt_json(event: &str, run_id: RunId, attempt_id: &AttemptId, reason: &str) -> Value {
    json!({ "event": event, "runId": run_id, "attemptId": attempt_id, "reason": reason })
}
