//! The edge program end to end: real processes, real signals, one file.

mod clock;
mod kill;
mod stop;
