//! Checks the server's log: asks for the newest head and for the proofs of this site's receipts after every submission,
//! after every sign-in, after every lost connection, and at least every [`EVERY`]. `site::witness` decides the
//! consequences.

use time::{Duration, OffsetDateTime};
use undertone_api::log::witness::{MOST_RECEIPTS, WitnessAnswer};
use undertone_api::signed::Signed;

use super::Site;
use crate::site::outbox;
use crate::site::store::StoreError;
use crate::site::witness::own_key::judge_own_key;
use crate::site::witness::{self, ServerContradiction, WitnessQuestion, WitnessVerdict, alarm, restoration};

/// The longest time between two questions while the server can be reached.
const EVERY: Duration = Duration::minutes(10);

/// The time and session number of the last question.
#[derive(Debug, Default)]
pub(super) struct Watch(Option<(OffsetDateTime, u64)>);

impl Watch {
    /// Returns whether a question is due at `now`, with this number of `sessions`.
    pub(super) fn is_due(&self, now: OffsetDateTime, sessions: u64) -> bool {
        // A clock that was set back makes the difference negative: ask.
        self.0.is_none_or(|(at, of)| of != sessions || !(Duration::ZERO..EVERY).contains(&(now - at)))
    }

    /// Makes a question due at once.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    /// Records a question.
    pub(super) fn asked(&mut self, now: OffsetDateTime, sessions: u64) {
        self.0 = Some((now, sessions));
    }
}

/// Stores the countersignatures that came with the answer to a submission, then asks.
pub(super) async fn after(site: &Site, receipts: &[Signed], countersignatures: &[Signed]) {
    let key = &site.identity.server_key;
    match witness::record_countersignatures(&site.store, key, receipts, countersignatures, (site.clock)()) {
        Ok(None) => {
            ask(site).await;
        }
        Ok(Some(contradiction)) => sound(&contradiction),
        // They are requested again.
        Err(error) => tracing::error!(error = %error, "countersignatures could not be kept"),
    }
}

/// Asks until every receipt that the server has is proved. Returns true when the server has answered, with any answer.
pub(super) async fn ask(site: &Site) -> bool {
    let _one_at_a_time = site.asking.lock().await;
    let mut given = 0;
    loop {
        match once(site).await {
            Ok(Once::More) => {}
            Ok(Once::Owing) => match give_back(site, &mut given).await {
                Ok(true) => {}
                Ok(false) => return true,
                Err(error) => {
                    tracing::error!(error = %error, "receipts could not be given back to the restored server");
                    return false;
                }
            },
            Ok(Once::Done) => return true,
            Ok(Once::Unanswered) => return false,
            Err(error) => {
                tracing::error!(error = %error, "what the server says about its log could not be kept");
                return false;
            }
        }
    }
}

/// The result of one question.
enum Once {
    /// Some receipts were proved; there may be more to ask.
    More,
    /// Nothing remains to ask now.
    Done,
    /// All receipts that the server has are proved, and it waits for those that it lacks.
    Owing,
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
    let Some(answer) = put(site, &question).await else { return Ok(Once::Unanswered) };
    if let Some(news) = restoration::new_restorations(&site.store, &answer)? {
        return accept_restoration(site, &question, &news).await;
    }
    match witness::judge(&site.store, &site.identity.server_key, &question, &answer, (site.clock)())? {
        WitnessVerdict::Holds(receipts) => {
            tracing::debug!(receipts, "receipts are proved to be in the server's log");
            let own = site.key.public_hex();
            if let Some(contradiction) =
                judge_own_key(&site.store, &answer, site.identity.worker, &own, (site.clock)())?
            {
                sound(&contradiction);
                return Ok(Once::Done);
            }
            Ok(match receipts {
                MOST_RECEIPTS.. => Once::More,
                _ if answer.must_reconcile => Once::Owing,
                _ => {
                    if question.restored.is_some() {
                        restoration::note_complete(&site.store, (site.clock)())?;
                    }
                    Once::Done
                }
            })
        }
        WitnessVerdict::Contradicts(contradiction) => {
            sound(&contradiction);
            Ok(Once::Done)
        }
    }
}

/// Sends a question to the server; returns `None` without an answer.
async fn put(site: &Site, question: &WitnessQuestion) -> Option<WitnessAnswer> {
    let numbers = question.numbers();
    match site.gateway.witness(question.known.as_ref(), &numbers, question.restored.as_deref()).await {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::warn!(error = %error, "the server does not show its log; it is asked again");
            None
        }
    }
}

/// Judges the restorations that the server states, against the last head that the restored log must have.
async fn accept_restoration(site: &Site, question: &WitnessQuestion, news: &WitnessAnswer) -> Result<Once, StoreError> {
    let key = &site.identity.server_key;
    let rebased = restoration::rebase(&site.store, key, question, news)?;
    let Some(answer) = put(site, &rebased).await else { return Ok(Once::Unanswered) };
    // The log may have grown since, and the server may have been restored again.
    let Some(mut news) = restoration::new_restorations(&site.store, &answer)? else { return Ok(Once::More) };
    news.consistency = answer.consistency;
    match restoration::judge(&site.store, key, &rebased, &news, (site.clock)())? {
        WitnessVerdict::Holds(_) => {
            for restoration in &news.restorations {
                tracing::warn!(
                    statement = restoration.statement.payload,
                    "the server states that it was restored from an older copy; its log begins as this site saw it, and the receipts that it lacks are given back"
                );
            }
            Ok(Once::More)
        }
        WitnessVerdict::Contradicts(contradiction) => {
            sound(&contradiction);
            Ok(Once::Done)
        }
    }
}

/// Returns the next receipts to the server; `given` is the last returned one so far. Returns whether more may remain.
async fn give_back(site: &Site, given: &mut u64) -> Result<bool, StoreError> {
    let batch = restoration::next_batch(&site.store)?;
    let last = batch.numbers.last().copied().unwrap_or_default();
    if !batch.is_complete() && last <= *given {
        // The server accepted them and does not prove them; it is asked again later.
        return Ok(false);
    }
    let countersignatures = match site.gateway.reconcile(&batch).await {
        Ok(countersignatures) => countersignatures,
        Err(error) => {
            tracing::warn!(error = %error, receipts = batch.numbers.len(), "the restored server does not take its receipts back; they are sent again");
            return Ok(false);
        }
    };
    if batch.is_complete() {
        restoration::note_complete(&site.store, (site.clock)())?;
        tracing::warn!("the restored server has every receipt of this site again");
        return Ok(false);
    }
    *given = last;
    let key = &site.identity.server_key;
    if let Some(contradiction) =
        witness::record_countersignatures(&site.store, key, &batch.receipts, &countersignatures, (site.clock)())?
    {
        sound(&contradiction);
        return Ok(false);
    }
    outbox::acknowledge(&site.store, &batch.numbers)?;
    Ok(true)
}

fn sound(contradiction: &ServerContradiction) {
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
    fn forgotten_question_is_due_at_once() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let mut watch = Watch::default();
        watch.asked(now, 1);
        assert!(!watch.is_due(now, 1));
        watch.forget();
        assert!(watch.is_due(now, 1));
    }

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
