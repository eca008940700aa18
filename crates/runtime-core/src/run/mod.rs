//! Runs, their attempts, their events and their retry policy: records, states and the pure transitions between them.

mod admission;
mod event;
mod record;
mod retry;
mod status;
pub(crate) use status::text_enum;
mod transition;

pub(crate) use admission::occurrence_key;
pub use admission::{Admission, AdmissionIds, NewRun, check_caller_key};
pub use event::{Actor, ActorType, EventType, RunEvent};
pub use record::{CancelReason, ExecutionOrigin, ExecutorType, Run, RunAttempt, TriggerType};
pub use retry::{Backoff, RetryPolicy, RetrySpec, Safety};
pub use status::{AttemptStatus, RunStatus};
pub use transition::{
    AttemptChange, AttemptOutcome, AttemptResult, Command, IllegalTransition, PolicyChange, RunChange, RunState, Started, Transition,
    decide,
};
