//! Claiming what is due and committing what was decided about it.

mod claim;
mod commit;
mod ledger;
mod raced;
mod zone;

pub use claim::*;
pub use commit::*;
pub use ledger::*;
pub use raced::*;
pub use zone::*;
