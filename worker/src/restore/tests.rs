use std::io::Write as _;

use age::secrecy::SecretString;
use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_privacy::Event;

use super::{RestoreError, backup, pending_restore, restore};
use crate::config::Config;
use crate::fixture::{gaussian, ledger_at, limit, release_context, stored_release};
use crate::site::books;
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::store::Store;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

/// Makes a site with one receipt and one described dataset.
fn site() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path().join("site"));
    folder.create().expect("the folder is writable");
    SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
    crate::fixture::config().store(&folder).expect("the folder is writable");
    std::fs::write(folder.policy(), crate::site::policy::TEMPLATE).expect("the folder is writable");
    let data = folder.datasets().join("ward-7");
    std::fs::create_dir_all(&data).expect("the folder is writable");
    std::fs::write(data.join("meta.json"), "{}").expect("the folder is writable");
    std::fs::write(data.join("features.bin"), "a person's voice").expect("the folder is writable");
    let ledger = ledger_at(&folder);
    ledger.reserve(&release_context(gaussian(4.0), 3), &limit(8.0)).expect("there is room");
    ledger
        .commit(
            &release_context(gaussian(4.0), 3),
            &gaussian(4.0),
            &stored_release(&release_context(gaussian(4.0), 3), "private", 1),
        )
        .expect("it is reserved");
    (dir, folder)
}

fn secret(text: &str) -> SecretString {
    SecretString::from(text.to_owned())
}

#[test]
fn restored_site_waits_for_the_comparison() {
    for passphrase in [None, Some("a long passphrase")] {
        let (dir, folder) = site();
        let file = dir.path().join("site.backup");
        std::fs::write(folder.piece_journal(), "pieces set aside\n").expect("the folder is writable");
        let contents = backup(&folder, &file, passphrase.map(secret), NOW).expect("the site is whole");
        assert_eq!((contents.receipts, contents.datasets), (1, 1));
        let bytes = std::fs::read(&file).expect("it is there");
        assert!(!bytes.windows(16).any(|piece| piece == b"a person's voice"), "data stay where they are");
        assert_eq!(bytes.windows(20).any(|piece| piece == b"undertone/site-backu"), passphrase.is_none());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
        }
        let new = Folder::new(dir.path().join("new"));
        if passphrase.is_some() {
            assert!(matches!(restore(&new, &file, None, false, NOW), Err(RestoreError::Sealed)));
            assert!(matches!(restore(&new, &file, Some(secret("another")), false, NOW), Err(RestoreError::Passphrase)));
            assert!(!new.key().exists());
        }
        let contents = restore(&new, &file, passphrase.map(secret), false, NOW).expect("it is whole");
        assert_eq!((contents.receipts, contents.replaced), (1, None));
        let read = |path: std::path::PathBuf| std::fs::read(path).expect("it is there");
        assert_eq!(read(new.key()), read(folder.key()));
        assert_eq!(read(new.policy()), read(folder.policy()));
        assert_eq!(read(new.piece_journal()), read(folder.piece_journal()));
        Config::load(&new).expect("it is the same");
        let store = Store::create(&new.ledger()).expect("it is there");
        assert_eq!(store.read(books::receipts).expect("it is open").len(), 1);
        assert!(pending_restore(&store).expect("it is open").is_some(), "nothing leaves until it was compared");
        assert!(
            ledger_at(&new)
                .publish(
                    &release_context(gaussian(4.0), 3),
                    Visibility::Open,
                    &Event::NonPrivate,
                    &stored_release(&release_context(gaussian(4.0), 3), "o", 1)
                )
                .is_err()
        );
        assert!(pending_restore(&Store::create(&folder.ledger()).expect("it is there")).expect("it is open").is_none());
        assert!(matches!(backup(&folder, &file, None, NOW), Err(RestoreError::Exists(_))));
    }
}

#[test]
fn restore_replaces_a_site_only_on_request() {
    let (dir, folder) = site();
    let file = dir.path().join("site.backup");
    backup(&folder, &file, None, NOW).expect("the site is whole");
    let ledger = ledger_at(&folder);
    ledger
        .commit(
            &release_context(gaussian(4.0), 3),
            &gaussian(4.0),
            &stored_release(&release_context(gaussian(4.0), 3), "private", 2),
        )
        .expect("it is reserved");
    drop(ledger);
    assert!(matches!(restore(&folder, &file, None, false, NOW), Err(RestoreError::Occupied(_))));
    let contents = restore(&folder, &file, None, true, NOW).expect("it was requested");
    let aside = Folder::new(contents.replaced.expect("there was a site"));
    let receipts = |folder: &Folder| {
        Store::create(&folder.ledger()).expect("it is there").read(books::receipts).expect("it is open").len()
    };
    assert_eq!((receipts(&folder), receipts(&aside)), (1, 2));
    assert!(folder.datasets().join("ward-7/features.bin").exists(), "data stay where they are");
}

#[test]
fn damaged_backup_is_not_restored() {
    let (dir, folder) = site();
    let file = dir.path().join("site.backup");
    backup(&folder, &file, None, NOW).expect("the site is whole");
    let whole = std::fs::read(&file).expect("it is there");
    let new = Folder::new(dir.path().join("new"));
    let place = whole.windows(8).position(|piece| piece == b"[budget.").expect("the policy is in it");
    let mut changed = whole.clone();
    changed[place + 1] = b'B';
    for bad in [changed, whole[..whole.len() / 2].to_vec(), b"not a backup".to_vec()] {
        std::fs::write(&file, bad).expect("the folder is writable");
        let result = restore(&new, &file, None, false, NOW);
        assert!(matches!(result, Err(RestoreError::Broken { .. })), "{result:?}");
        assert!(!new.key().exists() && !new.ledger().exists());
    }
}

#[test]
fn backup_with_foreign_paths_is_not_restored() {
    let (dir, folder) = site();
    let file = dir.path().join("site.backup");
    for name in ["data/ward-7/meta.json", "lock", "descriptions/../key", "descriptions/a/b.json"] {
        let out = std::fs::File::create(&file).expect("the folder is writable");
        let mut tar = tar::Builder::new(&out);
        let about = r#"{"format":"undertone/site-backup/1","worker_version":"0","at":"","receipts":0,"last":"","datasets":0,"files":{}}"#;
        for (name, content) in [("about.json", about), (name, "x")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            // An attacker ignores the rules of the library.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            tar.append(&header, content.as_bytes()).expect("the folder is writable");
        }
        tar.finish().expect("the folder is writable");
        let _ = (&out).flush();
        let result = restore(&Folder::new(dir.path().join("new")), &file, None, false, NOW);
        assert!(matches!(result, Err(RestoreError::Broken { .. })), "{name}: {result:?}");
    }
    drop(folder);
}
