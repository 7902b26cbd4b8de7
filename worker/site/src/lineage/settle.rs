//! The lineage of a folder found under `data/`: prepared here, copied from elsewhere, or older than lineages.
//!
//! A prepared dataset names its lineage in `lineage.json`, so a copied or renamed folder stays in it. A folder without
//! that file is recognized by its own content: its digest, the speakers of speech, the files of recordings, the rows of
//! a short query log. Its sources are then unknown (`has_sources`), which `doctor` and `data list` report.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use undertone_api::id::LineageId;

use super::error::LineageError;
use super::fingerprint::FingerprintCollector;
use super::known_lineage::{judge, load_lineages, new_lineage, overlaps};
use super::overlap::KnownDataset;
use super::table::{self, dataset_lineages, load_keys};
use crate::clock;
use crate::dataset_meta::description::DatasetDescription;
use crate::policy::Policy;
use crate::store::Store;

/// The file in a dataset's folder that names its lineage.
const MARKER_FILE: &str = "lineage.json";
/// Version of the marker.
const FORMAT: u32 = 1;

/// The marker of a prepared dataset's lineage, beside its data. Written once its fingerprints are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineageMarker {
    format: u32,
    lineage: LineageId,
}

impl LineageMarker {
    /// The name of the file.
    pub const FILE: &str = MARKER_FILE;

    pub(super) const fn new(lineage: LineageId) -> Self {
        Self { format: FORMAT, lineage }
    }

    /// Returns the content of the file.
    pub fn to_json(self) -> Vec<u8> {
        format!("{{\"format\":{},\"lineage\":\"{}\"}}\n", self.format, self.lineage).into_bytes()
    }

    /// Reads the marker of the dataset in `folder`; `None` where there is no readable one.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let text = fs::read(folder.join(MARKER_FILE)).ok()?;
        serde_json::from_slice(&text).ok().filter(|marker: &Self| marker.format == FORMAT)
    }
}

/// Returns whether the sources of the dataset in `folder` would be recognized again. For recordings, the dataset is its
/// own source.
pub fn has_sources<D: DatasetDescription>(folder: &Path, described: &D) -> bool {
    described.is_its_source() || LineageMarker::read(folder).is_some()
}

/// Returns the lineage of the dataset called `name` in `folder`, after checking that it may have it.
///
/// # Errors
/// [`LineageError`] when its data belong to another lineage than its name, or may not have this name.
pub(crate) fn settle<D: DatasetDescription>(
    store: &Store,
    policy: &Policy,
    name: &str,
    folder: &Path,
    described: &D,
) -> Result<LineageId, LineageError> {
    let digest = described.digest();
    let own = store.read(|db| table::of_name(db, name))?;
    if let Some(own) = own
        && store.read(|db| table::fingerprint_state(db, name, digest))?.is_some()
    {
        return Ok(own);
    }
    let marked = LineageMarker::read(folder).map(|marker| marker.lineage);
    let now = clock::system()();
    let names = dataset_lineages(store)?;
    let lineages = store.read(|db| load_lineages(db, &names, policy))?;
    if let (Some(own), Some(marked)) = (own, marked)
        && own != marked
    {
        let nameless = KnownDataset { name: "(of another site)".to_owned(), worker: None };
        let other = lineages.get(&marked).map_or(nameless, |of| of.dataset.clone());
        return Err(LineageError::Moved { path: folder.to_owned(), name: name.to_owned(), other });
    }
    // The fingerprints of the lineage in the marker are stored already, so nothing must be read.
    let is_kept = match marked {
        Some(marked) => store.read(|db| table::has_fingerprints(db, marked))?,
        None => false,
    };
    let (keys, _) = load_keys(store, now)?;
    let mut collector = FingerprintCollector::new(&keys);
    let line = own.or(marked);
    // A description without a dataset has no digest.
    if digest.len() == 64 {
        collector.add_dataset(digest);
    }
    if !is_kept {
        described.derive_fingerprints(folder, &mut collector);
        collector.finish();
        let overlaps = store.read(|db| overlaps(db, &mut collector, line))?;
        // A folder that names its lineage has declared it.
        judge(name, policy.rules(name).visibility, (own, line), &overlaps, &lineages)?;
    }
    let new = new_lineage()?;
    store.write(|tx| {
        // Another process may have been faster.
        let lineage = match table::of_name(tx, name)?.or(line) {
            Some(line) if table::of_name(tx, name)?.is_some() => line,
            Some(line) if table::is_founded(tx, line)? || lineages.contains_key(&line) => {
                table::join(tx, name, line, "", now)?;
                line
            }
            line => {
                let line = line.unwrap_or(new);
                table::begin(tx, name, line)?;
                line
            }
        };
        table::merge_all(tx, lineage, &mut collector)?;
        table::note_fingerprinted(tx, name, digest, is_kept || has_sources(folder, described))?;
        Ok(lineage)
    })
}
