//! The scheduler and executor of one file.

use std::{future::Future, sync::Arc};

use edge_sqlite::{Authority, SqliteOptions, SqliteStore};
use local_process::LocalProcess;
use runtime_core::{AuthorityClock, StoreError, ids::IdSource};
use runtime_engine::{Engine, EngineHandle, Observer, Ports};

use crate::{BootClock, EdgeOptions, RandomIds, SystemClock};

/// An open edge. Nothing is admitted or executed before [`Edge::run`].
pub struct Edge {
    store: SqliteStore,
    engine: Engine,
}

impl Edge {
    /// Opens the file, makes it if it is missing, and becomes its scheduler.
    ///
    /// # Errors
    /// [`StoreError::AlreadyRunning`] if another process is the scheduler; [`StoreError::Invalid`] for options out of bounds; see
    /// [`SqliteStore::open_or_create`].
    pub async fn open(options: &EdgeOptions, observer: Observer) -> Result<Self, StoreError> {
        let ids: Arc<dyn IdSource> = Arc::new(RandomIds::default());
        let clock: Arc<dyn AuthorityClock> = Arc::new(SystemClock);
        let engine_options = options.engine(ids.as_ref())?;
        let authority = Authority { clock: Arc::clone(&clock), ids: Arc::clone(&ids) };
        let store = SqliteStore::open_or_create(SqliteOptions::new(&options.db), authority).await?;
        if let Err(error) = store.become_scheduler().await {
            store.close().await;
            return Err(error);
        }
        let ports = Ports {
            schedules: Arc::new(store.clone()),
            dispatch: Arc::new(store.clone()),
            runs: Arc::new(store.clone()),
            definitions: Arc::new(store.clone()),
            control: Arc::new(store.clone()),
            executor: Arc::new(LocalProcess::new(options.executor())),
            monotonic: Arc::new(BootClock),
            authority: Some(clock),
            ids,
            observer,
        };
        let engine = Engine::new(ports, engine_options)?;
        Ok(Self { store, engine })
    }

    /// The store: definitions may be applied before the edge runs, and everything may be read while it does.
    pub fn store(&self) -> &SqliteStore {
        &self.store
    }

    /// Stops it from elsewhere; a second, more urgent stop too.
    pub fn handle(&self) -> EngineHandle {
        self.engine.handle()
    }

    /// Settles what earlier processes left behind, then admits and executes until `shutdown` is ready; lets running attempts finish up to the
    /// drain limit, stops the rest, and closes the store.
    ///
    /// # Errors
    /// What kept it from going on; never that the store was busy or its disk full for a while.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), StoreError> {
        let handle = self.engine.handle();
        let stop = async {
            shutdown.await;
            handle.stop();
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = self.engine.run() => ended,
            () = stop => Ok(()),
        };
        self.store.close().await;
        ended
    }
}
