//! Holding the server to its log: asks for the newest head and for the proofs of this site's receipts after everything that
//! was submitted, whenever it signs in, and at least every [`EVERY`]. What the answers mean is decided in `site::witness`.

use time::{Duration, OffsetDateTime};
use undertone_api::log::witness::MOST_RECEIPTS;
use undertone_api::signed::Signed;

use super::Site;
use crate::site::store::StoreError;
use crate::site::witness::{self, Contradiction, Judged, alarm};

/// Longest time between two questions while the server can be reached.
const EVERY: Duration = Duration::minutes(10);

/// When the server was last asked.
#[derive(Debug, Default)]
pub(super) struct Watch(Option<(OffsetDateTime, u64)>);

impl Watch {
    /// Whether it is to be asked at `now`, when there have been so many `sessions`.
    pub(super) fn is_due(&self, now: OffsetDateTime, sessions: u64) -> bool {
        // A clock that was set back makes the time between them negative: ask.
        self.0.is_none_or(|(at, of)| of != sessions || !(Duration::ZERO..EVERY).contains(&(now - at)))
    }

    /// Notes that it was.
    pub(super) fn asked(&mut self, now: OffsetDateTime, sessions: u64) {
        self.0 = Some((now, sessions));
    }
}

/// Keeps the countersignatures that came with the answer to a submission, then asks.
pub(super) async fn after(site: &Site, receipts: &[Signed], countersignatures: &[Signed]) {
    let key = &site.identity.server_key;
    match witness::submitted(&site.store, key, receipts, countersignatures, (site.clock)()) {
        Ok(None) => {
            ask(site).await;
        }
        Ok(Some(contradiction)) => sound(&contradiction),
        // They are asked for again.
        Err(error) => tracing::error!(error = %error, "countersignatures could not be kept"),
    }
}

/// Asks until every receipt that the server has is proved. True when the server has answered, whatever it said.
pub(super) async fn ask(site: &Site) -> bool {
    let _one_at_a_time = site.asking.lock().await;
    loop {
        match once(site).await {
            Ok(Once::More) => {}
            Ok(Once::Done) => return true,
            Ok(Once::Unanswered) => return false,
            Err(error) => {
                tracing::error!(error = %error, "what the server says about its log could not be kept");
                return false;
            }
        }
    }
}

/// How one question went.
enum Once {
    /// Some receipts were proved; there may be more to ask.
    More,
    /// There is nothing more to ask now.
    Done,
    /// The server could not be asked.
    Unanswered,
}

async fn once(site: &Site) -> Result<Once, StoreError> {
    if let Some(open) = site.store.read(alarm::open)? {
        tracing::error!(
            alarm.id = open.id,
            problem = open.problem,
            "an alarm about the server's log is open, and nothing leaves this site: read `undertone-worker ledger alarm show`, and clear it when you know what happened"
        );
        return Ok(Once::Done);
    }
    let question = witness::question(&site.store)?;
    let answer = match site.gateway.witness(question.known.as_ref(), &question.numbers()).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(error = %error, "the server does not show its log; it is asked again");
            return Ok(Once::Unanswered);
        }
    };
    match witness::judge(&site.store, &site.identity.server_key, &question, &answer, (site.clock)())? {
        Judged::Holds(receipts) => {
            tracing::debug!(receipts, "receipts are proved to be in the server's log");
            Ok(if receipts < MOST_RECEIPTS { Once::Done } else { Once::More })
        }
        Judged::Contradicts(contradiction) => {
            sound(&contradiction);
            Ok(Once::Done)
        }
    }
}

fn sound(contradiction: &Contradiction) {
    tracing::error!(
        problem = %contradiction,
        "ALARM: the server's log contradicts what this site holds in the server's own hand. Nothing leaves this site from now on. The documents are kept: `undertone-worker ledger alarm show` prints them, `ledger export` writes them to a file for an auditor. Ask the server's operator what happened; then `undertone-worker ledger alarm clear --reason ...`"
    );
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};

    use super::{EVERY, Watch};

    #[test]
    fn the_server_is_asked_at_sign_in_and_every_ten_minutes() {
        assert_eq!(EVERY, Duration::minutes(10));
        let now = OffsetDateTime::UNIX_EPOCH;
        let mut watch = Watch::default();
        assert!(watch.is_due(now, 0), "it never was");
        watch.asked(now, 1);
        assert!(!watch.is_due(now, 1) && !watch.is_due(now + EVERY - Duration::SECOND, 1));
        assert!(watch.is_due(now + EVERY, 1), "the time has come");
        assert!(watch.is_due(now, 2), "a new session");
        assert!(watch.is_due(now - Duration::SECOND, 1), "the clock was set back");
    }
}
