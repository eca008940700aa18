//! One file under several names, and a file that loses its name.

use std::{fs, os::unix::fs::symlink};

use edge_sqlite::{SqliteOptions, SqliteStore};
use runtime_core::{StoreError, ports::runs::TxError};
use store_contract::{Fixture, SeededIds, start};

use crate::{
    fixture::SqliteFixture,
    kit::{admission, insert, publish, start_task, task},
};

#[tokio::test]
async fn a_link_to_the_file_leads_to_the_same_lock() {
    let fixture = SqliteFixture::fresh().await;
    let folder = fixture.folder.path();
    publish(&fixture.store, vec![task("a")], vec![]).await;
    symlink("ql3.db", folder.join("link.db")).unwrap();
    symlink(folder, folder.join("folder")).unwrap();
    for name in ["link.db", "folder/ql3.db", "folder/link.db"] {
        let options = SqliteOptions { path: folder.join(name), ..fixture.options() };
        let second = SqliteStore::open_existing(options, fixture.authority.clone()).await.unwrap();
        assert!(matches!(second.become_scheduler().await, Err(StoreError::AlreadyRunning { .. })), "{name}");
        start_task(&second, "a").await.unwrap();
        assert!(second.file_facts().unwrap().wal_bytes > 0, "{name}: its log is the file's");
        assert_eq!(second.file_facts().unwrap(), fixture.store.file_facts().unwrap(), "{name}");
        second.close().await;
    }
}

/// SQLite names its log after the path: with two names there would be two logs of one file.
#[tokio::test]
async fn a_file_with_two_names_is_not_scheduled() {
    let fixture = SqliteFixture::fresh().await;
    fixture.store.close().await;
    let second_name = fixture.folder.path().join("second.db");
    fs::hard_link(fixture.path(), &second_name).unwrap();
    let store = fixture.another().await;
    let refused = store.become_scheduler().await.unwrap_err();
    assert!(matches!(&refused, StoreError::Unavailable { cause } if cause.contains("2 names")), "{refused}");
    fs::remove_file(second_name).unwrap();
    store.become_scheduler().await.unwrap();
}

/// What would be written to it nobody could ever read again.
#[tokio::test]
async fn nothing_is_written_to_a_file_that_was_removed_or_replaced() {
    let fixture = SqliteFixture::fresh().await;
    let (store, aside) = (&fixture.store, fixture.folder.path().join("aside.db"));
    publish(store, vec![task("a")], vec![]).await;
    for replaced in [false, true] {
        fs::rename(fixture.path(), &aside).unwrap();
        if replaced {
            fs::copy(&aside, fixture.path()).unwrap();
        }
        let refused = start_task(store, "a").await.unwrap_err();
        assert!(matches!(&refused, StoreError::Unavailable { cause } if cause.contains("removed or replaced")), "{refused}");
        let new = admission(&SeededIds::new(3), start());
        assert!(matches!(insert(store, &new).await, Err(TxError::Store(StoreError::Unavailable { .. }))));
        fs::rename(&aside, fixture.path()).unwrap();
        start_task(store, "a").await.expect("it is back");
    }
}
