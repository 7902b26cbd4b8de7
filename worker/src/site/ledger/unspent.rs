//! A payment of which nothing was made: the process died after it had paid and before there was anything to send.
//!
//! A pool of queries is one release, its job reserves one payment, and a site that paid may not lose its part of the job to
//! a power cut. So that payment is looked up again, and only where it is certain that nothing left under it: what is to leave
//! is noted before its first bit does ([`crate::site::outbox`]), and here nothing is noted. What is then released is the first
//! release under that payment. Vectors of training pay again instead; their jobs reserve for that.

use rusqlite::{OptionalExtension, params};
use undertone_api::signed::{Receipt, Signed};
use undertone_privacy::Event;

use super::{Ledger, LedgerError, Paid, Under, quiet};
use crate::site::clearance::Spent;
use crate::site::store::StoreError;

impl Ledger {
    /// The last payment for this release, when nothing was ever noted to leave under it. Writes nothing.
    ///
    /// # Errors
    /// [`LedgerError::Frozen`] and [`LedgerError::Alarm`] while nothing may leave.
    pub fn unspent(&self, under: &Under, event: &Event, series: &str, round: u32) -> Result<Option<Paid>, LedgerError> {
        self.thawed(under)?;
        let found: Option<(i64, Signed)> = self.store.read(|db| {
            quiet(db)?;
            db.query_row(
                "SELECT sequence, payload, signature FROM receipt
                 WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4
                     AND NOT EXISTS (SELECT 1 FROM vector
                         WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4)
                 ORDER BY sequence DESC LIMIT 1",
                params![under.job.to_string(), under.dataset.to_string(), series, round],
                |row| Ok((row.get(0)?, Signed { payload: row.get(1)?, signature: row.get(2)? })),
            )
            .optional()
            .map_err(|error| LedgerError::from(StoreError::sqlite("look for a payment")(error)))
        })?;
        let Some((sequence, signed)) = found else { return Ok(None) };
        let receipt: Receipt = serde_json::from_str(&signed.payload).map_err(StoreError::row)?;
        let same = receipt.manifest == under.manifest && receipt.lineage == under.lineage && receipt.event == *event;
        Ok(same.then(|| Paid { spent: Spent::new(event.clone(), signed), receipt: sequence as u64 }))
    }
}
