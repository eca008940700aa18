//! Where orders come from: the executor's pipe on stdin, and signals.

use std::{io, os::unix::net::UnixStream};

use serde::de::DeserializeOwned;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::protocol::Frames;

#[derive(Default)]
pub(super) struct Control(Frames);

impl Control {
    /// Waits for a message; `None` if the pipe is closed.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(message) = self.0.next()? {
                return Ok(Some(message));
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// A message that is already here.
    pub fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.0.next()
    }

    /// Takes what is in the pipe, waiting if it is empty; false if it is closed.
    pub fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let count = rustix::io::retry_on_intr(|| rustix::io::read(io::stdin(), &mut buffer))?;
        self.0.push(&buffer[..count]);
        Ok(count > 0)
    }
}

/// Becomes readable when the guard is told to end by a signal: by recovery, by an operator, by a service manager that stops all
/// processes of a unit. From here on these signals no longer kill the guard.
pub(super) fn end_signals() -> io::Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair()?;
    receiver.set_nonblocking(true)?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    Ok(receiver)
}
