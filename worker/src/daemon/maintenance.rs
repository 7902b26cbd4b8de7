//! Maintenance of the running site: detects an older copy of the ledger, a changed server certificate and a due key
//! change. `site` decides the consequences.

use time::{Duration, OffsetDateTime};
use tokio_util::sync::CancellationToken;
use undertone_api::signed::{Receipt, Signed};

use super::{DaemonError, Site};
use crate::config::Config;
use crate::gateway::{self, GatewayError, retry_call};
use crate::site::clock;
use crate::site::consent::{self, MOST_NOTICES, NoticeOutcome};
use crate::site::folder::Folder;
use crate::site::ledger::{LedgerError, length};
use crate::site::policy::LifetimeLimit;
use crate::site::restore;
use crate::site::rotation;
use crate::site::store::Store;
use crate::site::witness::alarm;

/// Most receipts of this site that a server may show beyond those of the ledger.
pub(crate) const MOST_SHOWN: usize = 500_000;
/// Most bytes of these receipts together; a receipt takes less than a kilobyte.
pub(crate) const MOST_SHOWN_BYTES: usize = 512 << 20;

/// Most receipts in the evidence of an alarm.
pub(crate) const MOST_EVIDENCE: usize = 500;

/// Most changes of credentials that are taken from one answer; the next ones are asked for a minute later.
const NOTICES_AT_ONCE: usize = 100;

/// Compares the ledger with the server's receipts, and imports missing ones as spent. Contradicting receipts raise an
/// alarm.
///
/// Each page is checked when it arrives: this site has signed every receipt of it, and each continues the one before
/// it. So a server makes the worker hold no more than the receipts that this site has signed, each once.
///
/// # Errors
/// [`DaemonError`] when the server cannot be asked, or sends receipts that do not continue each other, or the disk
/// fails: nothing has changed then, and no offer should be requested.
pub(super) async fn compare_ledgers(site: &Site) -> Result<(), DaemonError> {
    // The page includes the last receipt of this ledger: another receipt under its number is a fork.
    let mut missing = ShownReceipts::after(length(&site.store)?.saturating_sub(1));
    loop {
        let page = site.gateway.receipts(missing.last).await?;
        if page.is_empty() {
            break;
        }
        match check_page(site, &missing, &page)? {
            PageVerdict::Foreign => {
                // Foreign receipts are not collected; `import_receipts` raises the alarm.
                return import_receipts(site, &page);
            }
            PageVerdict::Gap(number) => {
                // The page is judged by itself: it may contradict the ledger.
                import_receipts(site, &page)?;
                return Err(GatewayError::Protocol(format!(
                    "the server sent receipt {number} of this site where another one continues the ledger"
                ))
                .into());
            }
            PageVerdict::Continues { last, digest } => {
                missing.add(page)?;
                (missing.last, missing.digest) = (last, Some(digest));
            }
        }
    }
    import_receipts(site, &missing.receipts)
}

/// The result of checking a page of receipts.
enum PageVerdict {
    /// This site has not signed one of them.
    Foreign,
    /// The receipt with this number does not continue the one before it.
    Gap(u64),
    /// They continue the receipts before them; the last has this number and digest.
    Continues { last: u64, digest: String },
}

fn check_page(site: &Site, before: &ShownReceipts, page: &[Signed]) -> Result<PageVerdict, DaemonError> {
    let keys = site.store.read(|db| rotation::keys(db, &site.key.public()))?;
    let (mut last, mut digest) = (before.last, before.digest.clone());
    for signed in page {
        let claimed = serde_json::from_str::<Receipt>(&signed.payload);
        let opened =
            claimed.ok().and_then(|claimed| signed.open::<Receipt>(keys.key_of_receipt(claimed.sequence)).ok());
        let Some(receipt) = opened else { return Ok(PageVerdict::Foreign) };
        if receipt.sequence != last + 1 || digest.is_some_and(|digest| receipt.previous != digest) {
            return Ok(PageVerdict::Gap(receipt.sequence));
        }
        (last, digest) = (receipt.sequence, Some(signed.digest()));
    }
    Ok(PageVerdict::Continues { last, digest: digest.unwrap_or_default() })
}

/// The receipts that the server has shown, within limits.
struct ShownReceipts {
    receipts: Vec<Signed>,
    bytes: usize,
    /// Number of the last receipt so far.
    last: u64,
    /// Digest of the last one that was shown; `None` before the first.
    digest: Option<String>,
    most: usize,
    most_bytes: usize,
}

impl ShownReceipts {
    /// Returns an empty collection of the receipts with numbers greater than `last`.
    const fn after(last: u64) -> Self {
        Self { receipts: Vec::new(), bytes: 0, last, digest: None, most: MOST_SHOWN, most_bytes: MOST_SHOWN_BYTES }
    }

    /// Adds a page, or refuses all of it where it exceeds a limit.
    fn add(&mut self, page: Vec<Signed>) -> Result<(), GatewayError> {
        let receipts = self.receipts.len() + page.len();
        let page_bytes: usize = page.iter().map(|signed| signed.payload.len() + signed.signature.len()).sum();
        let bytes = self.bytes.saturating_add(page_bytes);
        if receipts > self.most || bytes > self.most_bytes {
            return Err(GatewayError::Protocol(format!(
                "the server shows {receipts} receipts of {bytes} bytes that this site's ledger lacks, and the site imports at most {} \
                 of {} bytes: restore the newest copy of the ledger, or ask the server's operator who signed them",
                self.most, self.most_bytes
            )));
        }
        self.bytes = bytes;
        self.receipts.extend(page);
        Ok(())
    }
}

/// Imports the server's receipts that the ledger lacks as spent; they continue from some number without gaps.
/// Receipts that contradict the ledger raise an alarm.
///
/// # Errors
/// [`DaemonError`] when the disk fails: nothing has changed then, and no offer should be requested.
pub fn import_receipts(site: &Site, receipts: &[Signed]) -> Result<(), DaemonError> {
    match site.ledger.import(receipts, default_budget(site)?) {
        Ok(summary) if summary.missing > 0 => {
            tracing::error!(
                receipts = summary.before,
                receipts.missing = summary.missing,
                jobs = ?summary.jobs,
                "this site's ledger was an OLDER COPY: the server has receipts that the ledger lacked, and the worker imported them as spent. The site never sends their releases again, ends their jobs if the ledger did not know them, and never returns the reservations of its other open jobs. Find out how the older copy came here"
            );
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(LedgerError::Import(error)) => {
            if site.store.read(alarm::open)?.is_none() {
                let evidence = serde_json::json!({ "shown": select_evidence(receipts, error.number()) }).to_string();
                alarm::raise(&site.store, &error.to_string(), &evidence, (site.clock)())?;
            }
            tracing::error!(
                error = %error,
                "ALARM: the server has other receipts than this ledger. Nothing leaves this site. Read `undertone-worker ledger alarm show`; restore the newest copy of the ledger, or ask the server's operator who signed them"
            );
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the shown receipts that show a contradiction: those up to the receipt with this number and the next one, or
/// the first ones if it is unknown, [`MOST_EVIDENCE`] at most.
fn select_evidence(receipts: &[Signed], number: Option<u64>) -> &[Signed] {
    let has_number = |signed: &Signed, number| {
        serde_json::from_str::<Receipt>(&signed.payload).is_ok_and(|receipt| receipt.sequence == number)
    };
    let place = number.and_then(|number| receipts.iter().position(|signed| has_number(signed, number)));
    let end = place.map_or(MOST_EVIDENCE, |place| place + 2).min(receipts.len());
    &receipts[end.saturating_sub(MOST_EVIDENCE)..end]
}

/// Returns the initial budget of an account with unknown limits and known expenses: any budget of the policy.
fn default_budget(site: &Site) -> Result<Option<LifetimeLimit>, DaemonError> {
    let limits = site.policy()?.rules("").limits;
    Ok(limits.record.or(limits.speaker).or(limits.user).or(limits.words))
}

/// Asks the server for its valid certificates.
pub(super) async fn refresh_certificates(site: &Site) {
    if let Err(error) = site.gateway.pins().await {
        tracing::warn!(error = %error, "the server does not announce its certificates; the worker asks again");
    }
}

/// Returns whether the site's key has reached the configured age.
///
/// # Errors
/// [`DaemonError`] when that cannot be read.
pub(super) fn is_key_due(
    folder: &Folder,
    store: &Store,
    config: &Config,
    now: OffsetDateTime,
) -> Result<bool, DaemonError> {
    if config.rotate_key_days == 0 || restore::pending_restore(store)?.is_some() {
        return Ok(false);
    }
    let due = rotation::since(folder, store)? + Duration::days(i64::from(config.rotate_key_days));
    Ok(due <= now && rotation::busy(store)? == 0)
}

/// Changes to the site's next key, if a change was begun or is due. The site's lock must be free. Returns true when
/// nothing remains to do; false when the server refused, and the key stays.
///
/// # Errors
/// [`DaemonError`] when files cannot be read or written.
pub(super) async fn change_key(
    folder: &Folder,
    config: &Config,
    may_begin: bool,
    stop: &CancellationToken,
) -> Result<bool, DaemonError> {
    let lock = folder.lock()?;
    let now = clock::system()();
    let store = Store::open(&folder.ledger())?;
    if !(rotation::is_pending(folder) || may_begin && is_key_due(folder, &store, config, now)?) {
        return Ok(true);
    }
    let change = rotation::prepare(folder, &store, config.worker, now)?;
    let answer = retry_call("rotate key", stop, || gateway::rotate_key(config, folder, &change)).await;
    let is_done = match answer {
        // Interrupted: the change continues at the next start.
        None => true,
        Some(Ok(())) => {
            let change = rotation::finish(folder, &store, &change)?;
            tracing::info!(key.number = change.number, key.public = change.new, "the site's next key is in force");
            true
        }
        Some(Err(error)) => {
            rotation::discard(folder)?;
            tracing::error!(error = %error, "the server rejects the site's next key; the present key stays in force");
            false
        }
    };
    drop(lock);
    Ok(is_done)
}

/// Fetches changes of stewards' credentials, and logs and stores them. A server that conceals one can be detected by
/// the member and the organization's admins, who are also notified.
pub(super) async fn fetch_credential_notices(site: &Site) {
    let after = match consent::last_notice(&site.store) {
        Ok(after) => after,
        Err(error) => return tracing::error!(error = %error, "cannot read the notices"),
    };
    let notices = match site.gateway.credential_notices(&after).await {
        Ok(notices) => notices,
        Err(error) => return tracing::debug!(error = %error, "cannot fetch notices of credentials"),
    };
    for notice in notices.into_iter().take(NOTICES_AT_ONCE) {
        match consent::keep_notice(&site.store, &notice, (site.clock)()) {
            Ok(NoticeOutcome::Kept) => {
                tracing::warn!(notice = %notice.text.escape_debug(), "a steward's credentials were reset or changed");
            }
            Ok(NoticeOutcome::Known) => {}
            Ok(NoticeOutcome::Full) => {
                return tracing::error!(
                    notices = MOST_NOTICES,
                    "the server announces too many changes of stewards' credentials; the site stores no more of them: ask its operator"
                );
            }
            Err(error) => return tracing::error!(error = %error, "cannot store a notice"),
        }
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::signed::Signed;

    use super::ShownReceipts;

    fn receipt() -> Signed {
        Signed { payload: "{}".to_owned(), signature: "123".to_owned() }
    }

    fn receipts_up_to(most: usize, most_bytes: usize) -> ShownReceipts {
        ShownReceipts { most, most_bytes, ..ShownReceipts::after(0) }
    }

    #[test]
    fn receipts_beyond_the_limit_are_refused() {
        let mut receipts = receipts_up_to(3, 1_000);
        receipts.add(vec![receipt(); 2]).expect("two of three");
        receipts.add(vec![receipt()]).expect("the third");
        let error = receipts.add(vec![receipt()]).expect_err("one more").to_string();
        assert!(error.contains("4 receipts of 20 bytes") && error.contains("at most 3 of"), "{error}");
        assert_eq!(receipts.receipts.len(), 3);
    }

    #[test]
    fn bytes_beyond_the_limit_are_refused() {
        let mut receipts = receipts_up_to(1_000, 14);
        receipts.add(vec![receipt(); 2]).expect("ten bytes");
        let large = Signed { payload: "x".repeat(5), ..receipt() };
        let error = receipts.add(vec![large]).expect_err("eight bytes more").to_string();
        assert!(error.contains("3 receipts of 18 bytes"), "{error}");
        assert_eq!((receipts.receipts.len(), receipts.bytes), (2, 10));
    }
}
