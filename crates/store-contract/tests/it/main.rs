//! The reference model passes its own suite.

use store_contract::MemoryFixture;

store_contract::contract!(MemoryFixture, cases = 172, skipped = [("corruptible", 4)]);
