//! Identities from the kernel's random source.

use std::sync::{Mutex, PoisonError};

use runtime_core::{TimestampMs, ids::IdSource};
use uuid::{Builder, Uuid};

/// `UUIDv7`s that nobody else makes; those of one millisecond, asked for in a row, increase in the order in which they were made.
#[derive(Debug, Default)]
pub struct RandomIds(Mutex<Option<Last>>);

#[derive(Clone, Copy, Debug)]
struct Last {
    at: TimestampMs,
    /// The 74 bits behind the time.
    tail: u128,
}

const TAIL_BITS: u32 = 74;
const LOW_BITS: u32 = 62;

impl IdSource for RandomIds {
    fn uuid_v7(&self, at: TimestampMs) -> Uuid {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = match *last {
            // A random step keeps the next one unguessable.
            Some(last) if last.at == at => last.tail + 1 + (random() >> 96),
            // The highest bit is left free, so that steps have room.
            _ => random() >> (128 - TAIL_BITS + 1),
        };
        *last = Some(Last { at, tail });
        uuid(at, tail)
    }
}

fn uuid(at: TimestampMs, tail: u128) -> Uuid {
    let high = u16::try_from(tail >> LOW_BITS & 0x0fff).expect("masked to 12 bits");
    let low = u64::try_from(tail & ((1 << LOW_BITS) - 1)).expect("masked to 62 bits");
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&high.to_be_bytes());
    bytes[2..].copy_from_slice(&low.to_be_bytes());
    let millis = u64::try_from(at.get()).expect("timestamps are not negative");
    Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the kernel's random source does not fail once it has been seeded");
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_millisecond_increase() {
        let ids = RandomIds::default();
        let at = TimestampMs::clamped(1_767_614_430_000);
        let made: Vec<_> = (0..10_000).map(|_| ids.uuid_v7(at)).collect();
        assert!(made.is_sorted_by(|a, b| a < b));
        assert!(ids.uuid_v7(at.plus_ms(1)) > made[9_999]);
        assert!(made.iter().all(|id| id.get_version_num() == 7 && id.get_variant() == uuid::Variant::RFC4122));
        assert_eq!(made[0].get_timestamp().unwrap().to_unix().0, 1_767_614_430);
    }

    #[test]
    fn sources_do_not_repeat_each_other() {
        let at = TimestampMs::EPOCH;
        assert_ne!(RandomIds::default().uuid_v7(at), RandomIds::default().uuid_v7(at));
    }

    #[test]
    fn every_bit_of_the_tail_is_kept() {
        let at = TimestampMs::EPOCH;
        for bit in 0..TAIL_BITS {
            assert_ne!(uuid(at, 1 << bit), uuid(at, 0), "bit {bit}");
            assert!(bit == 0 || uuid(at, 1 << bit) > uuid(at, 1 << (bit - 1)), "bit {bit}");
        }
    }
}
