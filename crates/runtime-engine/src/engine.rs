//! The whole: clock, recovery, admission, and the way back.

use std::{sync::Arc, time::Duration};

use runtime_core::{
    AuthorityClock, Invalid, MonotonicClock, StoreError,
    cron::zone_data_version,
    ids::IdSource,
    limits::CLAIM_PAGE_MAX,
    ports::{
        control::ControlStore, definitions::DefinitionStore, dispatch::DispatchStore, executor::Executor, runs::RunReader,
        schedules::ScheduleStore,
    },
};

use crate::{
    ClockGuard, EngineHandle, EngineOptions, POLL_MS,
    dispatcher::Dispatcher,
    event::{EngineEvent, Observer},
    lifecycle::Phase,
    retries::Retries,
    scheduler::Scheduler,
};

/// How long a cycle that is under way may take to end once the engine is asked to stop.
const CYCLE_LIMIT: Duration = Duration::from_secs(5);

/// What an engine works on.
#[derive(Clone)]
pub struct Ports {
    /// Schedules.
    pub schedules: Arc<dyn ScheduleStore>,
    /// Execution.
    pub dispatch: Arc<dyn DispatchStore>,
    /// Runs, read.
    pub runs: Arc<dyn RunReader>,
    /// Definitions, read.
    pub definitions: Arc<dyn DefinitionStore>,
    /// The clock's mark, read.
    pub control: Arc<dyn ControlStore>,
    /// Runs commands.
    pub executor: Arc<dyn Executor>,
    /// Suspend-aware; on Linux `CLOCK_BOOTTIME`.
    pub monotonic: Arc<dyn MonotonicClock>,
    /// The clock that the store was given, if it was given one; see [`ClockGuard`].
    pub authority: Option<Arc<dyn AuthorityClock>>,
    /// Identities, and the randomness of delays.
    pub ids: Arc<dyn IdSource>,
    /// Takes events.
    pub observer: Observer,
}

/// A scheduler and a dispatcher over one store.
pub struct Engine {
    ports: Ports,
    options: EngineOptions,
    clock: Arc<ClockGuard>,
    handle: EngineHandle,
}

impl Engine {
    /// Touches nothing yet.
    ///
    /// # Errors
    /// Options out of bounds.
    pub fn new(ports: Ports, options: EngineOptions) -> Result<Self, Invalid> {
        options.check()?;
        let (monotonic, authority) = (Arc::clone(&ports.monotonic), ports.authority.clone());
        let clock = Arc::new(ClockGuard::new(monotonic, authority, options.clock, Arc::clone(&ports.observer)));
        Ok(Self { ports, options, clock, handle: EngineHandle::new() })
    }

    /// Stops it, and wakes it.
    pub fn handle(&self) -> EngineHandle {
        self.handle.clone()
    }

    /// Runs until [`EngineHandle::stop`], or until it cannot go on.
    ///
    /// # Errors
    /// The first error that ended it. A store that is busy or unavailable does not; it is waited for.
    pub async fn run(self) -> Result<(), StoreError> {
        if let Err(error) = self.work().await {
            self.handle.fail(error);
        }
        self.handle.first_error().map_or(Ok(()), Err)
    }

    async fn work(&self) -> Result<(), StoreError> {
        self.wait_for_clock().await?;
        self.refresh_zone_data().await?;
        if self.handle.stopping() {
            return Ok(());
        }
        let Some(dispatcher) = Dispatcher::open(&self.ports, &self.clock, &self.handle, &self.options).await? else {
            return Ok(());
        };
        let schedule = async {
            let mut scheduler = Scheduler::new(&self.ports, Arc::clone(&self.clock), self.handle.clone(), self.options.clone());
            let late = async {
                self.handle.reached(Phase::Drain).await;
                tokio::time::sleep(CYCLE_LIMIT).await;
            };
            tokio::select! {
                ended = scheduler.run() => ended.unwrap_or_else(|error| self.handle.fail(error)),
                // Claims that were not given back end by themselves.
                () = late => tracing::warn!("gave up waiting for a cycle that was under way"),
            }
        };
        let dispatch = async {
            dispatcher.run().await.unwrap_or_else(|error| self.handle.fail(error));
        };
        tokio::join!(schedule, dispatch);
        Ok(())
    }

    /// Where the authority is this machine's clock and stands below the mark (a board without a battery boots in 1970), even recovery
    /// would write nonsense.
    async fn wait_for_clock(&self) -> Result<(), StoreError> {
        let Some(authority) = &self.ports.authority else { return Ok(()) };
        while !self.handle.stopping() {
            let Some(mark) = self.retries("read the clock's mark").until_done(&self.handle, || self.ports.control.clock_mark()).await?
            else {
                break;
            };
            if self.clock.observe(authority.now(), self.ports.monotonic.now_ms(), mark).trusted() {
                break;
            }
            self.handle.pause(Duration::from_millis(POLL_MS)).await;
        }
        Ok(())
    }

    async fn refresh_zone_data(&self) -> Result<(), StoreError> {
        let refresh = || self.ports.schedules.refresh_zone_data(zone_data_version(), CLAIM_PAGE_MAX);
        while let Some((moved, more)) = self.retries("compute cursors with new zone data").until_done(&self.handle, refresh).await? {
            for cursor in moved {
                (self.ports.observer)(&EngineEvent::CursorMoved(cursor));
            }
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn retries(&self, doing: &'static str) -> Retries {
        Retries::new(doing, &self.ports.ids, &self.ports.observer)
    }
}
