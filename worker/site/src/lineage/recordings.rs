//! The search for recordings that lineages of this site have already.

use super::error::LineageError;
use super::fingerprint::FingerprintCollector;
use super::known_lineage::{load_lineages, overlaps};
use super::overlap::KnownDataset;
use super::table::{self, dataset_lineages};
use crate::dataset_meta::description::DatasetDescription;
use crate::datasets::scan;
use crate::folder::Folder;
use crate::policy::Policy;
use crate::store::Store;

/// Finds sound files in lineages that are not public, by the hexadecimal digests of their bytes. Returns the first such
/// dataset and the number of files.
///
/// # Errors
/// [`LineageError`] when the site's database or folder fails.
pub fn find_recordings<'a, D: DatasetDescription>(
    folder: &Folder,
    policy: &Policy,
    digests: impl Iterator<Item = &'a str>,
) -> Result<Option<(KnownDataset, usize)>, LineageError> {
    let store = Store::open_or_begin(folder)?;
    scan::<D>(folder, &store, policy)?;
    let mut collector = FingerprintCollector::new(&store.read(table::keys)?);
    digests.filter_map(|digest| hex::decode(digest).ok()).for_each(|digest| collector.add_file(&digest));
    let names = dataset_lineages(&store)?;
    let lineages = store.read(|db| load_lineages(db, &names, policy))?;
    let overlaps = store.read(|db| overlaps(db, &mut collector, None))?;
    let somebodys =
        overlaps.into_iter().filter_map(|(lineage, overlap)| Some((lineages.get(&lineage)?, overlap.recordings)));
    Ok(somebodys.filter(|(of, _)| !of.is_public()).map(|(of, count)| (of.dataset.clone(), count)).next())
}
