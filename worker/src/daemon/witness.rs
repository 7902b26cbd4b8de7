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
pub(super) struct LogWatch(Option<(OffsetDateTime, u64)>);

impl LogWatch {
    /// Returns whether a question is due at `now`, with this number of `sessions`.
    pub(super) fn is_due(&self, now: OffsetDateTime, sessions: u64) -> bool {
        // A clock that was set back makes the difference negative: ask.
        self.0.is_none_or(|(at, number)| number != sessions || !(Duration::ZERO..EVERY).contains(&(now - at)))
    }

    /// Makes a question due at once.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    /// Records a question.
    pub(super) fn record(&mut self, now: OffsetDateTime, sessions: u64) {
        self.0 = Some((now, sessions));
    }
}

/// Stores the countersignatures that came with the answer to a submission, then asks.
pub(super) async fn store_countersignatures(site: &Site, receipts: &[Signed], countersignatures: &[Signed]) {
    let key = &site.identity.server_key;
    match witness::record_countersignatures(&site.store, key, receipts, countersignatures, (site.clock)()) {
        Ok(None) => {
            check_log(site).await;
        }
        Ok(Some(contradiction)) => report_alarm(&contradiction),
        // They are requested again.
        Err(error) => tracing::error!(error = %error, "cannot store countersignatures"),
    }
}

/// Asks until every receipt that the server has is proved. Returns true when the server has answered, with any answer.
pub(super) async fn check_log(site: &Site) -> bool {
    let _guard = site.question_lock.lock().await;
    let mut last_returned = 0;
    loop {
        match ask_once(site).await {
            Ok(QuestionResult::More) => {}
            Ok(QuestionResult::LacksReceipts) => match return_receipts(site, &mut last_returned).await {
                Ok(true) => {}
                Ok(false) => return true,
                Err(error) => {
                    tracing::error!(error = %error, "cannot return receipts to the restored server");
                    return false;
                }
            },
            Ok(QuestionResult::Done) => return true,
            Ok(QuestionResult::Unanswered) => return false,
            Err(error) => {
                tracing::error!(error = %error, "cannot store the server's statements about its log");
                return false;
            }
        }
    }
}

/// The result of one question.
enum QuestionResult {
    /// Some receipts were proved; there may be more to ask.
    More,
    /// Nothing remains to ask now.
    Done,
    /// All receipts that the server has are proved, and it waits for those that it lacks.
    LacksReceipts,
    /// The server could not be asked.
    Unanswered,
}

async fn ask_once(site: &Site) -> Result<QuestionResult, StoreError> {
    if let Some(open) = site.store.read(alarm::open)? {
        tracing::error!(
            alarm.id = open.id,
            problem = open.problem,
            "an alarm about the server's log is open, and nothing leaves this site: read `undertone-worker ledger alarm show`, and clear the alarm when you know the cause"
        );
        return Ok(QuestionResult::Done);
    }
    let question = witness::question(&site.store)?;
    let Some(answer) = send_question(site, &question).await else { return Ok(QuestionResult::Unanswered) };
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
                report_alarm(&contradiction);
                return Ok(QuestionResult::Done);
            }
            Ok(match receipts {
                MOST_RECEIPTS.. => QuestionResult::More,
                _ if answer.must_reconcile => QuestionResult::LacksReceipts,
                _ => {
                    if question.restored.is_some() {
                        restoration::note_complete(&site.store, (site.clock)())?;
                    }
                    QuestionResult::Done
                }
            })
        }
        WitnessVerdict::Contradicts(contradiction) => {
            report_alarm(&contradiction);
            Ok(QuestionResult::Done)
        }
    }
}

/// Sends a question to the server; returns `None` without an answer.
async fn send_question(site: &Site, question: &WitnessQuestion) -> Option<WitnessAnswer> {
    let numbers = question.numbers();
    match site.gateway.witness(question.known.as_ref(), &numbers, question.restored.as_deref()).await {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::warn!(error = %error, "the server does not show its log; the worker asks again");
            None
        }
    }
}

/// Judges the restorations that the server states, against the last head that the restored log must have.
async fn accept_restoration(
    site: &Site,
    question: &WitnessQuestion,
    news: &WitnessAnswer,
) -> Result<QuestionResult, StoreError> {
    let key = &site.identity.server_key;
    let rebased = restoration::rebase(&site.store, key, question, news)?;
    let Some(answer) = send_question(site, &rebased).await else { return Ok(QuestionResult::Unanswered) };
    // The log may have grown since, and the server may have been restored again.
    let Some(mut news) = restoration::new_restorations(&site.store, &answer)? else { return Ok(QuestionResult::More) };
    news.consistency = answer.consistency;
    match restoration::judge(&site.store, key, &rebased, &news, (site.clock)())? {
        WitnessVerdict::Holds(_) => {
            for restoration in &news.restorations {
                tracing::warn!(
                    statement = restoration.statement.payload,
                    "the server states that it was restored from an older copy; its log begins as this site saw it, and the worker returns the receipts that it lacks"
                );
            }
            Ok(QuestionResult::More)
        }
        WitnessVerdict::Contradicts(contradiction) => {
            report_alarm(&contradiction);
            Ok(QuestionResult::Done)
        }
    }
}

/// Returns the next receipts to the server; `last_returned` is the number of the last one so far. Returns whether more may
/// remain.
async fn return_receipts(site: &Site, last_returned: &mut u64) -> Result<bool, StoreError> {
    let batch = restoration::next_batch(&site.store)?;
    let last = batch.numbers.last().copied().unwrap_or_default();
    if !batch.is_complete() && last <= *last_returned {
        // The server accepted them and does not prove them; it is asked again later.
        return Ok(false);
    }
    let countersignatures = match site.gateway.reconcile(&batch).await {
        Ok(countersignatures) => countersignatures,
        Err(error) => {
            tracing::warn!(error = %error, receipts = batch.numbers.len(), "the restored server rejects its receipts; the worker sends them again");
            return Ok(false);
        }
    };
    if batch.is_complete() {
        restoration::note_complete(&site.store, (site.clock)())?;
        tracing::warn!("the restored server has every receipt of this site again");
        return Ok(false);
    }
    *last_returned = last;
    let key = &site.identity.server_key;
    if let Some(contradiction) =
        witness::record_countersignatures(&site.store, key, &batch.receipts, &countersignatures, (site.clock)())?
    {
        report_alarm(&contradiction);
        return Ok(false);
    }
    outbox::acknowledge(&site.store, &batch.numbers)?;
    Ok(true)
}

fn report_alarm(contradiction: &ServerContradiction) {
    tracing::error!(
        problem = %contradiction,
        "ALARM: the server's log contradicts documents that the server has signed for this site. Nothing leaves this site from now on. `undertone-worker ledger alarm show` prints the documents, `ledger export` writes them to a file for an auditor. Ask the server's operator for the cause; then run `undertone-worker ledger alarm clear --reason ...`"
    );
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};

    use super::{EVERY, LogWatch};

    #[test]
    fn forgotten_question_is_due_at_once() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let mut watch = LogWatch::default();
        watch.record(now, 1);
        assert!(!watch.is_due(now, 1));
        watch.forget();
        assert!(watch.is_due(now, 1));
    }

    #[test]
    fn log_is_checked_at_sign_in_and_every_ten_minutes() {
        assert_eq!(EVERY, Duration::minutes(10));
        let now = OffsetDateTime::UNIX_EPOCH;
        let mut watch = LogWatch::default();
        assert!(watch.is_due(now, 0), "it never was");
        watch.record(now, 1);
        assert!(!watch.is_due(now, 1) && !watch.is_due(now + EVERY - Duration::SECOND, 1));
        assert!(watch.is_due(now + EVERY, 1), "the time has come");
        assert!(watch.is_due(now, 2), "a new session");
        assert!(watch.is_due(now - Duration::SECOND, 1), "the clock was set back");
    }
}
