//! Receipts to be sent to the server.

use rusqlite::params;
use undertone_api::signed::Signed;

use crate::store::{Store, StoreError, sql};

/// Returns the receipts that the server does not have, oldest first, up to number `up_to`. With `paying`, that receipt
/// is included and comes last, even if the server has it.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn receipts_to_send(store: &Store, up_to: u64, paying: Option<u64>) -> Result<Vec<(u64, Signed)>, StoreError> {
    store.read(|db| {
        let mut statement = db
            .prepare(
                "SELECT sequence, payload, signature FROM receipt
                 WHERE sequence <= ?1 AND (sequence = ?2 OR sequence NOT IN (SELECT receipt FROM acknowledged)
                     OR sequence IN (SELECT receipt FROM lacking WHERE epoch = (SELECT epoch FROM witness_epoch)
                         EXCEPT SELECT receipt FROM proof WHERE epoch = (SELECT epoch FROM witness_epoch)))
                 ORDER BY sequence",
            )
            .map_err(StoreError::sqlite("read receipts"))?;
        let rows = statement
            .query_map(params![sql(up_to), paying.map(sql)], |row| {
                Ok((row.get::<_, i64>(0)? as u64, Signed { payload: row.get(1)?, signature: row.get(2)? }))
            })
            .map_err(StoreError::sqlite("read receipts"))?;
        rows.collect::<Result<_, _>>().map_err(StoreError::sqlite("read receipts"))
    })
}

/// Records that the server has these receipts.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn acknowledge(store: &Store, receipts: &[u64]) -> Result<(), StoreError> {
    store.write(|tx| {
        for receipt in receipts {
            tx.execute("INSERT INTO acknowledged (receipt) VALUES (?1) ON CONFLICT DO NOTHING", [sql(*receipt)])
                .map_err(StoreError::sqlite("note a receipt"))?;
        }
        Ok(())
    })
}
