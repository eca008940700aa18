//! What may be done to a store.

use runtime_core::{
    cron::{CronExpr, TimeZone},
    definition::{DefinitionKey, DefinitionKind, Misfire, Overlap, TaskSpec, TriggerSpec},
    ids::{TaskId, TriggerId},
    ports::{definitions::Missed, executor},
    run::{AttemptOutcome, AttemptResult, Backoff, CancelReason, RetrySpec, Safety},
};

use crate::rng::Rng;

const TASKS: [&str; 3] = ["a", "b", "c"];
const TRIGGERS: [&str; 5] = ["t", "u", "v", "w", "x"];
const CRONS: [&str; 5] = ["* * * * *", "*/2 * * * *", "0 * * * *", "30 2 * * *", "*/20 * * * * *"];
const ZONES: [&str; 3] = ["UTC", "Europe/Berlin", "Australia/Lord_Howe"];
const WORKERS: [&str; 2] = ["w1", "w2"];
const STEPS_MS: [u64; 9] = [0, 1, 500, 5_000, 20_000, 40_000, 60_000, 600_000, 7_200_000];

/// One command. A `pick` names something by its place, modulo how many there are.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Elapse {
        ms: u64,
    },
    StepBack {
        ms: u64,
    },
    AcceptClock,
    Publish {
        tasks: Vec<TaskSpec>,
        triggers: Vec<TriggerSpec>,
        archive_absent: bool,
        dry_run: bool,
    },
    Archive {
        key: DefinitionKey,
    },
    Pause {
        trigger: &'static str,
        paused: bool,
        missed: Missed,
    },
    ClaimDue {
        page: u32,
    },
    /// Claims, decides, commits.
    Cycle {
        page: u32,
    },
    Commit {
        picks: Vec<(u64, Say)>,
    },
    ReleaseClaims {
        picks: Vec<u64>,
    },
    RefreshZone {
        version: u64,
        page: u32,
    },
    OpenSession {
        worker: &'static str,
    },
    CloseSession {
        pick: u64,
    },
    Dispatch {
        session: u64,
        slots: u32,
    },
    /// Leases, and starts what it got.
    Work {
        session: u64,
        slots: u32,
    },
    Replay {
        pick: u64,
    },
    Started {
        lease: u64,
        timeout: bool,
    },
    Renew {
        session: u64,
        leases: Vec<u64>,
    },
    Finish {
        lease: u64,
        outcome: AttemptOutcome,
    },
    Release {
        lease: u64,
    },
    Expire {
        page: u32,
    },
    Settle {
        session: u64,
        how: How,
    },
    Start {
        task: &'static str,
        key: Option<u64>,
    },
    Cancel {
        run: u64,
        reason: CancelReason,
    },
    Retry {
        run: u64,
    },
    List {
        limit: u32,
    },
    Trigger {
        trigger: &'static str,
    },
    Overview,
}

/// What is committed about a claim.
#[derive(Clone, Copy, Debug)]
pub(super) enum Say {
    /// The decision.
    Decided,
    /// The decision under the identities of the commit before, as after a lost answer.
    Again,
    SetAside,
}

/// What a restarted worker found out.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    NeverStarted,
    Finished,
    Gone,
}

impl Command {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        match rng.below(200) {
            0..=43 => Self::Elapse { ms: rng.pick(&STEPS_MS) },
            44 => Self::StepBack { ms: rng.pick(&[1, 2_000, 90_000]) },
            45 => Self::AcceptClock,
            46..=50 => publish(rng),
            51 => Self::Archive { key: key(rng) },
            52..=55 => Self::Pause { trigger: rng.pick(&TRIGGERS), paused: rng.one_in(3), missed: rng.pick(&[Missed::Skip, Missed::One]) },
            56..=69 => Self::ClaimDue { page: rng.pick(&[1, 2, 4, 16, 256]) },
            70..=91 => Self::Cycle { page: rng.pick(&[1, 4, 256]) },
            92..=103 => Self::Commit { picks: picks(rng).into_iter().map(|pick| (pick, say(rng))).collect() },
            104..=105 => Self::ReleaseClaims { picks: picks(rng) },
            106..=107 => Self::RefreshZone { version: rng.below(3), page: rng.pick(&[1, 3, 256]) },
            108..=111 => Self::OpenSession { worker: rng.pick(&WORKERS) },
            112 => Self::CloseSession { pick: recent(rng) },
            113..=118 => Self::Work { session: recent(rng), slots: rng.pick(&[1, 8]) },
            119..=132 => Self::Dispatch { session: recent(rng), slots: rng.pick(&[1, 2, 8]) },
            133..=135 => Self::Replay { pick: recent(rng) },
            136..=147 => Self::Started { lease: recent(rng), timeout: rng.one_in(3) },
            148..=153 => Self::Renew { session: recent(rng), leases: picks(rng) },
            154..=169 => Self::Finish { lease: recent(rng), outcome: outcome(rng) },
            170..=171 => Self::Release { lease: recent(rng) },
            172..=174 => Self::Expire { page: rng.pick(&[1, 256]) },
            175..=178 => Self::Settle { session: recent(rng), how: rng.pick(&[How::NeverStarted, How::Finished, How::Gone]) },
            179..=184 => Self::Start { task: rng.pick(&TASKS), key: rng.one_in(3).then(|| rng.below(6)) },
            185..=187 => Self::Cancel { run: recent(rng), reason: rng.pick(CancelReason::ALL) },
            188..=189 => Self::Retry { run: recent(rng) },
            190..=192 => Self::List { limit: rng.pick(&[1, 7, 500]) },
            193..=196 => Self::Trigger { trigger: rng.pick(&TRIGGERS) },
            _ => Self::Overview,
        }
    }
}

/// Counted from the newest: mostly one of the last three, at times an old one.
fn recent(rng: &mut Rng) -> u64 {
    match rng.below(10) {
        0 => rng.below(1_000),
        1..=3 => 1 + rng.below(3),
        _ => 0,
    }
}

/// The newest few, and at times an old one among them.
fn picks(rng: &mut Rng) -> Vec<u64> {
    let n = 1 + rng.below(6);
    (0..n).map(|place| if rng.one_in(12) { rng.below(1_000) } else { place }).collect()
}

fn say(rng: &mut Rng) -> Say {
    match rng.below(20) {
        0 if rng.one_in(3) => Say::SetAside,
        1 => Say::Again,
        _ => Say::Decided,
    }
}

fn key(rng: &mut Rng) -> DefinitionKey {
    if rng.one_in(3) {
        DefinitionKey { kind: DefinitionKind::Task, id: rng.pick(&TASKS).to_owned() }
    } else {
        DefinitionKey { kind: DefinitionKind::Trigger, id: rng.pick(&TRIGGERS).to_owned() }
    }
}

fn outcome(rng: &mut Rng) -> AttemptOutcome {
    let result = rng.pick(&[
        AttemptResult::Succeeded,
        AttemptResult::Failed,
        AttemptResult::Failed,
        AttemptResult::TimedOut,
        AttemptResult::Cancelled,
    ]);
    AttemptOutcome { result, exit_code: rng.one_in(2).then_some(3), error_code: Some("exit_code".to_owned()), error_summary: None }
}

fn publish(rng: &mut Rng) -> Command {
    let mut tasks: Vec<TaskSpec> = TASKS.iter().map(|id| task(rng, id)).collect();
    tasks.retain(|_| !rng.one_in(20));
    let mut triggers: Vec<TriggerSpec> = TRIGGERS.iter().map(|id| trigger(rng, id)).collect();
    triggers.retain(|_| !rng.one_in(4));
    Command::Publish { tasks, triggers, archive_absent: !rng.one_in(3), dry_run: rng.one_in(6) }
}

fn task(rng: &mut Rng, id: &str) -> TaskSpec {
    let retry = RetrySpec {
        max_attempts: 1 + u32::try_from(rng.below(3)).expect("below three"),
        on_lost: rng.one_in(2),
        safety: Safety::Idempotent,
        backoff: Backoff { base_ms: rng.pick(&[0, 1_000, 45_000]), max_ms: 60_000 },
    };
    TaskSpec {
        enabled: !rng.one_in(20),
        priority: rng.pick(&[0, 0, 5, -5]),
        max_concurrent: rng.pick(&[None, None, Some(1), Some(2)]),
        retry,
        ..TaskSpec::new(TaskId::new(id).expect("a letter"), executor::Command::Shell("true".to_owned()))
    }
}

fn trigger(rng: &mut Rng, id: &str) -> TriggerSpec {
    let cron = CronExpr::parse(rng.pick(&CRONS)).expect("one of the list");
    let zone = TimeZone::parse(rng.pick(&ZONES)).expect("one of the list");
    let (trigger, task) = (TriggerId::new(id).expect("a letter"), TaskId::new(rng.pick(&TASKS)).expect("a letter"));
    TriggerSpec {
        enabled: !rng.one_in(20),
        misfire: rng.pick(&[Misfire::Skip, Misfire::FireOnce]),
        overlap: rng.pick(&[Overlap::Allow, Overlap::Skip]),
        ..TriggerSpec::new(trigger, task, &cron, &zone)
    }
}
