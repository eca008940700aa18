//! A copy of a file in use.

use std::{fs, os::unix::fs::PermissionsExt};

use edge_sqlite::{SqliteOptions, SqliteStore};
use runtime_core::ports::{control::ControlStore, history::HistoryStore};
use store_contract::{Fixture, SeededIds};

use crate::{
    fixture::{SqliteFixture, rows},
    kit::{admission, insert, minutely, publish, start_task, task},
};

fn names(fixture: &SqliteFixture) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(fixture.folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The rows of the copy are those of one moment: whoever writes meanwhile is in it whole or not at all.
#[tokio::test]
async fn a_copy_of_a_file_in_use_is_one_moment_of_it() {
    let fixture = SqliteFixture::fresh().await;
    publish(&fixture.store, vec![task("a")], vec![minutely("t", "a")]).await;
    for _ in 0..200 {
        start_task(&fixture.store, "a").await.unwrap();
    }
    let (other, to) = (fixture.another().await, fixture.folder.path().join("copy.db"));
    let writing = async {
        for _ in 0..200 {
            start_task(&other, "a").await.unwrap();
        }
    };
    let (bytes, ()) = tokio::join!(fixture.store.backup(&to, false), writing);
    assert_eq!(bytes.unwrap(), fs::metadata(&to).unwrap().len());
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(names(&fixture).iter().all(|name| name.starts_with("ql3.db") || name == "copy.db"), "{:?}", names(&fixture));

    let copy = SqliteStore::open_existing(SqliteOptions::new(&to), fixture.authority.clone()).await.unwrap();
    let runs = copy.overview().await.unwrap().runs.iter().map(|(_, n)| *n).sum::<u64>();
    assert!((200..=400).contains(&runs), "{runs}");
    assert_eq!(copy.acts(500).await.unwrap().len() as u64, runs + 1, "each Run with its act");
    assert!(runtime_core::verify::verify(&copy).await.unwrap().ok());
    copy.close().await;
}

#[tokio::test]
async fn a_quiet_file_and_its_copy_hold_the_same_rows() {
    let fixture = SqliteFixture::fresh().await;
    publish(&fixture.store, vec![task("a")], vec![minutely("t", "a")]).await;
    start_task(&fixture.store, "a").await.unwrap();
    let to = fixture.folder.path().join("copy.db");
    fixture.store.backup(&to, false).await.unwrap();
    assert_eq!(rows(&crate::fixture::raw(&to)), rows(&fixture.raw()));
}

#[tokio::test]
async fn what_is_there_is_replaced_only_on_request_and_whole() {
    let fixture = SqliteFixture::fresh().await;
    let to = fixture.folder.path().join("copy.db");
    fs::write(&to, "something else").unwrap();
    let refused = fixture.store.backup(&to, false).await.unwrap_err();
    assert!(refused.code().as_str() == "invalid_input" && refused.to_string().contains("exists"), "{refused}");
    assert_eq!(fs::read(&to).unwrap(), b"something else");
    fixture.store.backup(&to, true).await.unwrap();
    assert!(fs::read(&to).unwrap().starts_with(b"SQLite format 3\0"));
    let itself = fixture.store.backup(&fixture.path(), true).await.unwrap_err();
    assert!(itself.to_string().contains("the database itself"), "{itself}");
    assert_eq!(fixture.store.backup(fixture.folder.path(), true).await.unwrap_err().code().as_str(), "invalid_input");
    let nowhere = fixture.store.backup(&fixture.folder.path().join("no/such/copy.db"), false).await.unwrap_err();
    assert_eq!(nowhere.code().as_str(), "unavailable");
}

/// A copy that is not sound never gets its name.
#[tokio::test]
async fn a_damaged_file_is_not_copied_over_a_good_copy() {
    let fixture = SqliteFixture::fresh().await;
    publish(&fixture.store, vec![task("a")], vec![]).await;
    let to = fixture.folder.path().join("copy.db");
    fixture.store.backup(&to, false).await.unwrap();
    let before = fs::read(&to).unwrap();
    let new = admission(&SeededIds::new(3), runtime_core::TimestampMs::EPOCH);
    insert(&fixture.store, &new).await.unwrap();
    // Attempts without their Run.
    assert_eq!(fixture.raw().execute("DELETE FROM runs", []).unwrap(), 1);
    assert_eq!(fixture.store.backup(&to, true).await.unwrap_err().code().as_str(), "corrupt");
    assert_eq!(fs::read(&to).unwrap(), before);
    assert!(names(&fixture).iter().all(|name| !name.contains(".part")), "{:?}", names(&fixture));
}
