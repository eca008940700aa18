//! The executor of ql3 on one Linux machine: every attempt runs under a small guard.
//!
//! # How an attempt runs
//!
//! The executor starts a *guard* (the same binary, `ql3 guard`, one thread, in a process group of its own) and hands it the whole job
//! over a pipe: environment values are secrets, so neither argv nor the environment of the guard carries them. The guard answers with
//! its identity and blocks. [`Prepared::go`] lets it start the command; if the pipe closes before that, it exits and nothing ran.
//!
//! From then on the guard needs nobody. It captures output, obeys extensions and stop orders, and ends the command when its lease
//! runs out on `CLOCK_BOOTTIME` (which runs on during a suspend) or when the pipe closes because the executor's process is gone.
//! Before it reports, it writes how the command ended to `<log_dir>/<run id>/<attempt>.exit`, durably: recovery reads it.
//!
//! The command is the leader of a session and of a process group, and its end is the end of that group: whatever still runs in it is
//! ended too (TERM, then KILL). A process that leaves the group on purpose (a daemon) leaves the guard's care. If the guard itself is
//! killed, the kernel kills the command at once (`PR_SET_PDEATHSIG`, which set-user-id programs escape) and the rest of the group is
//! ended by [`Running::wait`] or [`Executor::recover`].
//!
//! # Who is signalled
//!
//! A process is identified by pid, start time, boot id and PID namespace. A signal goes through a pidfd whose identity was checked after
//! it was opened; a group is signalled by number only while its leader is a child that the guard has not reaped, because then the
//! number cannot be given to anyone else. No proof, no signal.
//!
//! # Embedding
//!
//! A program that uses [`LocalProcess`] calls [`run_if_guard`] first in `main`, or names the small `ql3-guard` binary of this package
//! in [`LocalProcessOptions::guard_program`]. Needed: Linux 5.3 and `/proc`; a tokio runtime with its I/O and time drivers enabled.
//!
//! [`Prepared::go`]: runtime_core::ports::executor::Prepared::go
//! [`Running::wait`]: runtime_core::ports::executor::Running::wait
//! [`Executor::recover`]: runtime_core::ports::executor::Executor::recover

mod executor;
mod files;
mod group;
mod guard;
mod identity;
pub mod logs;
mod protocol;
mod recover;
mod running;

pub use executor::{LocalProcess, LocalProcessOptions};
pub use guard::run_if_guard;

/// How long a group has between TERM and KILL when nobody said how long: the lease ran out, the executor disappeared, or the command
/// exited and left others behind. A caller that must be sure that nothing runs after an instant ends its lease this much earlier.
pub const ABANDON_GRACE_MS: u64 = 2_000;
