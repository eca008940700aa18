//! The contract on SQLite, and what only SQLite can get wrong.

mod fixture;

use fixture::SqliteFixture;

store_contract::contract!(SqliteFixture, cases = 36, skipped = []);
