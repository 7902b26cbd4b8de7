//! This site's key in the server's log: a key that this site does not hold raises an alarm.

use time::OffsetDateTime;
use undertone_api::id::WorkerId;
use undertone_api::log::witness::WitnessAnswer;
use undertone_api::signed::LogHead;

use super::{ServerContradiction, alarm};
use crate::store::{Store, StoreError};

/// Checks the key in an otherwise valid answer: `public_key` (hex) must be the last key of this worker in the log.
/// Returns the contradiction, after raising an alarm. An answer of a server that logs no keys contains none.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn judge_own_key(
    store: &Store,
    answer: &WitnessAnswer,
    worker: WorkerId,
    public_key: &str,
    at: OffsetDateTime,
) -> Result<Option<ServerContradiction>, StoreError> {
    let (Some(proof), Some(signed)) = (&answer.key, &answer.head) else { return Ok(None) };
    let head: LogHead = serde_json::from_str(&signed.payload).map_err(StoreError::row)?;
    let Err(error) = proof.check(&head, worker, public_key) else { return Ok(None) };
    let contradiction = ServerContradiction::from(error);
    let evidence = serde_json::json!({
        "head": signed,
        "position": proof.position,
        "leaf": proof.leaf,
        "inclusion": proof.inclusion.iter().map(hex::encode).collect::<Vec<_>>(),
        "own_key": public_key,
    });
    alarm::raise(store, &contradiction.to_string(), &evidence.to_string(), at)?;
    Ok(Some(contradiction))
}
