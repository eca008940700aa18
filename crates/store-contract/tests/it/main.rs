//! The reference model passes its own suite.

use store_contract::MemoryFixture;

store_contract::contract!(MemoryFixture, cases = 201, skipped = [("corruptible", 4)]);
