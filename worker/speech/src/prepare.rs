//! Converts a folder of recordings and a file of labels to a dataset.
//!
//! The folder has LibriSpeech style, `[<subset>/]<speaker>/<chapter>/<id>.flac|wav`. It may contain transcripts, which
//! are read only to make labels from them. Unusable recordings are omitted and listed in a [`PrepareReport`], which stays at
//! the site inside the dataset's folder. The output is either a complete dataset or nothing. No step is random, so the
//! same input gives the same digest.
//!
//! A job can protect a unit only if the rows of all other units are the same with and without it. So the result for a
//! recording depends on that recording, its labels, its user and the options alone. `separation` lists the options that
//! compute over more than one recording: for private data they are rejected, or the dataset no longer claims the units
//! that they mix. A rejected preparation leaves no files and reports its reason on this terminal only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use undertone_api::dataset::Visibility;

use super::align::aligner::{AlignerError, AlignerIdentity};
use super::align::alignment::AlignmentSet;
use super::align::journal::JournalError;
use super::align::phones::PhoneMap;
use super::align::pocketsphinx::PocketSphinx;
use super::align::{self, AlignError, LabelFile, LabelOptions};
use super::audio::LONGEST;
use super::dataset::{Dataset, DatasetError, Description, Meta, Split, Writer, read_meta};
use super::decode::CharacterSet;
use super::features::Treatment;
use super::mfcc;
use undertone_worker_site::lineage::{LineageError, LineageIntake, LineageMarker};
use undertone_worker_site::progress::ProgressReporter;

mod classes;
mod forced;
mod report;
mod rows;
mod scan;
mod separation;
pub mod spell;
mod transcripts;
mod units;
mod work;

pub use classes::{ClassMap, ClassMapError};
pub use report::{AlignerRecord, PrepareReport, RecordingProblem};
pub use scan::{ScanError, SpeakerChoice, UtteranceChoice};
pub use transcripts::read_transcript;
pub use units::{UnitTable, UnitsError};

use forced::ForcedLabels;
use rows::RowBuffer;
use scan::{RecordingSelection, ScannedRecording};
use spell::CHARACTERS_FILE;
use units::UserTable;
use work::{FeatureRow, RowOutcome, RowSettings};

/// The file of a dataset that contains its [`ClassMap`].
pub const CLASSES_FILE: &str = "classes.json";
/// The file of a dataset that contains its [`PhoneMap`].
pub const PHONES_FILE: &str = "phones.json";

/// The inputs and options of a preparation.
#[derive(Debug, Clone, PartialEq)]
pub struct PrepareOptions {
    /// The folder of recordings.
    pub input: PathBuf,
    /// The file of labels, see [`align`]; with an `aligner`, its [`LabelJournal`](align::journal::LabelJournal).
    pub alignments: PathBuf,
    /// The aligner that makes labels from the transcripts next to the recordings; `None` if labels exist.
    pub aligner: Option<PocketSphinx>,
    /// Options for reading the labels.
    pub reading: LabelOptions,
    /// The folder of the dataset.
    pub output: PathBuf,
    /// True to replace an existing dataset. The lineage, and with it the budget, continues.
    pub replace: bool,
    /// The name of the dataset.
    pub name: String,
    /// The visibility of the data. For public data, options may compute over several units.
    pub visibility: Visibility,
    /// The subsets to use; all if empty.
    pub subsets: Vec<String>,
    /// The speakers to use.
    pub speakers: SpeakerChoice,
    /// The utterances of each speaker to use.
    pub take: UtteranceChoice,
    /// The fraction of the utterances to hold out for tests, 0 to 1. Whole utterances are selected by a hash of the id,
    /// so added recordings never move an utterance from test to training.
    pub hold_out: f64,
    /// The table of users, if users are a unit of this dataset.
    pub units: Option<UnitTable>,
    /// The mapping from labels to classes.
    pub classes: ClassOption,
    /// The feature treatment.
    pub treatment: Treatment,
    /// The allowed difference between labels and features, in frames.
    pub tolerance: usize,
    /// Maximum length of a recording, seconds.
    pub longest: f64,
    /// The current time, RFC 3339 in UTC.
    pub created: String,
    /// Number of decoding threads, at least 1.
    pub threads: usize,
    /// An earlier step that made a recording of the folder depend on other recordings of its speaker, as cutting a
    /// longer recording does. Single recordings are then no unit of the dataset.
    pub across_records: Option<&'static str>,
}

impl PrepareOptions {
    /// Returns the default options: private data, all speakers, all utterances, nothing held out, classes from the
    /// labels (which private data must declare), and each utterance's mean subtracted.
    pub fn new(input: &Path, alignments: &Path, output: &Path, name: &str) -> Self {
        Self {
            input: input.to_path_buf(),
            alignments: alignments.to_path_buf(),
            aligner: None,
            reading: LabelOptions::default(),
            output: output.to_path_buf(),
            replace: false,
            name: name.to_owned(),
            visibility: Visibility::Private,
            subsets: Vec::new(),
            speakers: SpeakerChoice::All,
            take: UtteranceChoice::All,
            hold_out: 0.0,
            units: None,
            classes: ClassOption::FromLabels,
            treatment: Treatment::default(),
            tolerance: align::TOLERANCE,
            longest: LONGEST,
            created: String::new(),
            threads: 1,
            across_records: None,
        }
    }
}

/// The mapping from labels to classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassOption {
    /// The number of classes of the aligner or the map of phones. Without either, the number is derived from the
    /// largest label of the chosen utterances, which is disclosed for public data only.
    FromLabels,
    /// This number of classes; an utterance with a label that is not below it is omitted.
    Count(usize),
    /// Labels with at least this number of frames among the chosen utterances have their own class; the others share
    /// one. The map discloses the frequent labels: create it from public data and distribute it.
    Frequent(u64),
    /// A map from an earlier preparation.
    Map(ClassMap),
    /// The classes of these characters and the blank of CTC; an utterance with another label is omitted. The characters
    /// become a file of the dataset.
    Characters(CharacterSet),
}

/// Reasons why no dataset was prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The folder of recordings, or the selection from it, is invalid.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The file of labels is invalid.
    #[error(transparent)]
    Align(#[from] AlignError),
    /// The aligner failed.
    #[error(transparent)]
    Aligner(AlignerError),
    /// The journal of the aligner cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The table of units is invalid.
    #[error(transparent)]
    Units(#[from] UnitsError),
    /// The users of the new version would differ from those of the dataset.
    #[error(
        "dataset `{name}` protects users by {before:?}, and what was spent on it was spent for these: keep --unit-column \
         {before}"
    )]
    UnitColumn {
        /// The dataset.
        name: String,
        /// Its column of users.
        before: String,
    },
    /// The output cannot be written.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The data are charged to the accounts of another dataset.
    #[error(transparent)]
    Lineage(Box<LineageError>),
    /// The fraction is outside 0 to 1.
    #[error("--hold-out {0}: a share between 0 and 1")]
    HoldOut(f64),
    /// The number of classes is invalid.
    #[error("--classes {0}: between 1 and 65536")]
    Classes(usize),
    /// The option computes over several units of data that are not public.
    #[error(
        "{option} computes over all recordings, so that one of them would decide what becomes of others: of private data \
         {remedy}. It is for public data (--visibility public)"
    )]
    PublicOnly {
        /// The option.
        option: &'static str,
        /// The alternative.
        remedy: &'static str,
    },
    /// The number of classes is missing for data that are not public.
    #[error(
        "--classes is missing: the number of classes is told when a dataset is registered, so that of private data it may not \
         be counted in the labels. Say --classes N, the same number as all participants, or give a map of public data \
         (--class-map, --phone-map). With --visibility public it is counted"
    )]
    Undeclared,
    /// Recordings exist, but none can be used.
    #[error("none of the {found} recordings chosen in {input} can be used; nothing was written ({first}; {summary}{})", hint.as_ref().map(|id| format!("; the labels are of utterances such as {id}")).unwrap_or_default())]
    Nothing {
        /// The folder.
        input: PathBuf,
        /// Number of chosen recordings.
        found: usize,
        /// The first problem, with its recording.
        first: String,
        /// The number of problems of each kind.
        summary: String,
        /// An utterance that has labels, if no recording has labels.
        hint: Option<String>,
    },
}

/// Prepares a dataset and returns the report.
///
/// # Errors
/// [`PrepareError`]; nothing is then left at the output.
pub fn prepare(options: &PrepareOptions, progress: &dyn ProgressReporter) -> Result<PrepareReport, PrepareError> {
    prepare_in_lineage(options, None, progress)
}

/// Prepares a dataset of a site, as [`prepare`] does: its lineage is decided before the dataset is published.
///
/// # Errors
/// The errors of [`prepare`]; [`PrepareError::Lineage`] if the data are charged to other accounts.
pub fn prepare_in_lineage(
    options: &PrepareOptions,
    mut intake: Option<&mut LineageIntake>,
    progress: &dyn ProgressReporter,
) -> Result<PrepareReport, PrepareError> {
    if !(0.0..=1.0).contains(&options.hold_out) {
        return Err(PrepareError::HoldOut(options.hold_out));
    }
    if !options.replace && options.output.symlink_metadata().is_ok() {
        return Err(DatasetError::Exists(options.output.clone()).into());
    }
    separation::check(options)?;
    check_column(options)?;
    let units =
        options.units.as_ref().map(|table| Ok::<_, UnitsError>((table, UserTable::read(table)?))).transpose()?;
    let users = units.as_ref().map(|(_, units)| units);
    let read = match options.aligner {
        Some(_) => None,
        None => Some(align::read(&options.alignments, &options.reading)?),
    };
    let content = scan::scan(&options.input)?;
    let choice = scan::choose(&content.recordings, options, users)?;
    let mut report = PrepareReport::new(options, &content, &choice);
    let RecordingSelection { recordings: mut chosen, repeated } = choice;
    if let Some((table, units)) = &units {
        units.cover(table, chosen.iter().map(|recording| recording.id.as_str()))?;
    }
    let PreparedLabels { alignments, phones, by } = match (read, &options.aligner) {
        (Some(LabelFile { alignments, phones }), _) => PreparedLabels { alignments, phones, by: None },
        (None, Some(aligner)) => make(aligner, options, &mut chosen, &mut report, progress)?,
        (None, None) => PreparedLabels::default(),
    };
    let ids: BTreeSet<&str> = content.recordings.iter().map(|recording| recording.id.as_str()).collect();
    report.labelled(&alignments, ids.into_iter());
    let map = match (&phones, &by) {
        // All classes of the map or the aligner, whether or not they occur here, so that other datasets made with it
        // agree.
        (Some(phones), _) if options.classes == ClassOption::FromLabels => ClassMap::identity(phones.classes()),
        (_, Some(by)) if options.classes == ClassOption::FromLabels => ClassMap::identity(by.classes),
        _ => class_map(options, &chosen, &alignments)?,
    };

    let start = if options.replace { Writer::replace } else { Writer::create };
    let mut writer = start(&options.output, description(options, &map, by.as_ref(), !repeated.is_empty()))?;
    let settings = RowSettings { options, alignments: &alignments, map: &map };
    progress.start("Computing features", chosen.len() as u64);
    let mut write = |recording: &ScannedRecording, ready: &FeatureRow| {
        let split = split(&recording.id, options.hold_out);
        let user = users.and_then(|users| users.user(&recording.id));
        if let Some(intake) = intake.as_deref_mut() {
            intake.add_recording(&ready.source.file, &ready.source.audio);
            std::iter::once(recording.speaker.as_str()).chain(user).for_each(|person| intake.add_person(person));
        }
        writer.push_of(&recording.id, (&recording.speaker, user), split, &ready.features, &ready.labels)
    };
    let mut rows = RowBuffer::new(options.treatment, users);
    work::each(&settings, &chosen, progress, |recording, outcome| match outcome {
        RowOutcome::Kept(ready) => {
            report.keep(&ready);
            rows.take(recording, ready, &mut write)
        }
        RowOutcome::Left(problem) => {
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
    if options.classes != ClassOption::FromLabels {
        writer.attach(CLASSES_FILE, &map)?;
    }
    if let Some(phones) = &phones {
        writer.attach(PHONES_FILE, phones)?;
    }
    if let ClassOption::Characters(characters) = &options.classes {
        writer.attach(CHARACTERS_FILE, characters)?;
    }
    writer.finish(|meta| {
        report.complete(meta);
        report.to_json()
    })?;
    // Reads the written dataset back once from the disk.
    Dataset::open(&options.output)?;
    Ok(report)
}

/// Labels from either source.
#[derive(Default)]
struct PreparedLabels {
    alignments: AlignmentSet,
    phones: Option<PhoneMap>,
    by: Option<AlignerIdentity>,
}

/// Aligns the chosen recordings and removes those without labels from the selection.
fn make(
    aligner: &PocketSphinx,
    options: &PrepareOptions,
    chosen: &mut Vec<ScannedRecording>,
    report: &mut PrepareReport,
    progress: &dyn ProgressReporter,
) -> Result<PreparedLabels, PrepareError> {
    let ForcedLabels { alignments, problems, by, resumed } = forced::align(aligner, options, chosen, progress)?;
    chosen.retain(|recording| alignments.by_id.contains_key(&recording.id));
    for problem in problems {
        report.leave(problem);
    }
    let (program, identity) = (by.program.clone(), by.identity.clone());
    report.aligner = Some(AlignerRecord { program, identity, resumed, labels: options.alignments.clone() });
    Ok(PreparedLabels { alignments, phones: None, by: Some(by) })
}

/// Checks that a replacement keeps the column of users.
fn check_column(options: &PrepareOptions) -> Result<(), PrepareError> {
    let Some(UnitTable { column, .. }) = options.units.as_ref().filter(|_| options.replace) else { return Ok(()) };
    match read_meta(&options.output) {
        Ok(Meta { unit_column: Some(before), name, .. }) if before != *column => {
            Err(PrepareError::UnitColumn { name, before })
        }
        _ => Ok(()),
    }
}

/// Returns the class map for the options.
fn class_map(
    options: &PrepareOptions,
    chosen: &[ScannedRecording],
    alignments: &AlignmentSet,
) -> Result<ClassMap, PrepareError> {
    let labelled = || chosen.iter().filter_map(|recording| alignments.by_id.get(&recording.id));
    let runs = || labelled().flat_map(|alignment| alignment.runs().iter().copied());
    match &options.classes {
        ClassOption::FromLabels => {
            Ok(ClassMap::identity(1 + runs().map(|(label, _)| usize::from(label)).max().unwrap_or(0)))
        }
        ClassOption::Frequent(least) => Ok(ClassMap::frequent(runs(), *least)),
        ClassOption::Map(map) => Ok(map.clone()),
        ClassOption::Characters(characters) => Ok(ClassMap::identity(characters.classes())),
        ClassOption::Count(classes) => {
            if !(1..=65_536).contains(classes) {
                return Err(PrepareError::Classes(*classes));
            }
            Ok(ClassMap::identity(*classes))
        }
    }
}

fn description(options: &PrepareOptions, map: &ClassMap, by: Option<&AlignerIdentity>, repeats: bool) -> Description {
    let by = by.map(|by| format!(", by {} ({})", by.program, by.identity.get(..12).unwrap_or(&by.identity)));
    Description {
        name: options.name.clone(),
        inputs: options.treatment.inputs(),
        classes: map.classes(),
        sample_rate: super::audio::resample::RATE,
        features: format!("{}, {}", mfcc::DESCRIPTION, options.treatment.describe()),
        treatment: options.treatment,
        unit_column: options.units.as_ref().map(|units| units.column.clone()),
        labels: map.describe() + &by.unwrap_or_default(),
        preparation: separation::record(options, repeats),
        created: options.created.clone(),
    }
}

/// Returns the split of an utterance: test if its hash, as a number between 0 and 1, is below the fraction.
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
