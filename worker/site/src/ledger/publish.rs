//! Releases outside of any budget: exact results of open data, and all releases of public data.

use undertone_api::dataset::Visibility;
use undertone_privacy::Event;

use super::error::LedgerError;
use super::release_context::ReleaseContext;
use super::rows::insert_row;
use super::{Ledger, ReleasePayment, check_quiet, refer};
use crate::books::OpenRelease;
use crate::fault;
use crate::outbox::StoredRelease;
use crate::policy::is_exact;

impl Ledger {
    /// Records a release without noise, of data that the policy marks as open. Its receipt and the reference to its
    /// bytes are on disk when this returns. No budget can admit such a release and none is charged, because published
    /// data may be released again.
    ///
    /// # Errors
    /// [`LedgerError::NotOpen`] when the data are not marked open, [`LedgerError::OtherEvent`] when the event is not
    /// exact and must be paid, [`LedgerError::Released`] as for [`Ledger::commit`].
    pub fn publish(
        &self,
        under: &ReleaseContext,
        visibility: Visibility,
        event: &Event,
        release: &StoredRelease,
    ) -> Result<ReleasePayment, LedgerError> {
        if visibility != Visibility::Open {
            return Err(LedgerError::NotOpen);
        }
        if !is_exact(event) {
            let (reserved, asked) = (Box::new(Event::NonPrivate), Box::new(event.clone()));
            return Err(LedgerError::OtherEvent { reserved, asked });
        }
        let mut state = self.lock_state()?;
        self.check_freeze(under)?;
        let at = (self.clock)();
        let (last, head) = (state.books.receipts.clone(), state.books.published.clone());
        fault::point(fault::BEFORE_COMMIT);
        let (published, receipts, signed) = self.append(&mut state, |_, tx| {
            check_quiet(tx)?;
            let (receipts, signed) = self.insert_receipt(tx, &last, under, event, release, at)?;
            let row = OpenRelease {
                lineage: under.lineage,
                job: under.job,
                receipt: receipts.sequence,
                event: event.clone(),
                at,
            };
            Ok((
                insert_row(tx, "INSERT INTO published (sequence, payload, hash) VALUES (?1, ?2, ?3)", &head, &row)?,
                receipts,
                signed,
            ))
        })?;
        fault::point(fault::AFTER_COMMIT);
        let receipt = receipts.sequence;
        state.books.receipts = receipts;
        state.books.published = published;
        Ok(ReleasePayment { signed, receipt })
    }

    /// Records the reference to a stored release of public data, which costs nothing; on disk when this returns.
    ///
    /// # Errors
    /// [`LedgerError::Released`] when it was released already.
    pub fn refer_public(&self, release: &StoredRelease) -> Result<(), LedgerError> {
        fault::point(fault::BEFORE_COMMIT);
        self.store.write(|tx| {
            check_quiet(tx)?;
            refer(tx, release, None)
        })?;
        fault::point(fault::AFTER_COMMIT);
        Ok(())
    }
}
