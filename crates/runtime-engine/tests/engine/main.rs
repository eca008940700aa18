//! The engine over the reference store and a scripted executor, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod dispatch;
mod executor;
mod hooked;
mod recovery;
mod scheduling;
mod shutdown;
mod world;
