//! Checks that the peers' heads of the server's log agree with this site's.

use time::OffsetDateTime;

use super::super::format_error;
use super::CheckResults;
use crate::site::store::{Store, StoreError};
use crate::site::witness::peers::{OLD_AFTER, list_peers};
use crate::site::witness::positions::{contradiction, sighting_ages};

/// Reports peers with another key, peers with an old newest head, and the number of agreeing peers.
pub(super) fn check_peers(store: &Store, now: OffsetDateTime, results: &mut CheckResults) {
    let peers = match store.read(list_peers) {
        Ok(peers) => peers,
        Err(error) => return results.fail("peers", format_error(&error), "check the disk"),
    };
    for peer in &peers {
        let name = format!("`{}` of {}", peer.worker_name, peer.organization_name);
        if peer.has_conflict {
            results.warn(
                "peers",
                format!("the server relays another key for {name} than this site knows"),
                "ask the peer's operator for the fingerprint by telephone, then `undertone-worker ledger peers confirm`",
            );
        } else if peer.is_old(now) {
            results.warn(
                "peers",
                format!("the newest head of {name} is of {}", peer.observed_at.date()),
                "ask the peer's operator whether the worker is running; if it is, the server withholds its heads",
            );
        }
    }
    let agreeing = peers.iter().filter(|peer| !peer.has_conflict && !peer.is_old(now)).count();
    let confirmed = peers.iter().filter(|peer| peer.is_confirmed).count();
    results.ok(
        "peers",
        format!("{agreeing} of {} peers agree about the server's log; {confirmed} confirmed", peers.len()),
    );
    check_positions(store, now, results);
}

/// Reports the receipts of this site's ledger that the peers have seen.
fn check_positions(store: &Store, now: OffsetDateTime, results: &mut CheckResults) {
    let positions = store.read(|db| Ok::<_, StoreError>((contradiction(db)?, sighting_ages(db, now)?)));
    match positions {
        Err(error) => results.fail("positions", format_error(&error), "check the disk"),
        Ok((Some(problem), _)) => results.fail(
            "positions",
            problem.to_string(),
            "restore the newest copy of the site's folder; nothing leaves until the ledger has these receipts",
        ),
        Ok((None, (all, old))) if all > 0 && all == old => results.warn(
            "positions",
            format!("no peer has signed a position of this site's ledger for {} days", OLD_AFTER.whole_days()),
            "ask the peers' operators whether their workers are running; if they are, the server withholds these positions",
        ),
        Ok((None, (all, old))) => {
            results.ok("positions", format!("{} peers know no receipt that the ledger lacks", all - old));
        }
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};

    use super::check_peers;
    use crate::cli::doctor::CheckResults;
    use crate::site::store::Store;
    use crate::site::witness::peers::insert_in_test;

    fn findings(conflict: Option<&str>, age: Duration) -> String {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        let now = OffsetDateTime::UNIX_EPOCH + Duration::days(100);
        insert_in_test(&store, "ward", now - age, conflict).expect("a row");
        let mut results = CheckResults::default();
        check_peers(&store, now, &mut results);
        format!("{results:?}")
    }

    #[test]
    fn old_and_conflicting_peers_are_reported() {
        let fine = findings(None, Duration::days(1));
        assert!(fine.contains("1 of 1 peers agree") && !fine.contains("Warn"), "{fine}");
        let old = findings(None, Duration::days(8));
        assert!(
            old.contains("0 of 1 peers agree") && old.contains("the newest head of `ward` of South is of"),
            "{old}"
        );
        let conflict = findings(Some("ab"), Duration::days(1));
        assert!(conflict.contains("relays another key for `ward` of South"), "{conflict}");
    }
}
