//! The program's own log (`QL3_LOG`): what it has to say beside its answers, on standard error.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use tracing_subscriber::filter::LevelFilter;

use crate::failure::{Exit, Failure};

/// Lines that wait for a slow reader. What comes beyond is counted and left out: logging never holds up the schedule.
const WAITING: usize = 1_024;
/// How long the end waits for the last lines to be taken.
const LAST_LINES: Duration = Duration::from_secs(2);

const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// A log that has begun.
#[derive(Default)]
pub struct Log {
    waiting: Option<(Lines, Receiver<()>)>,
}

/// Begins the log at the level that `QL3_LOG` asks for.
///
/// # Errors
/// The value is no level.
pub fn start(json: bool) -> Result<Log, Failure> {
    let wanted = std::env::var_os("QL3_LOG").filter(|value| !value.is_empty());
    let level = match &wanted {
        Some(text) => level(&text.to_string_lossy())?,
        // Then standard error carries one object, the error, and scripts read it as that.
        None if json => LevelFilter::OFF,
        None => LevelFilter::WARN,
    };
    if level == LevelFilter::OFF {
        return Ok(Log::default());
    }
    let (lines, ended) = Lines::to(io::stderr());
    let writer = lines.clone();
    tracing_subscriber::fmt().with_max_level(level).with_writer(move || writer.clone()).init();
    Ok(Log { waiting: Some((lines, ended)) })
}

fn level(text: &str) -> Result<LevelFilter, Failure> {
    let found = LEVELS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    found.map(|(_, level)| *level).ok_or_else(|| {
        let names: Vec<_> = LEVELS.iter().map(|(name, _)| *name).collect();
        Failure::new(Exit::Usage, "usage", format!("QL3_LOG: `{}` is no level", text.escape_debug()))
            .hint(format!("use {}", names.join(", ")))
    })
}

impl Log {
    /// Waits until the last lines are written; not for a reader that takes none.
    pub fn finish(self) {
        if let Some((lines, ended)) = self.waiting {
            lines.end();
            let _ = ended.recv_timeout(LAST_LINES);
        }
    }
}

/// Hands whole lines to a thread of its own. An empty one is the last.
#[derive(Clone)]
struct Lines {
    queue: SyncSender<Vec<u8>>,
    left_out: Arc<AtomicU64>,
}

impl Lines {
    fn to(mut out: impl Write + Send + 'static) -> (Self, Receiver<()>) {
        let (queue, waiting) = sync_channel::<Vec<u8>>(WAITING);
        let (done, ended) = sync_channel(1);
        let left_out = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&left_out);
        std::thread::spawn(move || {
            for line in waiting {
                let last = line.is_empty();
                let _ = out.write_all(&line);
                match counted.swap(0, Ordering::Relaxed) {
                    0 => {}
                    lines => drop(writeln!(out, "… {lines} lines left out: the log is not read fast enough")),
                }
                if last {
                    break;
                }
            }
            let _ = done.send(());
        });
        (Self { queue, left_out }, ended)
    }

    fn end(&self) {
        // A full queue means that nobody reads: then nobody waits for the last lines either.
        let _ = self.queue.try_send(Vec::new());
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let (false, Err(TrySendError::Full(_))) = (line.is_empty(), self.queue.try_send(line.to_vec())) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn every_level_has_a_name_and_others_are_refused() {
        assert_eq!(level("Debug").unwrap(), LevelFilter::DEBUG);
        assert_eq!(level("off").unwrap(), LevelFilter::OFF);
        assert!(level("verbose").unwrap_err().to_text(crate::output::Paint::plain()).contains("off, error, warn, info, debug, trace"));
    }

    #[test]
    fn a_reader_that_takes_nothing_holds_nobody_up() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (mut lines, ended) = Lines::to(writer);
        let line = [b"x".repeat(1_023), b"\n".to_vec()].concat();
        let written = 4 * WAITING;
        for _ in 0..written {
            lines.write_all(&line).unwrap();
        }
        assert!(lines.left_out.load(Ordering::Relaxed) > 0, "the queue is bounded");
        let rest = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        // Only now there is room for the last one.
        while lines.queue.try_send(Vec::new()).is_err() {
            std::thread::yield_now();
        }
        ended.recv().unwrap();
        let text = rest.join().unwrap();
        let told: usize = text.lines().filter_map(|line| line.strip_prefix("… ")?.split(' ').next()?.parse::<usize>().ok()).sum();
        assert_eq!(text.lines().filter(|line| line.starts_with('x')).count() + told, written, "each is written or counted");
    }
}
