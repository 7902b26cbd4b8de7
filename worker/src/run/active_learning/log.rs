//! Public, labelled logs for the lead: rows with the job's labels.

use std::collections::HashMap;

use undertone_api::job::active_learning::Spec;

use crate::queries::dataset::{Meta, Reader, Subset};
use crate::speech::dataset::DatasetError;

/// A text, the number of its occurrences, and the number of its label among the job's, if it has one of them.
pub(super) type LabelledRow = (String, u64, Option<u16>);

/// Returns the rows of a subset. A label that the job does not name counts as none.
pub(super) fn read_rows(
    reader: &Reader,
    subset: Subset,
    spec: &Spec,
) -> impl Iterator<Item = Result<LabelledRow, DatasetError>> + use<> {
    let numbers = label_numbers(spec, reader.meta());
    reader.rows(subset).map(move |row| {
        let row = row?;
        let label = row.label.and_then(|label| numbers.get(usize::from(label)).copied().flatten());
        Ok((row.text, row.count, label))
    })
}

/// Returns the subset for measurements: the held-out rows, or all of a log without any.
pub(super) const fn measurement_subset(meta: &Meta) -> Subset {
    if meta.test.rows > 0 { Subset::Test } else { Subset::Train }
}

/// Returns the job's number of each of a log's labels.
pub(super) fn label_numbers(spec: &Spec, meta: &Meta) -> Vec<Option<u16>> {
    let numbers: HashMap<&str, u16> = spec.labels.iter().map(|label| label.name.as_str()).zip(0..).collect();
    meta.labels.iter().map(|label| numbers.get(label.as_str()).copied()).collect()
}
