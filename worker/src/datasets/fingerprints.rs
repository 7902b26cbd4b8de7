//! Fingerprints of prepared datasets without a record of their sources.

use std::fs;
use std::path::Path;

use crate::queries::dataset::{self as queries, Subset};
use crate::queries::normalize::TextNormalizer;
use crate::site::lineage::{COMPARED, FingerprintCollector};
use crate::speech::dataset::Dataset;

use super::DatasetMeta;

/// A file of the digests of replaced recordings, written by workers before lineages.
const REPLACED_FILE: &str = "replaced";
/// The highest number of rows of a query log that are read again for its fingerprints: more would delay the worker.
const MOST_ROWS: u64 = 1 << 20;

/// Collects the fingerprints of sources and people that a prepared dataset itself contains.
pub(super) fn derive_fingerprints(folder: &Path, meta: &DatasetMeta, collector: &mut FingerprintCollector) {
    match meta {
        // A dataset that cannot be opened is refused when a job opens it.
        DatasetMeta::Speech(_) => {
            let Ok(dataset) = Dataset::open(folder) else { return };
            (0..).map_while(|speaker| dataset.speaker_name(speaker)).for_each(|id| collector.add_person(id));
            (0..).map_while(|user| dataset.user_name(user)).for_each(|id| collector.add_person(id));
        }
        DatasetMeta::Queries(meta) if meta.train.rows + meta.test.rows <= MOST_ROWS => {
            let Ok(reader) = queries::Reader::open(folder) else { return };
            let mut normalizer = TextNormalizer::new(COMPARED);
            for subset in [Subset::Train, Subset::Test] {
                let mut rows = reader.rows(subset);
                while let Ok(Some(row)) = rows.next_ref() {
                    collector.add_row(normalizer.apply(row.text));
                }
            }
        }
        // The units of a table are hashed under its own key: only a preparation knows their ids.
        DatasetMeta::Queries(_) | DatasetMeta::Table(_) => {}
        DatasetMeta::Recordings(meta) => {
            let replaced = fs::read_to_string(folder.join(REPLACED_FILE)).unwrap_or_default();
            let now = meta.recordings.iter().map(|recording| recording.digest.as_str());
            now.chain(replaced.lines())
                .filter_map(|digest| hex::decode(digest).ok())
                .for_each(|digest| collector.add_file(&digest));
        }
    }
}
