//! `data prepare`: creates a dataset of this site from recordings and labels, or from query logs (see
//! [`super::query_log`]).

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use undertone_api::dataset::Visibility;

use super::query_log::{self, QueryLogArguments};
use super::{DataError, TerminalProgress, count_threads, key_notice, open_intake};
use crate::site::folder::Folder;
use crate::site::lineage::LineageIntake;
use crate::site::policy::declare;
use crate::speech::align::pocketsphinx::PocketSphinx;
use crate::speech::align::{self, LabelOptions, PhoneMap, PhoneTying};
use crate::speech::audio;
use crate::speech::decode::CharacterSet;
use crate::speech::features::{Deltas, Normalization, Treatment};
use crate::speech::prepare::{self, ClassMap, ClassOption, PrepareOptions, SpeakerChoice, UnitTable, UtteranceChoice};

/// Create a dataset of this site from recordings with labels, or from query logs.
#[derive(Debug, Args)]
pub(super) struct PrepareCommand {
    /// Folder of recordings: <subset>/<speaker>/<chapter>/<id>.flac or .wav. For query logs see --queries.
    #[arg(long, value_name = "FOLDER", required_unless_present = "queries")]
    input: Option<PathBuf>,
    /// Labels, one line an utterance: {"u": id, "frames": N, "runs": [[class, frames], ...]}; or the text output of Kaldi's
    /// `ali-to-pdf`; or phones with times, as a CTM file or a folder of TextGrids (Montreal Forced Aligner).
    ///
    /// With --align: the file that stores new labels in this form, and from which a repeated command reads them; by default
    /// `<dataset>.alignments.jsonl` beside the dataset's folder.
    #[arg(long, value_name = "FILE|FOLDER", required_unless_present_any = ["align", "queries"])]
    alignments: Option<PathBuf>,
    /// Create the labels by forced alignment of the transcripts beside the recordings (`*.trans.txt`, a line `ID TEXT` for
    /// each utterance). After an interruption, repeat the command to continue.
    #[arg(long, value_enum, conflicts_with_all = ["label_step", "phone_frames", "phone_map"])]
    align: Option<LabelAligner>,
    /// For --align: a Python interpreter with the package `pocketsphinx`.
    #[arg(long, value_name = "PYTHON", env = "UNDERTONE_ALIGNER", default_value = "python3")]
    aligner_command: PathBuf,
    /// For --align: another acoustic model than PocketSphinx's own for US English. All participants of a job need the same model.
    #[arg(long, value_name = "FOLDER", requires = "align")]
    model: Option<PathBuf>,
    /// For --align: another pronouncing dictionary, in the model's phones; for example PocketSphinx's own with added words.
    #[arg(long, value_name = "FILE", requires = "align")]
    dictionary: Option<PathBuf>,
    /// For --align: the time limit for an utterance, at least its own length. Slower utterances are left out.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    align_seconds: u32,
    /// The number of 10 ms frames for each number of a Kaldi archive: 3 for a model with frame subsampling.
    #[arg(long, value_name = "FRAMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    label_step: u32,
    /// For phones: the least number of frames for a separate class of a phone's state in context. Writes the map as
    /// phones.json. Counts frames over all recordings: for public data only.
    #[arg(long, value_name = "FRAMES", conflicts_with = "phone_map")]
    phone_frames: Option<u64>,
    /// For phones: use the phones.json of another dataset.
    #[arg(long, value_name = "FILE")]
    phone_map: Option<PathBuf>,
    /// Name of the dataset. Prepare new versions under the same name: they are charged to the same lifetime accounts.
    #[arg(long)]
    pub(super) name: String,
    /// The dataset of this site, or of an imported lineage, that contains some of these recordings, people or rows already: both
    /// are charged to the same lifetime accounts. Without this option such data are refused.
    #[arg(long, value_name = "DATASET")]
    pub(super) continues: Option<String>,
    /// Create the dataset in this folder instead of the site's `data/<name>`.
    #[arg(long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,
    /// Replace the existing dataset of this name.
    #[arg(long)]
    pub(super) replace: bool,
    /// The visibility: `private` (only differentially private releases), `open` (also exact gradients, for comparison) or
    /// `public`. Written to the site's policy. Options that compute over several recordings are for public data.
    #[arg(long, value_enum, default_value_t = VisibilityArgument::Private)]
    pub(super) visibility: VisibilityArgument,
    /// Only this subset; may be repeated.
    #[arg(long = "subset", value_name = "NAME")]
    subsets: Vec<String>,
    /// Only these speakers.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', conflicts_with_all = ["speakers_from", "speaker_range"])]
    speakers: Vec<String>,
    /// Only the speakers in this file, one a line.
    #[arg(long, value_name = "FILE", conflicts_with = "speaker_range")]
    speakers_from: Option<PathBuf>,
    /// Only the speakers at these positions of the sorted list, from 0, end excluded: 0..20. For public data only: the
    /// position of a speaker depends on the other speakers.
    #[arg(long, value_name = "FROM..TO", value_parser = parse_range)]
    speaker_range: Option<Range<usize>>,
    /// Only the first N utterances of each speaker (with --units: of each speaker and user). The choice depends on the
    /// speaker's other recordings: jobs that protect single recordings are then refused.
    #[arg(long, value_name = "N", conflicts_with_all = ["skip", "utterances", "utterances_from"])]
    first: Option<usize>,
    /// All but the first N utterances of each speaker, with the same consequence as --first.
    #[arg(long, value_name = "N", conflicts_with_all = ["utterances", "utterances_from"])]
    skip: Option<usize>,
    /// Only these utterances, by id.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', conflicts_with = "utterances_from")]
    utterances: Vec<String>,
    /// Only the utterances in this file, an id a line.
    #[arg(long, value_name = "FILE")]
    utterances_from: Option<PathBuf>,
    /// The user of each utterance, for jobs that protect users: a table (CSV; TSV by its file extension) with a header,
    /// utterance ids in its first column, and a row for every utterance.
    #[arg(long, value_name = "FILE", requires = "unit_column")]
    units: Option<PathBuf>,
    /// The column of --units with the user: a patient, a caller, a session.
    #[arg(long, value_name = "NAME", requires = "units")]
    unit_column: Option<String>,
    /// Share of the utterances to hold out for tests, 0 to 1; 1 creates a dataset for tests only. For query logs: share of the
    /// users, or of the different queries without --user-column.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(super) hold_out: f64,
    /// Number of classes; all participants of a job need the same number. An utterance with a label not below it is left out.
    ///
    /// The worker registers this number at the server, so private data must declare it: here, or by --class-map, --phone-map,
    /// --characters or --align. For public data the default is the largest label plus one.
    #[arg(long, value_name = "N", conflicts_with_all = ["least_frames", "class_map"])]
    classes: Option<usize>,
    /// Let labels with fewer frames share one class, and write the map as classes.json. Counts frames over all recordings:
    /// for public data only.
    #[arg(long, value_name = "FRAMES", conflicts_with = "class_map")]
    least_frames: Option<u64>,
    /// Use the classes.json of another dataset.
    #[arg(long, value_name = "FILE")]
    class_map: Option<PathBuf>,
    /// For labels of `data spell`: its characters.json, which becomes a file of the dataset. The classes are the characters
    /// and the blank; reports of jobs with this public test set then have word error rates.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["classes", "least_frames", "class_map", "align", "phone_frames", "phone_map"]
    )]
    characters: Option<PathBuf>,
    /// The mean to subtract from the features: of each `utterance`, of each `speaker` (with --units: of each speaker and user),
    /// or `none`. With `speaker`, the features of a recording depend on the speaker's other recordings: jobs that protect
    /// single recordings are then refused.
    #[arg(long, value_enum, default_value_t = SubtractedMean::Utterance)]
    normalize: SubtractedMean,
    /// Derivatives over time in addition to the 13 coefficients: 0 for none, 1 for deltas (26 numbers a frame), 2 for deltas
    /// and delta-deltas (39). All participants of a job need the same value.
    #[arg(long, value_name = "ORDERS", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    deltas: u8,
    /// The largest accepted difference between labels and features, in frames.
    #[arg(long, value_name = "FRAMES", default_value_t = align::TOLERANCE)]
    tolerance: usize,
    /// The longest accepted recording, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = audio::LONGEST)]
    longest: f64,
    #[command(flatten)]
    pub(super) log: QueryLogArguments,
}

/// The visibility of a dataset, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum VisibilityArgument {
    Private,
    Open,
    Public,
}

impl From<VisibilityArgument> for Visibility {
    fn from(argument: VisibilityArgument) -> Self {
        match argument {
            VisibilityArgument::Private => Self::Private,
            VisibilityArgument::Open => Self::Open,
            VisibilityArgument::Public => Self::Public,
        }
    }
}

/// The program that creates labels, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LabelAligner {
    #[value(name = "pocketsphinx")]
    PocketSphinx,
}

/// The mean to subtract, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SubtractedMean {
    None,
    Utterance,
    Speaker,
}

impl From<SubtractedMean> for Normalization {
    fn from(mean: SubtractedMean) -> Self {
        match mean {
            SubtractedMean::None => Self::None,
            SubtractedMean::Utterance => Self::Utterance,
            SubtractedMean::Speaker => Self::Speaker,
        }
    }
}

impl PrepareCommand {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        if self.output.is_some() && self.visibility == VisibilityArgument::Open {
            let reason = "`open` requires a dataset of this site: omit --output".to_owned();
            return Err(DataError::Argument { argument: "--visibility", reason });
        }
        let (report, output, notice) = match &self.input {
            Some(input) => {
                let options = self.build_options(input, folder, now)?;
                let mut intake = self.open_intake(folder, now)?;
                let report = prepare::prepare_in_lineage(&options, intake.as_mut(), &TerminalProgress::default())?;
                (report.to_string(), options.output, key_notice(intake.as_ref()))
            }
            // Clap requires --queries where --input is missing.
            None => query_log::prepare(self, folder, now)?,
        };
        // For a dataset made elsewhere, the policy of its site declares the visibility.
        if self.visibility != VisibilityArgument::Private && self.output.is_none() {
            declare(&folder.policy(), &self.name, self.visibility.into())?;
        }
        writeln!(out, "{report}\nFolder           {}{notice}", output.display()).map_err(DataError::Print)
    }

    /// Opens the intake of the dataset's lineage.
    pub(super) fn open_intake(&self, folder: &Folder, now: OffsetDateTime) -> Result<Option<LineageIntake>, DataError> {
        let is_elsewhere = self.output.is_some();
        open_intake(folder, &self.name, self.visibility.into(), self.continues.as_deref(), is_elsewhere, now)
    }

    /// Returns the future path of the dataset.
    pub(super) fn dataset_folder(&self, folder: &Folder) -> Result<PathBuf, DataError> {
        // The name is checked with --output too: it is the folder's name at any later site.
        let in_site = folder.dataset(&self.name)?;
        Ok(self.output.clone().unwrap_or(in_site))
    }

    fn build_options(&self, input: &Path, folder: &Folder, now: OffsetDateTime) -> Result<PrepareOptions, DataError> {
        let output = self.dataset_folder(folder)?;
        // Clap requires --alignments where --align is missing.
        let alignments = self.alignments.clone().unwrap_or_else(|| {
            let mut sibling = output.as_os_str().to_owned();
            sibling.push(".alignments.jsonl");
            sibling.into()
        });
        let argument = |argument, reason: &str| DataError::Argument { argument, reason: reason.to_owned() };
        if !(self.longest > 0.0 && self.longest <= 86_400.0) {
            return Err(argument("--longest", "must be above 0 and at most 86400 seconds"));
        }
        Ok(PrepareOptions {
            reading: LabelOptions {
                step: self.label_step,
                phones: match (self.phone_frames, &self.phone_map) {
                    (Some(least), _) => Some(PhoneTying::Least(least)),
                    (None, Some(path)) => {
                        Some(PhoneTying::Map(PhoneMap::read(path).map_err(|reason| argument("--phone-map", &reason))?))
                    }
                    (None, None) => None,
                },
            },
            aligner: self.align.map(|LabelAligner::PocketSphinx| PocketSphinx {
                command: self.aligner_command.clone(),
                model: self.model.clone(),
                dictionary: self.dictionary.clone(),
                seconds: self.align_seconds,
            }),
            units: self.units.clone().zip(self.unit_column.clone()).map(|(path, column)| UnitTable { path, column }),
            replace: self.replace,
            visibility: self.visibility.into(),
            subsets: self.subsets.clone(),
            speakers: self.speaker_choice()?,
            take: match (self.first, self.skip) {
                (Some(count), _) => UtteranceChoice::First(count),
                (_, Some(count)) => UtteranceChoice::Skip(count),
                _ => self.utterance_choice()?,
            },
            hold_out: self.hold_out,
            classes: self.class_option()?,
            treatment: Treatment {
                normalization: self.normalize.into(),
                deltas: match self.deltas {
                    0 => Deltas::None,
                    1 => Deltas::First,
                    _ => Deltas::Second,
                },
            },
            tolerance: self.tolerance,
            longest: self.longest,
            created: format_date(now)?,
            threads: count_threads(),
            ..PrepareOptions::new(input, &alignments, &output, &self.name)
        })
    }

    fn class_option(&self) -> Result<ClassOption, DataError> {
        if let Some(path) = &self.characters {
            let characters = CharacterSet::read(path);
            let argument = "--characters";
            return characters
                .map(ClassOption::Characters)
                .map_err(|error| DataError::Argument { argument, reason: error.to_string() });
        }
        Ok(match (self.classes, self.least_frames, &self.class_map) {
            (Some(count), ..) => ClassOption::Count(count),
            (_, Some(least), _) => ClassOption::Frequent(least),
            (.., Some(path)) => ClassOption::Map(ClassMap::read(path)?),
            _ => ClassOption::FromLabels,
        })
    }

    fn speaker_choice(&self) -> Result<SpeakerChoice, DataError> {
        match (&self.speakers_from, &self.speaker_range) {
            (Some(path), _) => Ok(SpeakerChoice::Named(read_names("--speakers-from", path)?)),
            (_, Some(range)) => Ok(SpeakerChoice::Range(range.clone())),
            _ if !self.speakers.is_empty() => Ok(SpeakerChoice::Named(trim_names("--speakers", &self.speakers)?)),
            _ => Ok(SpeakerChoice::All),
        }
    }

    fn utterance_choice(&self) -> Result<UtteranceChoice, DataError> {
        let ids = match &self.utterances_from {
            Some(path) => read_names("--utterances-from", path)?,
            None if !self.utterances.is_empty() => trim_names("--utterances", &self.utterances)?,
            None => return Ok(UtteranceChoice::All),
        };
        Ok(UtteranceChoice::Named(ids.into_iter().collect()))
    }
}

/// Returns the names in a file, one per line.
fn read_names(argument: &'static str, path: &Path) -> Result<Vec<String>, DataError> {
    let io = |source| DataError::File { argument, path: path.to_path_buf(), source };
    let text = std::fs::read_to_string(path).map_err(io)?;
    trim_names(argument, &text.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// Returns the names without surrounding blanks; at least one is required.
fn trim_names(argument: &'static str, texts: &[String]) -> Result<Vec<String>, DataError> {
    let names: Vec<String> = texts.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    let empty = || DataError::Argument { argument, reason: "contains no name".to_owned() };
    if names.is_empty() { Err(empty()) } else { Ok(names) }
}

/// Returns the date of a dataset: RFC 3339 in UTC, to the second.
pub(super) fn format_date(now: OffsetDateTime) -> Result<String, DataError> {
    let date = now.to_offset(time::UtcOffset::UTC).replace_nanosecond(0).unwrap_or(now).format(&Rfc3339);
    let reason = "shows a year that has no RFC 3339 form".to_owned();
    date.map_err(|_| DataError::Argument { argument: "the clock", reason })
}

/// Parses `FROM..TO`.
fn parse_range(text: &str) -> Result<Range<usize>, String> {
    let parse = |text: &str| text.trim().parse::<usize>().ok();
    let ends = text.split_once("..").and_then(|(from, to)| Some(parse(from)?..parse(to)?));
    ends.filter(|range| !range.is_empty())
        .ok_or_else(|| format!("{text:?} is not FROM..TO, such as 0..20 for the first twenty"))
}
