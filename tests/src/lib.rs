//! What needs several crates: differential, end to end, kill -9.
