//! The lineages known at this site, and the decision which of them data may have.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use undertone_api::dataset::Visibility;
use undertone_api::id::LineageId;

use super::error::LineageError;
use super::fingerprint::FingerprintCollector;
use super::overlap::{DataOverlap, KnownDataset};
use super::sketch::count_common;
use super::table;
use crate::clock;
use crate::policy::Policy;
use crate::store::StoreError;

/// A lineage as used by the checks.
#[derive(Debug, Clone)]
pub(super) struct KnownLineage {
    pub(super) dataset: KnownDataset,
    /// The names and visibilities of its datasets at this site; empty for a lineage of another worker.
    pub(super) names: Vec<(String, Visibility)>,
}

impl KnownLineage {
    /// Returns whether all datasets are public. Public data have no account, so they may occur in other lineages too.
    pub(super) fn is_public(&self) -> bool {
        !self.names.is_empty() && self.names.iter().all(|(_, visibility)| *visibility == Visibility::Public)
    }
}

/// Returns every lineage known here.
pub(super) fn load_lineages(
    db: &Connection,
    store: &[(LineageId, String)],
    policy: &Policy,
) -> Result<BTreeMap<LineageId, KnownLineage>, StoreError> {
    let mut all: BTreeMap<LineageId, KnownLineage> = table::other_lineages(db)?
        .into_iter()
        .map(|(lineage, (name, worker))| {
            (lineage, KnownLineage { dataset: KnownDataset { name, worker: Some(worker) }, names: Vec::new() })
        })
        .collect();
    for (lineage, name) in store {
        let entry = (name.clone(), policy.rules(name).visibility);
        let dataset = KnownDataset { name: name.clone(), worker: None };
        let of = all.entry(*lineage).or_insert_with(|| KnownLineage { dataset: dataset.clone(), names: Vec::new() });
        of.dataset = dataset;
        of.names.push(entry);
    }
    Ok(all)
}

/// Returns the data that a collector shares with each lineage except `own`.
pub(super) fn overlaps(
    db: &Connection,
    collector: &mut FingerprintCollector,
    own: Option<LineageId>,
) -> Result<BTreeMap<LineageId, DataOverlap>, StoreError> {
    let mut overlaps: BTreeMap<LineageId, DataOverlap> = BTreeMap::new();
    table::each_fingerprint(db, |row| {
        if Some(row.lineage) != own
            && let Some(of) = collector.keyed().iter_mut().find(|of| of.key == row.key)
        {
            let count = count_common(of.sketch(row.kind).items(), &row.items);
            overlaps.entry(row.lineage).or_default().add(row.kind, count);
        }
        Ok(())
    })?;
    overlaps.retain(|_, overlap| !overlap.is_empty());
    Ok(overlaps)
}

/// Decides whether data may have the lineage `line`, from their overlaps with others.
pub(super) fn judge(
    name: &str,
    visibility: Visibility,
    (own, line): (Option<LineageId>, Option<LineageId>),
    found: &BTreeMap<LineageId, DataOverlap>,
    known: &BTreeMap<LineageId, KnownLineage>,
) -> Result<(), LineageError> {
    let nameless = || KnownDataset { name: "(unknown)".to_owned(), worker: None };
    let dataset = |lineage: &LineageId| known.get(lineage).map_or_else(nameless, |of| of.dataset.clone());
    let others: Vec<(&LineageId, &DataOverlap)> =
        found.iter().filter(|(lineage, _)| !known.get(lineage).is_some_and(KnownLineage::is_public)).collect();
    let shared: BTreeSet<LineageId> = others.iter().map(|(lineage, _)| **lineage).chain(line).collect();
    let mut shared = shared.iter();
    match others.first() {
        None => Ok(()),
        Some((other, overlap)) if visibility == Visibility::Public => {
            Err(LineageError::Public { overlap: **overlap, other: dataset(other) })
        }
        Some((other, overlap)) if own.is_some() => {
            Err(LineageError::Apart { name: name.to_owned(), overlap: **overlap, other: dataset(other) })
        }
        Some((other, overlap)) => match (shared.next(), shared.next()) {
            (Some(first), Some(second)) => {
                Err(LineageError::Several { first: dataset(first), second: dataset(second) })
            }
            _ => Err(LineageError::Undeclared { overlap: **overlap, other: dataset(other) }),
        },
    }
}

/// Draws the id of a new lineage.
pub(super) fn new_lineage() -> Result<LineageId, LineageError> {
    let bytes = clock::entropy().map_err(LineageError::Entropy)?;
    Ok(LineageId(uuid::Builder::from_random_bytes(bytes).into_uuid()))
}
