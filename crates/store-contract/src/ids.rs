//! Identities that are the same in every run of a test.

use std::sync::atomic::{AtomicU64, Ordering};

use runtime_core::{TimestampMs, ids::IdSource};
use uuid::Uuid;

/// `UUIDv7`s in increasing order: time, then seed, then a counter. Of one instant, all ids of a lower seed are below all of a higher one.
#[derive(Debug)]
pub struct SeededIds {
    seed: u16,
    made: AtomicU64,
}

impl SeededIds {
    /// Ids of this seed.
    pub fn new(seed: u16) -> Self {
        Self { seed, made: AtomicU64::new(0) }
    }
}

impl IdSource for SeededIds {
    fn uuid_v7(&self, at: TimestampMs) -> Uuid {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0_u8; 16];
        bytes[..6].copy_from_slice(&at.get().to_be_bytes()[2..]);
        bytes[6] = 0x70 | (self.seed >> 12).to_be_bytes()[1];
        bytes[7] = (self.seed >> 4).to_be_bytes()[1];
        bytes[8] = 0x80 | (self.seed & 0xf).to_be_bytes()[1];
        bytes[9..].copy_from_slice(&made.to_be_bytes()[1..]);
        Uuid::from_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_by_time_then_seed_then_order() {
        let (one, two) = (SeededIds::new(1), SeededIds::new(0xffff));
        let (early, late) = (TimestampMs::clamped(1_767_614_430_000), TimestampMs::clamped(1_767_614_430_001));
        let ids = [two.uuid_v7(early), one.uuid_v7(early), one.uuid_v7(early), one.uuid_v7(late)];
        assert!(ids[1] < ids[2] && ids[2] < ids[0] && ids[0] < ids[3], "{ids:?}");
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        assert_eq!(SeededIds::new(1).uuid_v7(early), ids[1], "another source of the same seed makes the same ids");
    }
}
