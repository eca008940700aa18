//! Admitting what is due, through the store and by bare SQLite, in turns.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use runtime_core::limits::CLAIM_PAGE_MAX;

use crate::{
    Figure, ROUNDS,
    bare::Recording,
    median,
    seed::{self, Place, block_on},
};

/// From the seed's clock to the next minute, when everything is due.
const UNTIL_DUE_MS: u64 = 30_000;

pub fn pages() -> Vec<Figure> {
    let (ratio, rate) = compare(8_192, CLAIM_PAGE_MAX);
    vec![
        Figure::new("admission at pages of 256, of bare SQLite's rate", "", ratio, ">= 0.6"),
        Figure::new("admission at pages of 256", "Runs/s", rate, ""),
    ]
}

pub fn single() -> Vec<Figure> {
    let (ratio, rate) = compare(512, 1);
    vec![
        Figure::new("admission at one a transaction, of bare SQLite's rate", "", ratio, ">= 0.6"),
        Figure::new("admission at one a transaction", "Runs/s", rate, ""),
    ]
}

/// Medians of the ratio of the rates, pair by pair, and of the store's rate.
fn compare(triggers: usize, page: u32) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let seed = block_on(seed::write(folder.path(), triggers, "* * * * *"));
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let through_store = on_copy(&seed, |copy| {
            let spent = block_on(admit(copy, triggers, page));
            (spent, Recording::read(copy))
        });
        let (spent, recording) = through_store;
        let bare = on_copy(&seed, |copy| recording.replay(copy, page as usize));
        ratios.push(bare.as_secs_f64() / spent.as_secs_f64());
        rates.push(f64::from(u32::try_from(triggers).unwrap()) / spent.as_secs_f64());
    }
    (median(ratios), median(rates))
}

/// Each measurement has its own fresh copy, removed after it.
fn on_copy<T>(seed: &Path, measure: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    std::fs::copy(seed, &copy).unwrap();
    // Otherwise the first to synchronise pays for the copy.
    std::fs::File::open(&copy).unwrap().sync_all().unwrap();
    measure(&copy)
}

async fn admit(path: &Path, triggers: usize, page: u32) -> Duration {
    let place = Place::open(path, seed::start()).await;
    place.clock.advance(UNTIL_DUE_MS);
    let began = Instant::now();
    let mut admitted = 0;
    while admitted < triggers {
        let (more, _) = place.cycle(page).await;
        assert!(more > 0, "{admitted} of {triggers} are admitted");
        admitted += more;
    }
    let spent = began.elapsed();
    place.store.close().await;
    spent
}
