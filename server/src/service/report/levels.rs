//! ε at record and at speaker level, worked out once for the same releases: it takes a convolution, and pages are loaded
//! again and again.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use undertone_api::dataset::{Dataset, SizeClass};
use undertone_api::report::{Level, Releases};
use undertone_api::signed::certificate::Charged;
use undertone_privacy::Delta;

use crate::error::Error;
use crate::service::code::to_json;

/// Results that are kept; with more, all are worked out again when they are next asked for.
const KEPT: usize = 4096;

/// By everything that they follow from.
static KNOWN: LazyLock<Mutex<HashMap<String, Vec<Level>>>> = LazyLock::new(Mutex::default);

/// Both levels of what a part was charged; none without a budget, which is what δ comes from.
pub(super) async fn of(charged: &Charged, facts: Option<&Dataset>) -> Result<Vec<Level>, Error> {
    let Some(delta) = charged.account.delta else { return Ok(Vec::new()) };
    let delta = Delta::new(delta).map_err(|error| Error::internal("reading an account's delta", error))?;
    let (records, speakers) = facts.map_or((super::UNKNOWN, SizeClass(1)), |facts| (facts.records, facts.speakers));
    let (unit, adjacency) = (charged.unit, charged.adjacency);
    let (event, count) = (charged.mechanism.event.clone(), charged.releases.counted);
    let key = to_json(&(unit, adjacency, &event, count, delta, records, speakers))?;
    if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(known.clone());
    }
    let worked_out = tokio::task::spawn_blocking(move || {
        Level::both(&Releases { unit, adjacency, event: &event, count, delta, records, speakers })
    });
    let levels = worked_out.await.map_err(|error| Error::internal("working out a level", error))?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= KEPT {
        known.clear();
    }
    known.insert(key, levels.clone());
    Ok(levels)
}
