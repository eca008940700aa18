//! Publishing definitions, and pausing triggers.

mod activation;
mod pause;
mod publish;

pub use activation::*;
pub use pause::*;
pub use publish::*;
