//! Which options compute over several privacy units, and what that means for private data.
//!
//! | option | computes over | private data |
//! |---|---|---|
//! | `--phone-frames`, `--least-frames` | the frames of all labels | refused: take the map of a public dataset |
//! | `--speaker-range` | the sorted list of all speakers | refused: name them |
//! | no `--classes`, map or aligner | the largest of all labels | refused: declare the classes |
//! | two recordings of one id | both | refused: whichever is kept or left out, the other one decides it |
//! | `--first`, `--skip` | the recordings of a speaker (and user) | records are not claimed |
//! | `--normalize speaker` | the recordings of a speaker (and user) | records are not claimed |
//!
//! Every other option treats each recording by itself; a test of the command line goes through all of them. To add an option
//! that does not, add it here.

use undertone_api::dataset::Visibility;

use super::{Classes, Options, PrepareError, Speakers, Take};
use crate::speech::align::Tying;
use crate::speech::dataset::{ClassSource, PreparationRecord};

/// Looks whether the data may be prepared with these options.
///
/// # Errors
/// [`PrepareError::PublicOnly`] or [`PrepareError::Undeclared`] of data that are not public.
pub(super) fn check(options: &Options) -> Result<(), PrepareError> {
    if options.visibility == Visibility::Public {
        return Ok(());
    }
    if let Some((option, remedy)) = across_units(options).next() {
        return Err(PrepareError::PublicOnly { option, remedy });
    }
    if class_source(options) == ClassSource::Labels { Err(PrepareError::Undeclared) } else { Ok(()) }
}

/// Returns what was computed across units; `repeats` says that recordings of one id were found.
pub(super) fn record(options: &Options, repeats: bool) -> PreparationRecord {
    let options_used = across_units(options).map(|(option, _)| option);
    let repeated = repeats.then_some("recordings of one id");
    let by_mean = (!options.treatment.normalization.keeps_records_apart()).then_some("--normalize speaker");
    let by_place = match options.take {
        Take::First(_) => Some("--first"),
        Take::Skip(_) => Some("--skip"),
        Take::All | Take::Named(_) => None,
    };
    PreparationRecord {
        across_units: options_used.chain(repeated).map(str::to_owned).collect(),
        across_records: by_place.into_iter().chain(by_mean).map(str::to_owned).collect(),
        class_source: class_source(options),
    }
}

/// Returns the options in use that compute over several units, each with what to do instead.
fn across_units(options: &Options) -> impl Iterator<Item = (&'static str, &'static str)> {
    let phones = matches!(options.reading.phones, Some(Tying::Least(_)))
        .then_some(("--phone-frames", "give the phones.json of a public dataset with --phone-map"));
    let labels = matches!(options.classes, Classes::Frequent(_))
        .then_some(("--least-frames", "give the classes.json of a public dataset with --class-map"));
    let speakers = matches!(options.speakers, Speakers::Range(_))
        .then_some(("--speaker-range", "name the speakers with --speakers or --speakers-from"));
    phones.into_iter().chain(labels).chain(speakers)
}

fn class_source(options: &Options) -> ClassSource {
    match (&options.classes, &options.reading.phones, &options.aligner) {
        (Classes::Count(_), ..) => ClassSource::Declared,
        (Classes::Map(_), ..) | (Classes::FromLabels, Some(Tying::Map(_)), _) => ClassSource::Map,
        (Classes::FromLabels, None, Some(_)) => ClassSource::Aligner,
        (Classes::Frequent(_) | Classes::FromLabels, ..) => ClassSource::Labels,
    }
}
