//! Turns a folder of recordings and a file of labels into a dataset.
//!
//! The folder is LibriSpeech-style, `[<subset>/]<speaker>/<chapter>/<id>.flac|wav`; transcripts may lie there and are
//! read only where labels are made from them. Whatever cannot be used is left out and named in a [`Report`], which stays at the site inside the dataset's
//! folder. Either a whole dataset appears under the output, or nothing does. Nothing depends on chance, so the same input
//! gives the same digest.
//!
//! A job can protect a unit only if the rows of all others are the same with and without it. So what becomes of a recording is
//! decided by that recording, its labels, its user and the options. The options that compute over more are listed in
//! `separation`: of private data they are refused, or the dataset no longer claims the units that they mix. A preparation that
//! is refused leaves nothing and tells its reason to this terminal only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use undertone_api::dataset::Visibility;

use super::align::aligner::{AlignerError, Identity};
use super::align::journal::JournalError;
use super::align::pocketsphinx::PocketSphinx;
use super::align::{self, AlignError, Alignments, Labels, PhoneMap, Reading};
use super::audio::LONGEST;
use super::dataset::{Dataset, DatasetError, Description, Meta, Split, Writer, read_meta};
use super::features::Treatment;
use super::mfcc;
use super::progress::Progress;
use crate::site::lineage::{LineageError, LineageIntake, LineageMarker};

mod classes;
mod forced;
mod report;
mod rows;
mod scan;
mod separation;
mod transcripts;
mod units;
mod work;

pub use classes::{ClassMap, ClassMapError};
pub use report::{Aligned, Problem, Report};
pub use scan::{ScanError, Speakers, Take};
pub use units::{UnitTable, UnitsError};

use forced::Forced;
use rows::Rows;
use scan::{Chosen, Recording};
use units::Units;
use work::{Outcome, Ready, Settings};

/// The file inside a dataset that holds the [`ClassMap`] it was made with.
pub const CLASSES_FILE: &str = "classes.json";
/// The file inside a dataset that holds the [`PhoneMap`] it was made with.
pub const PHONES_FILE: &str = "phones.json";

/// What to prepare, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of recordings.
    pub input: PathBuf,
    /// The file of labels, see [`align`]; with an `aligner`, the [`Journal`](align::journal::Journal) it writes to.
    pub alignments: PathBuf,
    /// What makes the labels, by the transcripts beside the recordings; none where they are there already.
    pub aligner: Option<PocketSphinx>,
    /// How to read them.
    pub reading: Reading,
    /// Where the dataset's folder will be.
    pub output: PathBuf,
    /// Whether a dataset that is there already makes room. The line of versions, and with it the budget, goes on.
    pub replace: bool,
    /// The name of the dataset.
    pub name: String,
    /// What the data are to be. Of public data options may compute over several units.
    pub visibility: Visibility,
    /// Only these subsets; none named means all.
    pub subsets: Vec<String>,
    /// Only these speakers.
    pub speakers: Speakers,
    /// Which utterances of each speaker.
    pub take: Take,
    /// The part of the utterances to hold out for tests, 0 to 1. Whole utterances, chosen by a hash of the id: more
    /// recordings never move an utterance from test to training.
    pub hold_out: f64,
    /// Who each utterance belongs to, if users are a unit of this dataset.
    pub units: Option<UnitTable>,
    /// How labels become classes.
    pub classes: Classes,
    /// What becomes of the cepstra.
    pub treatment: Treatment,
    /// How many frames labels and features may differ by.
    pub tolerance: usize,
    /// The longest recording, seconds.
    pub longest: f64,
    /// Now, RFC 3339 in UTC.
    pub created: String,
    /// Threads that decode, at least 1.
    pub threads: usize,
}

impl Options {
    /// The usual: private, all speakers, all utterances, nothing held out, classes from the labels (which private data have to
    /// declare), each utterance's mean subtracted.
    pub fn new(input: &Path, alignments: &Path, output: &Path, name: &str) -> Self {
        Self {
            input: input.to_path_buf(),
            alignments: alignments.to_path_buf(),
            aligner: None,
            reading: Reading::default(),
            output: output.to_path_buf(),
            replace: false,
            name: name.to_owned(),
            visibility: Visibility::Private,
            subsets: Vec::new(),
            speakers: Speakers::All,
            take: Take::All,
            hold_out: 0.0,
            units: None,
            classes: Classes::FromLabels,
            treatment: Treatment::default(),
            tolerance: align::TOLERANCE,
            longest: LONGEST,
            created: String::new(),
            threads: 1,
        }
    }
}

/// How labels become classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classes {
    /// As many as the aligner or the map of phones knows; without either, as many as the largest label of the chosen utterances
    /// needs, which is told of public data only.
    FromLabels,
    /// So many; an utterance with a label that is not below is left out.
    Count(usize),
    /// Labels with at least so many frames among the chosen utterances keep a class each; the rest share one. The map
    /// tells what is frequent here: make it from public data, and give it to the others.
    Frequent(u64),
    /// By a map that was made before.
    Map(ClassMap),
}

/// Why nothing was prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The folder of recordings, or what was asked of it.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The file of labels.
    #[error(transparent)]
    Align(#[from] AlignError),
    /// The program that makes labels.
    #[error(transparent)]
    Aligner(AlignerError),
    /// Where it keeps them.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The table of units.
    #[error(transparent)]
    Units(#[from] UnitsError),
    /// The users of a line of versions would be others.
    #[error(
        "dataset `{name}` protects users by {before:?}, and what was spent on it was spent for these: keep --unit-column \
         {before}"
    )]
    UnitColumn {
        /// The dataset.
        name: String,
        /// The column it has.
        before: String,
    },
    /// The output.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Data that are charged to the accounts of another dataset.
    #[error(transparent)]
    Lineage(Box<LineageError>),
    /// A share outside 0 to 1.
    #[error("--hold-out {0}: a share between 0 and 1")]
    HoldOut(f64),
    /// A number of classes that cannot be.
    #[error("--classes {0}: between 1 and 65536")]
    Classes(usize),
    /// An option that computes over several units, of data that are not public.
    #[error(
        "{option} computes over all recordings, so that one of them would decide what becomes of others: of private data \
         {remedy}. It is for public data (--visibility public)"
    )]
    PublicOnly {
        /// The option.
        option: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// No number of classes, of data that are not public.
    #[error(
        "--classes is missing: the number of classes is told when a dataset is registered, so that of private data it may not \
         be counted in the labels. Say --classes N, the same number as all participants, or give a map of public data \
         (--class-map, --phone-map). With --visibility public it is counted"
    )]
    Undeclared,
    /// Recordings there are, but none that can be used.
    #[error("none of the {found} recordings chosen in {input} can be used; nothing was written ({first}; {summary}{})", hint.as_ref().map(|id| format!("; the labels are of utterances such as {id}")).unwrap_or_default())]
    Nothing {
        /// The folder.
        input: PathBuf,
        /// Recordings chosen.
        found: usize,
        /// The first problem, by name.
        first: String,
        /// How many of which.
        summary: String,
        /// An utterance that has labels, when no recording has.
        hint: Option<String>,
    },
}

/// Prepares a dataset and tells what was found.
///
/// # Errors
/// [`PrepareError`]; nothing is then left at the output.
pub fn prepare(options: &Options, progress: &dyn Progress) -> Result<Report, PrepareError> {
    prepare_in_lineage(options, None, progress)
}

/// As [`prepare`], for a dataset of a site: its lineage is decided before it has its place.
///
/// # Errors
/// As [`prepare`]; [`PrepareError::Lineage`] when the data are charged to other accounts.
pub fn prepare_in_lineage(
    options: &Options,
    mut intake: Option<&mut LineageIntake>,
    progress: &dyn Progress,
) -> Result<Report, PrepareError> {
    if !(0.0..=1.0).contains(&options.hold_out) {
        return Err(PrepareError::HoldOut(options.hold_out));
    }
    if !options.replace && options.output.symlink_metadata().is_ok() {
        return Err(DatasetError::Exists(options.output.clone()).into());
    }
    separation::check(options)?;
    check_column(options)?;
    let units = options.units.as_ref().map(|table| Ok::<_, UnitsError>((table, Units::read(table)?))).transpose()?;
    let users = units.as_ref().map(|(_, units)| units);
    let read = match options.aligner {
        Some(_) => None,
        None => Some(align::read(&options.alignments, &options.reading)?),
    };
    let found = scan::scan(&options.input)?;
    let choice = scan::choose(&found.recordings, options, users)?;
    let mut report = Report::new(options, &found, &choice);
    let Chosen { recordings: mut chosen, repeated } = choice;
    if let Some((table, units)) = &units {
        units.cover(table, chosen.iter().map(|recording| recording.id.as_str()))?;
    }
    let Made { alignments, phones, by } = match (read, &options.aligner) {
        (Some(Labels { alignments, phones }), _) => Made { alignments, phones, by: None },
        (None, Some(aligner)) => make(aligner, options, &mut chosen, &mut report, progress)?,
        (None, None) => Made::default(),
    };
    let ids: BTreeSet<&str> = found.recordings.iter().map(|recording| recording.id.as_str()).collect();
    report.labelled(&alignments, ids.into_iter());
    let map = match (&phones, &by) {
        // All classes of the map, or of the aligner, whichever occur here: another dataset made with it has the same.
        (Some(phones), _) if options.classes == Classes::FromLabels => ClassMap::identity(phones.classes()),
        (_, Some(by)) if options.classes == Classes::FromLabels => ClassMap::identity(by.classes),
        _ => class_map(options, &chosen, &alignments)?,
    };

    let start = if options.replace { Writer::replace } else { Writer::create };
    let mut writer = start(&options.output, description(options, &map, by.as_ref(), !repeated.is_empty()))?;
    let settings = Settings { options, alignments: &alignments, map: &map };
    progress.start("Computing features", chosen.len() as u64);
    let mut write = |recording: &Recording, ready: &Ready| {
        let split = split(&recording.id, options.hold_out);
        let user = users.and_then(|users| users.of(&recording.id));
        if let Some(intake) = intake.as_deref_mut() {
            intake.add_recording(&ready.source.file, &ready.source.audio);
            std::iter::once(recording.speaker.as_str()).chain(user).for_each(|person| intake.add_person(person));
        }
        writer.push_of(&recording.id, (&recording.speaker, user), split, &ready.features, &ready.labels)
    };
    let mut rows = Rows::new(options.treatment, users);
    work::each(&settings, &chosen, progress, |recording, outcome| match outcome {
        Outcome::Kept(ready) => {
            report.keep(&ready);
            rows.take(recording, ready, &mut write)
        }
        Outcome::Left(problem) => {
            report.leave(problem);
            Ok(())
        }
    })?;
    rows.finish(&mut write)?;
    progress.finish();

    if writer.is_empty() {
        let (input, found) = (options.input.clone(), report.chosen);
        let (first, summary) = (report.first_left(), report.problem_counts());
        let strangers = report.surplus_alignments == alignments.by_id.len();
        let hint = alignments.by_id.keys().next().filter(|_| strangers).cloned();
        return Err(PrepareError::Nothing { input, found, first, summary, hint });
    }
    if let Some(intake) = intake {
        let marker = intake.admit().map_err(|error| PrepareError::Lineage(Box::new(error)))?;
        writer.attach(LineageMarker::FILE, &marker)?;
    }
    if options.classes != Classes::FromLabels {
        writer.attach(CLASSES_FILE, &map)?;
    }
    if let Some(phones) = &phones {
        writer.attach(PHONES_FILE, phones)?;
    }
    writer.finish(|meta| {
        report.complete(meta);
        report.to_json()
    })?;
    // What was just written must open: this reads it back once, from the disk's point of view.
    Dataset::open(&options.output)?;
    Ok(report)
}

/// The labels, however they came.
#[derive(Default)]
struct Made {
    alignments: Alignments,
    phones: Option<PhoneMap>,
    by: Option<Identity>,
}

/// Has the chosen recordings aligned; those that have no labels after that are chosen no more.
fn make(
    aligner: &PocketSphinx,
    options: &Options,
    chosen: &mut Vec<Recording>,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Made, PrepareError> {
    let Forced { alignments, problems, by, resumed } = forced::align(aligner, options, chosen, progress)?;
    chosen.retain(|recording| alignments.by_id.contains_key(&recording.id));
    for problem in problems {
        report.leave(problem);
    }
    let (program, identity) = (by.program.clone(), by.identity.clone());
    report.aligner = Some(Aligned { program, identity, resumed, labels: options.alignments.clone() });
    Ok(Made { alignments, phones: None, by: Some(by) })
}

/// That a dataset that is replaced keeps protecting the users it has.
fn check_column(options: &Options) -> Result<(), PrepareError> {
    let Some(UnitTable { column, .. }) = options.units.as_ref().filter(|_| options.replace) else { return Ok(()) };
    match read_meta(&options.output) {
        Ok(Meta { unit_column: Some(before), name, .. }) if before != *column => {
            Err(PrepareError::UnitColumn { name, before })
        }
        _ => Ok(()),
    }
}

/// The map from labels to classes that the options ask for.
fn class_map(options: &Options, chosen: &[Recording], alignments: &Alignments) -> Result<ClassMap, PrepareError> {
    let labelled = || chosen.iter().filter_map(|recording| alignments.by_id.get(&recording.id));
    let runs = || labelled().flat_map(|alignment| alignment.runs().iter().copied());
    match &options.classes {
        Classes::FromLabels => {
            Ok(ClassMap::identity(1 + runs().map(|(label, _)| usize::from(label)).max().unwrap_or(0)))
        }
        Classes::Frequent(least) => Ok(ClassMap::frequent(runs(), *least)),
        Classes::Map(map) => Ok(map.clone()),
        Classes::Count(classes) => {
            if !(1..=65_536).contains(classes) {
                return Err(PrepareError::Classes(*classes));
            }
            Ok(ClassMap::identity(*classes))
        }
    }
}

fn description(options: &Options, map: &ClassMap, by: Option<&Identity>, repeats: bool) -> Description {
    let by = by.map(|by| format!(", by {} ({})", by.program, by.identity.get(..12).unwrap_or(&by.identity)));
    Description {
        name: options.name.clone(),
        inputs: options.treatment.inputs(),
        classes: map.classes(),
        sample_rate: super::audio::RATE,
        features: format!("{}, {}", mfcc::DESCRIPTION, options.treatment.describe()),
        treatment: options.treatment,
        unit_column: options.units.as_ref().map(|units| units.column.clone()),
        labels: map.describe() + &by.unwrap_or_default(),
        preparation: separation::record(options, repeats),
        created: options.created.clone(),
    }
}

/// Where an utterance goes: to test if its hash, as a number between 0 and 1, is below the share.
fn split(id: &str, hold_out: f64) -> Split {
    use sha2::{Digest, Sha256};
    let digest = Sha256::new().chain_update("undertone hold-out\0").chain_update(id).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    // 53 bits, so that the number is exact and below 1.
    let at = (u64::from_be_bytes(first) >> 11) as f64 / (1_u64 << 53) as f64;
    if at < hold_out { Split::Test } else { Split::Train }
}

#[cfg(test)]
mod tests;
