//! The options that compute over several privacy units, and their effect for private data.
//!
//! | option | computes over | private data |
//! |---|---|---|
//! | `--phone-frames`, `--least-frames` | the frames of all labels | refused: take the map of a public dataset |
//! | `--speaker-range` | the sorted list of all speakers | refused: name them |
//! | no `--classes`, map or aligner | the largest of all labels | refused: declare the classes |
//! | two recordings of one id | both | refused: whichever is kept or left out, the other one decides it |
//! | `--first`, `--skip` | the recordings of a speaker (and user) | records are not claimed |
//! | `--normalize speaker` | the recordings of a speaker (and user) | records are not claimed |
//! | `data label-transcripts` | the pieces of a recording | records are not claimed |
//!
//! Every other option treats each recording by itself; a test of the command line checks all of them. Add any further
//! option that does not to this table.

use undertone_api::dataset::Visibility;

use super::{ClassOption, PrepareError, PrepareOptions, SpeakerChoice, UtteranceChoice};
use crate::align::PhoneTying;
use crate::dataset::{ClassSource, PreparationRecord};

/// Checks that the data may be prepared with these options.
///
/// # Errors
/// [`PrepareError::PublicOnly`] or [`PrepareError::Undeclared`] for data that are not public.
pub(super) fn check(options: &PrepareOptions) -> Result<(), PrepareError> {
    if options.visibility == Visibility::Public {
        return Ok(());
    }
    if let Some((option, remedy)) = across_units(options).next() {
        return Err(PrepareError::PublicOnly { option, remedy });
    }
    if class_source(options) == ClassSource::Labels { Err(PrepareError::Undeclared) } else { Ok(()) }
}

/// Returns the computations across units; `repeats` is true if several recordings have one id.
pub(super) fn record(options: &PrepareOptions, repeats: bool) -> PreparationRecord {
    let options_used = across_units(options).map(|(option, _)| option);
    let repeated = repeats.then_some("recordings of one id");
    let by_mean = (!options.treatment.normalization.keeps_records_apart()).then_some("--normalize speaker");
    let by_place = match options.take {
        UtteranceChoice::First(_) => Some("--first"),
        UtteranceChoice::Skip(_) => Some("--skip"),
        UtteranceChoice::All | UtteranceChoice::Named(_) => None,
    };
    PreparationRecord {
        across_units: options_used.chain(repeated).map(str::to_owned).collect(),
        across_records: by_place.into_iter().chain(by_mean).chain(options.across_records).map(str::to_owned).collect(),
        class_source: class_source(options),
    }
}

/// Returns the options in use that compute over several units, each with the alternative.
fn across_units(options: &PrepareOptions) -> impl Iterator<Item = (&'static str, &'static str)> {
    let phones = matches!(options.reading.phones, Some(PhoneTying::Least(_)))
        .then_some(("--phone-frames", "give the phones.json of a public dataset with --phone-map"));
    let labels = matches!(options.classes, ClassOption::Frequent(_))
        .then_some(("--least-frames", "give the classes.json of a public dataset with --class-map"));
    let speakers = matches!(options.speakers, SpeakerChoice::Range(_))
        .then_some(("--speaker-range", "name the speakers with --speakers or --speakers-from"));
    phones.into_iter().chain(labels).chain(speakers)
}

fn class_source(options: &PrepareOptions) -> ClassSource {
    match (&options.classes, &options.reading.phones, &options.aligner) {
        (ClassOption::Count(_) | ClassOption::Characters(_), ..) => ClassSource::Declared,
        (ClassOption::Map(_), ..) | (ClassOption::FromLabels, Some(PhoneTying::Map(_)), _) => ClassSource::Map,
        (ClassOption::FromLabels, None, Some(_)) => ClassSource::Aligner,
        (ClassOption::Frequent(_) | ClassOption::FromLabels, ..) => ClassSource::Labels,
    }
}
