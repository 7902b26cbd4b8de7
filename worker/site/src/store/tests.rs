use rusqlite::OpenFlags;

use super::{PATIENCE, SCHEMA, STEPS, Store, StoreError};

#[test]
fn missing_or_empty_ledger_is_refused_and_not_made() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("site").join("ledger.db");
    assert!(matches!(Store::open(&path), Err(StoreError::Missing(_))));
    assert!(!dir.path().join("site").exists(), "looking makes nothing");
    std::fs::create_dir(dir.path().join("site")).expect("the folder is writable");
    std::fs::write(&path, []).expect("the folder is writable");
    assert!(matches!(Store::open(&path), Err(StoreError::Empty(_))));
    assert!(matches!(Store::is_older(&path), Err(StoreError::Empty(_))));
    assert_eq!(std::fs::metadata(&path).expect("it is there").len(), 0);
    std::fs::remove_file(&path).expect("it is there");
    drop(Store::create(&path).expect("the folder is writable"));
    assert!(Store::open(&path).is_ok());
}

#[test]
fn ledger_that_vanishes_after_the_check_is_not_made() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("ledger.db");
    super::connect(&path, OpenFlags::empty()).expect_err("the file is missing");
    assert!(!path.exists());
}

#[test]
fn ledger_begins_before_the_site_is_enrolled_and_never_after() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let site = crate::folder::Folder::new(dir.path());
    drop(Store::open_or_begin(&site).expect("the folder is writable"));
    std::fs::write(site.config(), "").expect("the folder is writable");
    assert!(Store::open_or_begin(&site).is_ok());
    std::fs::remove_file(site.ledger()).expect("it is there");
    assert!(matches!(Store::open_or_begin(&site), Err(StoreError::Missing(_))));
    assert!(!site.ledger().exists());
}

#[test]
fn every_commit_is_synced() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
    let pragma = |name| {
        store.read(|db| {
            db.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
                .map_err(StoreError::sqlite("read"))
        })
    };
    assert_eq!(pragma("journal_mode").expect("it is open"), "wal".to_owned().into());
    // 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
    assert_eq!(pragma("synchronous").expect("it is open"), 2_i64.into());
}

#[test]
fn write_waits_for_another_process_up_to_the_limit() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("ledger.db");
    let store = Store::create(&path).expect("the folder is writable");
    let waits = store.read(|db| {
        db.pragma_query_value(None, "busy_timeout", |row| row.get::<_, i64>(0)).map_err(StoreError::sqlite("read"))
    });
    assert_eq!(waits.expect("it is open"), PATIENCE.as_millis() as i64);
    // A waiting write returns an error and changes nothing. The timeout is zero here, so that the test does not wait.
    let other = rusqlite::Connection::open(&path).expect("it is there");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    store
        .read(|db| db.busy_timeout(std::time::Duration::ZERO).map_err(StoreError::sqlite("set its timeout")))
        .expect("it is open");
    let insert = || {
        store.write(|tx| {
            tx.execute("INSERT INTO lineage (name, lineage) VALUES ('a', 'b')", []).map_err(StoreError::sqlite("write"))
        })
    };
    assert!(matches!(insert(), Err(StoreError::Sqlite { .. })));
    other.execute_batch("ROLLBACK").expect("it holds the lock");
    assert_eq!(insert().expect("nobody else writes"), 1);
}

#[test]
fn tables_of_record_refuse_update_and_delete() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
    let run = |sql: &str| store.write(|tx| tx.execute_batch(sql).map_err(StoreError::sqlite("run")));
    for (table, row, change) in [
        ("entry", "(sequence, payload, hash) VALUES (1, '{}', 'h')", "payload = 'x'"),
        ("receipt", "(sequence, payload, signature, digest) VALUES (1, '{}', 's', 'd')", "payload = 'x'"),
        ("published", "(sequence, payload, hash) VALUES (1, '{}', 'h')", "payload = 'x'"),
        ("acknowledged", "(receipt) VALUES (1)", "receipt = 2"),
        ("lineage", "(name, lineage) VALUES ('a', 'b')", "lineage = 'c'"),
        ("statement", "(job, dataset, payload, signature) VALUES ('a', 'b', '{}', 's')", "payload = 'x'"),
        ("freeze", "(id, lineage, frozen, job, reason, by, at) VALUES (1, 'a', 1, 'b', 'c', 'd', 'e')", "frozen = 0"),
        (
            "manifest",
            "(job, dataset, digest, payload, signature, seen_at) VALUES ('a', 'b', 'c', 'd', 'e', 'f')",
            "digest = 'x'",
        ),
        (
            "decision",
            "(job, dataset, manifest, approve, by, reason, at) VALUES ('a', 'b', 'c', 0, 'e', '', 'f')",
            "approve = 1",
        ),
        ("alarm", "(problem, evidence, at) VALUES ('a', '{}', 'c')", "problem = 'x'"),
        ("cleared", "(alarm, reason, receipts, at) VALUES (1, 'b', 0, 'd')", "reason = 'x'"),
        (
            "head",
            "(epoch, size, payload, signature, consistency, seen_at) VALUES (0, 1, '{}', 's', '', 'f')",
            "payload = 'x'",
        ),
        (
            "countersignature",
            "(epoch, receipt, payload, signature, seen_at) VALUES (0, 1, '{}', 's', 'f')",
            "payload = 'x'",
        ),
        ("proof", "(epoch, receipt, head, position, leaf, inclusion) VALUES (0, 1, 1, 0, '{}', '')", "leaf = 'x'"),
        ("lacking", "(epoch, receipt) VALUES (1, 1)", "receipt = 2"),
        ("key_change", "(number, payload, by_old, by_new) VALUES (1, '{}', 'a', 'b')", "payload = 'x'"),
        ("approval_key", "(fingerprint, pinned, key, label, at) VALUES ('a', 1, '{}', 'b', 'c')", "pinned = 0"),
        ("peer_pin", "(fingerprint, pinned, label, at) VALUES ('a', 1, 'b', 'c')", "pinned = 0"),
        ("credential_notice", "(id, text, at, seen_at) VALUES ('a', 'b', 'c', 'd')", "text = 'x'"),
        (
            "steward_approval",
            "(job, dataset, manifest, fingerprint, approval, at) VALUES ('a', 'b', 'c', 'd', '{}', 'f')",
            "approval = 'x'",
        ),
        ("restored", "(backup_at, receipts, at) VALUES ('a', 1, 'b')", "receipts = 2"),
        ("reconciled", "(restored, receipts, imported, at) VALUES (1, 1, 0, 'b')", "imported = 2"),
        (
            "server_restoration",
            "(epoch, digest, payload, signature, size, kept, receipts, at) VALUES (1, 'a', '{}', 's', 1, 0, 0, 'b')",
            "kept = 2",
        ),
        ("server_reconciled", "(restoration, at) VALUES (1, 'a')", "at = 'x'"),
        (
            "own_position",
            "(receipts, digest, peer, payload, signature, at) VALUES (1, 'a', 'b', '{}', 's', 'c')",
            "receipts = 2",
        ),
        ("position_overruled", "(position, reason, at) VALUES (1, 'a', 'b')", "position = 2"),
        ("withheld", "(job, dataset, at) VALUES ('a', 'b', 'c')", "at = 'x'"),
        ("lineage_join", "(name, lineage, continues, at) VALUES ('a', 'b', 'c', 'd')", "lineage = 'x'"),
        ("lineage_elsewhere", "(lineage, name, worker, at) VALUES ('a', 'b', 'c', 'd')", "worker = 'x'"),
        ("organization_key", "(id, secret, at) VALUES ('a', x'00', 'c')", "secret = x'01'"),
    ] {
        run(&format!("INSERT INTO {table} {row}")).expect(table);
        assert!(run(&format!("UPDATE {table} SET {change}")).is_err(), "{table}");
        assert!(run(&format!("DELETE FROM {table}")).is_err(), "{table}");
        // Rows numbered by the database do not collide.
        let numbered = matches!(
            table,
            "decision" | "alarm" | "restored" | "reconciled" | "approval_key" | "peer_pin" | "position_overruled"
        );
        // REPLACE deletes before it inserts; recursive triggers make the delete trigger fire too.
        assert!(run(&format!("INSERT OR REPLACE INTO {table} {row}")).is_err() || numbered, "{table}");
    }
}

#[test]
fn database_of_an_older_worker_takes_the_steps_it_lacks() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("ledger.db");
    let old = rusqlite::Connection::open(&path).expect("the folder is writable");
    old.execute_batch(super::STEPS[0]).expect("the first tables");
    old.execute_batch("INSERT INTO lineage (name, lineage) VALUES ('a', 'b')").expect("a row");
    old.pragma_update(None, "user_version", 1).expect("its version");
    drop(old);
    let store = Store::create(&path).expect("it is brought up to date");
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        store.read(|db| db.query_row(&sql, [], |row| row.get::<_, i64>(0)).map_err(StoreError::sqlite("read")))
    };
    assert_eq!(count("lineage").expect("kept"), 1);
    assert_eq!(count("freeze").expect("made"), 0);
    assert!(Store::create(&path).is_ok(), "a second time there is nothing to do");
}

#[test]
fn database_of_any_earlier_version_is_upgraded_with_its_rows() {
    for version in 0..STEPS.len() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("ledger.db");
        let old = rusqlite::Connection::open(&path).expect("the folder is writable");
        for step in &STEPS[..version] {
            old.execute_batch(step).expect("it was good when it landed");
        }
        old.pragma_update(None, "user_version", version as i64).expect("it is ours");
        if version > 0 {
            old.execute("INSERT INTO acknowledged (receipt) VALUES (7)", []).expect("it has its tables");
        }
        drop(old);
        for _ in 0..2 {
            let store = Store::create(&path).expect("it can be brought up");
            let read = |sql: &str| {
                store.read(|db| db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(StoreError::sqlite("read")))
            };
            assert_eq!(read("SELECT COUNT(*) FROM acknowledged").expect("it is there"), i64::from(version > 0));
            assert_eq!(read("SELECT COUNT(*) FROM proof").expect("it is there"), 0);
            assert_eq!(read("PRAGMA user_version").expect("it is there"), SCHEMA);
        }
    }
}

#[test]
fn receipt_of_an_older_worker_without_a_vector_is_lost() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("ledger.db");
    let old = rusqlite::Connection::open(&path).expect("the folder is writable");
    STEPS[..5].iter().for_each(|step| old.execute_batch(step).expect("it was good when it landed"));
    old.pragma_update(None, "user_version", 5).expect("it is ours");
    for (sequence, round) in [(1, 1), (2, 2), (3, 2)] {
        let payload = format!(r#"{{"job":"a","dataset":"b","series":"private","round":{round}}}"#);
        let row = (sequence, payload, format!("digest {sequence}"));
        old.execute("INSERT INTO receipt (sequence, payload, signature, digest) VALUES (?1, ?2, '', ?3)", row)
            .expect("it is a receipt");
    }
    let insert = "INSERT INTO vector (job, dataset, series, round, digest, length, receipt) VALUES ('a', 'b', 'private', 1, 'd', 3, 1)";
    old.execute(insert, []).expect("it has its tables");
    drop(old);
    let store = Store::create(&path).expect("it is brought up to date");
    let rows: Vec<(i64, i64, i64)> = store
        .read(|db| {
            db.prepare("SELECT round, receipt, lost FROM vector ORDER BY round")
                .and_then(|mut rows| rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect())
                .map_err(StoreError::sqlite("read"))
        })
        .expect("it is open");
    assert_eq!(rows, [(1, 1, 0), (2, 3, 1)]);
}

#[test]
fn database_of_a_newer_worker_is_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("ledger.db");
    let store = Store::create(&path).expect("the folder is writable");
    store
        .write(|tx| tx.pragma_update(None, "user_version", SCHEMA + 1).map_err(StoreError::sqlite("raise")))
        .expect("it is ours");
    assert!(matches!(Store::create(&path), Err(StoreError::Newer { .. })));
}
