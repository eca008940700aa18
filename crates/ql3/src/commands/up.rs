//! `up`: the scheduler and executor of a file, in the foreground.

use std::{process::ExitCode, sync::Arc, time::Duration};

use edge_control::{Edge, EdgeOptions, EngineHandle};
use runtime_core::{StoreError, cron, ids::ProjectId, ports::history::HistoryStore};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{apply, check::project_of, keep::Keep, operator};
use crate::{
    cli::{Global, Up},
    duration,
    failure::{Exit, Failure},
    jobs::{self, JobsFile},
    live::Live,
    output::Out,
    service::Service,
    store::check_kind,
};

pub async fn run(args: Up, global: &Global, out: &Out) -> Result<ExitCode, Failure> {
    // Before anything is opened: a bad file leaves nothing behind, and no signal is missed.
    let file = args.file.as_deref().map(jobs::read).transpose()?;
    let file = file.map(|file| project_of(&file, global).map(|project| (project, file))).transpose()?;
    let keep = args
        .keep_ms
        .map(|ms| Ok::<_, Failure>(Keep { ms, by: operator(Some(format!("up --keep {}", duration::show(ms))))? }))
        .transpose()?;
    let signals = Signals::listen()?;
    check_kind(&global.db)?;
    let options = EdgeOptions { max_concurrent: args.max_concurrent, drain_ms: args.drain_ms, ..EdgeOptions::new(&global.db) };
    if options.log_dir.to_str().is_none() {
        let message = format!("the path of the database is not UTF-8: {}", options.db.display());
        return Err(Failure::new(Exit::Invalid, "invalid_input", message).hint("guards are told it as text: use another name"));
    }
    let live = Arc::new(Live::start(Out::new(out.json)));
    let service = Arc::new(Service::from_env());
    let (lines, manager) = (Arc::clone(&live), Arc::clone(&service));
    let observer: edge_control::Observer = Arc::new(move |event| {
        lines.event(event);
        manager.event(event);
    });
    let plan = Plan { for_ms: args.for_ms, file, keep };
    let ended = up(plan, &options, signals, (&live, &service), observer).await;
    if ended.is_ok() {
        let counts = live.counts();
        live.say(format_args!("ended: {counts}"), || {
            let mut value = counts.to_json();
            value["event"] = Value::from("ended");
            value
        });
    }
    live.finish();
    ended.map(|()| ExitCode::SUCCESS)
}

/// What is asked of `up` beside the edge's own options.
struct Plan {
    for_ms: Option<u64>,
    file: Option<(ProjectId, JobsFile)>,
    keep: Option<Keep>,
}

async fn up(
    Plan { for_ms, file, keep }: Plan,
    options: &EdgeOptions,
    mut signals: Signals,
    (live, service): (&Live, &Service),
    observer: edge_control::Observer,
) -> Result<(), Failure> {
    let edge = Edge::open(options, observer).await.map_err(|error| already_running(error, options))?;
    let (version, zone_data) = (env!("CARGO_PKG_VERSION"), cron::zone_data_version());
    live.say(
        format_args!("ql3 {version} on {} (zone data {zone_data}); times are UTC, Ctrl-C stops", options.db.display()),
        || json!({ "event": "up", "version": version, "database": options.db.display().to_string(), "zoneData": zone_data }),
    );
    if let Some((project, file)) = file {
        let published = apply::publish(edge.store(), &project, file, false).await?;
        live.say(
            format_args!("project `{project}`: {}", apply::summary(&published.changes)),
            || json!({ "event": "applied", "project": project, "summary": apply::summary(&published.changes) }),
        );
    }
    let history: &dyn HistoryStore = edge.store();
    if history.overview().await?.triggers == 0 {
        live.say(
            "nothing is scheduled yet: `ql3 apply jobs.toml` defines it, from another terminal too",
            || json!({ "event": "nothing_scheduled" }),
        );
    }
    let (handle, store) = (edge.handle(), edge.store().clone());
    let pruned = async {
        match &keep {
            Some(keep) => keep.run(&store, &options.log_dir, live).await,
            None => std::future::pending().await,
        }
    };
    let running = edge.run(async move {
        let limit = async {
            match for_ms {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = limit => {}
            () = signals.first() => {}
        }
        tokio::spawn(urge(signals, handle));
    });
    tokio::select! {
        ended = running => Ok(ended?),
        () = pruned => Ok(()),
        () = service.keep_alive(&store) => Ok(()),
    }
}

/// A further signal stops what is still running at once.
async fn urge(mut signals: Signals, handle: EngineHandle) {
    signals.second().await;
    handle.stop_now();
}

fn already_running(error: StoreError, options: &EdgeOptions) -> Failure {
    match error {
        StoreError::AlreadyRunning { holder } => {
            let message = format!("`ql3 up` is already running on {}: {holder}", options.db.display());
            Failure::new(Exit::AlreadyRunning, "already_running", message)
                .hint("other commands work beside it (apply, run start, …); stop it first, or use another database with --db")
        }
        other => other.into(),
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal is gone. None where that is to be ignored, as `nohup` asks.
    hangup: Option<Signal>,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::new(Exit::Unavailable, "signals", format!("cannot listen to signals: {error}")));
        let hangup = if hangup_is_ignored() { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())?, hangup })
    }

    /// The first order to end.
    async fn first(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hangup => {}
        }
    }

    /// An order to hurry. A terminal that closes may send its signal twice: once by the shell, once by the kernel.
    async fn second(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Whether this process was started with SIGHUP ignored, which listening to it would undo.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored & 1 << (SignalKind::hangup().as_raw_value() - 1) != 0
}
