//! What a service manager is told of a running `up`, over the datagram socket that it names in `NOTIFY_SOCKET` (`sd_notify(3)`).

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    os::{linux::net::SocketAddrExt as _, unix::ffi::OsStrExt as _, unix::net},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use edge_control::EngineEvent;
use runtime_core::{StoreError, clock::ClockState, ports::control::ControlStore};

/// A manager that takes nothing for so long is not waited for any more: telling it must not hold up the schedule.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tells the service manager, if there is one.
pub struct Service {
    manager: Option<(net::UnixDatagram, net::SocketAddr)>,
    /// How often the manager wants to hear that all is well, at least.
    watchdog: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ready: bool,
    ending: bool,
    /// What keeps it from scheduling, by what is being done.
    troubles: BTreeMap<&'static str, String>,
}

impl Service {
    pub fn from_env() -> Self {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let manager = var("NOTIFY_SOCKET").and_then(|name| {
            connect(&name).inspect_err(|error| tracing::warn!(%error, "the service manager cannot be told anything")).ok()
        });
        // The order may be meant for a parent, which handed its environment on.
        let meant = var("WATCHDOG_PID").is_none_or(|pid| pid == *std::process::id().to_string());
        let watchdog = var("WATCHDOG_USEC").filter(|_| meant && manager.is_some());
        let watchdog = watchdog.and_then(|us| us.to_str()?.parse().ok()).filter(|us| *us > 0).map(Duration::from_micros);
        Self { manager, watchdog, state: Mutex::default() }
    }

    /// An event of the engine.
    pub fn event(&self, event: &EngineEvent) {
        if self.manager.is_some()
            && let Some(news) = self.state.lock().unwrap_or_else(PoisonError::into_inner).news(event)
        {
            self.tell(&news);
        }
    }

    /// Tells at half of the watchdog's time that the process is alive, until it is dropped.
    ///
    /// Each time is one turn of the engine's own thread and one answer of the database to a reader. An error is an answer too: the engine
    /// tries again by itself, and another process would meet the same full disk. Writes are not asked for: they queue while another program
    /// holds the lock, and a restart would then cost the attempts that run and mend nothing.
    pub async fn keep_alive(&self, store: &dyn ControlStore) {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        let mut ticks = tokio::time::interval((watchdog / 2).max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !matches!(store.clock_mark().await, Err(StoreError::Closed)) {
                self.tell("WATCHDOG=1");
            }
        }
    }

    /// Readiness and the end are waited with for a while, since nothing repeats them. The rest is not: a status is soon outdated, and a
    /// watchdog has a second chance.
    fn tell(&self, news: &str) {
        let Some((socket, to)) = &self.manager else { return };
        let patient = news.starts_with("READY=1") || news.starts_with("STOPPING=1");
        let once = || socket.set_nonblocking(!patient).and_then(|()| socket.send_to_addr(news.as_bytes(), to));
        let mut sent = once();
        while sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
            sent = once();
        }
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !patient => tracing::debug!(news, "the service manager is busy"),
            Err(error) => tracing::warn!(%error, news, "the service manager was not told"),
            Ok(_) => {}
        }
    }
}

fn connect(name: &OsStr) -> io::Result<(net::UnixDatagram, net::SocketAddr)> {
    let to = match name.as_bytes() {
        [b'@', name @ ..] => net::SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => net::SocketAddr::from_pathname(name)?,
        _ => return Err(io::Error::other("NOTIFY_SOCKET is neither a path nor an abstract socket")),
    };
    let socket = net::UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok((socket, to))
}

impl State {
    /// What an event means for the manager.
    fn news(&mut self, event: &EngineEvent) -> Option<String> {
        match event {
            EngineEvent::Ready { .. } => self.ready = true,
            EngineEvent::Clock(ClockState::Trusted) => drop(self.troubles.remove("clock")),
            EngineEvent::Clock(_) => {
                self.troubles.insert("clock", "nothing is scheduled: the clock is not trusted (`ql3 status`)".to_owned());
            }
            EngineEvent::StoreTrouble { doing, error } => {
                // A newline would end the line that it is put into.
                self.troubles.insert(doing, format!("cannot {doing}: {error}; trying again").replace(char::is_control, " "));
            }
            EngineEvent::StoreRecovered { doing } => drop(self.troubles.remove(doing)),
            EngineEvent::Draining { running } => {
                self.ending = true;
                return Some(format!("STOPPING=1\nSTATUS=stopping; {running} running may finish"));
            }
            EngineEvent::Stopping { running } => return Some(format!("STATUS=stopping {running} running")),
            _ => return None,
        }
        if self.ending {
            return None;
        }
        let status = match self.troubles.values().next() {
            Some(trouble) => trouble,
            None if self.ready => "scheduling",
            None => "settling what an earlier start left",
        };
        let ready = if matches!(event, EngineEvent::Ready { .. }) { "READY=1\n" } else { "" };
        Some(format!("{ready}STATUS={status}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> EngineEvent {
        EngineEvent::Ready { settled: 0, unproven: 0 }
    }

    fn trouble(doing: &'static str) -> EngineEvent {
        EngineEvent::StoreTrouble { doing, error: StoreError::Unavailable { cause: "disk\nfull".to_owned() } }
    }

    #[test]
    fn the_status_names_what_is_wrong_until_nothing_is() {
        let mut state = State::default();
        let mut news = |event: &EngineEvent| state.news(event);
        let behind = EngineEvent::Clock(ClockState::Behind { by_ms: 5 });
        assert!(news(&behind).unwrap().starts_with("STATUS=nothing is scheduled: the clock"));
        let first = news(&ready()).unwrap();
        assert!(first.starts_with("READY=1\nSTATUS=nothing is scheduled: the clock"), "{first}");
        let told = news(&trouble("admit")).unwrap();
        assert_eq!(told.lines().count(), 1, "{told}");
        let left = news(&EngineEvent::Clock(ClockState::Trusted)).unwrap();
        assert!(left.starts_with("STATUS=cannot admit: ") && left.ends_with("; trying again"), "{left}");
        assert_eq!(news(&EngineEvent::StoreRecovered { doing: "admit" }).unwrap(), "STATUS=scheduling");
    }

    #[test]
    fn an_end_stays_one() {
        let mut state = State::default();
        assert_eq!(state.news(&ready()).unwrap(), "READY=1\nSTATUS=scheduling");
        assert!(state.news(&EngineEvent::Draining { running: 2 }).unwrap().starts_with("STOPPING=1\n"));
        assert_eq!(state.news(&trouble("record")), None);
    }
}
