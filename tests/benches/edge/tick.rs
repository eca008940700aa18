//! What it costs to look when nothing is due.

use std::{
    fs::Metadata,
    path::Path,
    time::{Instant, SystemTime},
};

use runtime_core::limits::CLAIM_PAGE_MAX;

use crate::{
    Figure, ROUNDS, median,
    seed::{self, Place, block_on},
};

const TRIGGERS: usize = 100_000;
const TICKS: u32 = 200;

pub fn measure() -> Vec<Figure> {
    let folder = tempfile::tempdir().unwrap();
    let ms = block_on(async {
        let path = seed::write(folder.path(), TRIGGERS, "0 0 1 1 *").await;
        let place = Place::open(&path, seed::start()).await;
        place.claim(CLAIM_PAGE_MAX).await;
        let before = state(folder.path());
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let began = Instant::now();
            for _ in 0..TICKS {
                place.clock.advance(1_000);
                assert!(place.claim(CLAIM_PAGE_MAX).await.is_empty());
            }
            rounds.push(began.elapsed().as_secs_f64() * 1_000.0 / f64::from(TICKS));
        }
        assert_eq!(state(folder.path()), before, "a tick wrote to the file or its log");
        place.store.close().await;
        median(rounds)
    });
    vec![Figure::new("a tick with 100,000 triggers, none due, which writes nothing", "ms", ms, "< 1")]
}

/// Sizes and times of the last change of the database and its log. The index of the log is memory that readers mark themselves in.
fn state(folder: &Path) -> Vec<(u64, SystemTime)> {
    let read = |name: &str| std::fs::metadata(folder.join(name)).ok().as_ref().map(facts);
    ["seed.db", "seed.db-wal"].into_iter().filter_map(read).collect()
}

fn facts(file: &Metadata) -> (u64, SystemTime) {
    (file.len(), file.modified().unwrap())
}
