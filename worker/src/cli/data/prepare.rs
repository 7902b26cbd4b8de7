//! `data prepare`: makes a dataset of this site from recordings and labels, or from query logs (see
//! [`super::query_log`]).

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use undertone_api::dataset::Visibility;

use super::query_log::{self, QueryLog};
use super::{Bar, DataError, key_note, open_intake, threads};
use crate::site::folder::Folder;
use crate::site::lineage::LineageIntake;
use crate::site::policy::declare;
use crate::speech::align::pocketsphinx::PocketSphinx;
use crate::speech::align::{self, LabelOptions, PhoneMap, PhoneTying};
use crate::speech::audio;
use crate::speech::features::{Deltas, Normalization, Treatment};
use crate::speech::prepare::{self, ClassMap, ClassOption, PrepareOptions, SpeakerChoice, UnitTable, UtteranceChoice};

/// Turn a folder of recordings and their labels, or query logs, into a dataset of this site.
#[derive(Debug, Args)]
pub(super) struct Prepare {
    /// Folder of recordings: <subset>/<speaker>/<chapter>/<id>.flac or .wav. For query logs see --queries.
    #[arg(long, value_name = "FOLDER", required_unless_present = "queries")]
    input: Option<PathBuf>,
    /// Labels, one line an utterance: {"u": id, "frames": N, "runs": [[class, frames], ...]}; or Kaldi's `ali-to-pdf` as
    /// text; or phones in time, as a CTM file or a folder of TextGrids (Montreal Forced Aligner).
    ///
    /// With --align: the file of such lines that labels are kept in as they are made, and taken from when the command is
    /// run again; unless named, `<dataset>.alignments.jsonl` beside the dataset's folder.
    #[arg(long, value_name = "FILE|FOLDER", required_unless_present_any = ["align", "queries"])]
    alignments: Option<PathBuf>,
    /// Make the labels, by forced alignment of the transcripts that lie beside the recordings (`*.trans.txt`, a line
    /// `ID TEXT` for each). Interrupted, it goes on where it stopped.
    #[arg(long, value_enum, conflicts_with_all = ["label_step", "phone_frames", "phone_map"])]
    align: Option<With>,
    /// For --align: a Python that has the package `pocketsphinx`.
    #[arg(long, value_name = "PYTHON", env = "UNDERTONE_ALIGNER", default_value = "python3")]
    aligner_command: PathBuf,
    /// For --align: another acoustic model than PocketSphinx's own for US English. All participants of a job need the same.
    #[arg(long, value_name = "FOLDER", requires = "align")]
    model: Option<PathBuf>,
    /// For --align: another pronouncing dictionary, in the model's phones: PocketSphinx's own with words added, say.
    #[arg(long, value_name = "FILE", requires = "align")]
    dictionary: Option<PathBuf>,
    /// For --align: seconds that an utterance may take; its own length if that is more. Then it is left out.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    align_seconds: u32,
    /// Frames of 10 ms that one number of a Kaldi archive stands for: 3 for a model with frame subsampling.
    #[arg(long, value_name = "FRAMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    label_step: u32,
    /// For phones: a phone's state in its context has a class of its own if it has so many frames here. Writes the map as
    /// phones.json. Counts frames over all recordings: of public data only.
    #[arg(long, value_name = "FRAMES", conflicts_with = "phone_map")]
    phone_frames: Option<u64>,
    /// For phones: use the phones.json of another dataset.
    #[arg(long, value_name = "FILE")]
    phone_map: Option<PathBuf>,
    /// Name of the dataset. Prepare new versions under the same one: they are charged to the same accounts for life.
    #[arg(long)]
    pub(super) name: String,
    /// The dataset of this site, or of an imported lineage, that has some of these recordings, people or rows already: both are charged
    /// to the same accounts for life. Without it such data are refused.
    #[arg(long, value_name = "DATASET")]
    pub(super) continues: Option<String>,
    /// Another folder to make than the site's `data/<name>`.
    #[arg(long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,
    /// Put the new dataset in the place of one that is there.
    #[arg(long)]
    pub(super) replace: bool,
    /// Who may learn what: `private` (differentially private releases only), `open` (exact gradients too, for the
    /// comparison) or `public`. Written into the site's policy. Options that compute over several recordings are for public data.
    #[arg(long, value_enum, default_value_t = Reach::Private)]
    pub(super) visibility: Reach,
    /// Only this subset; may be repeated.
    #[arg(long = "subset", value_name = "NAME")]
    subsets: Vec<String>,
    /// Only these speakers.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', conflicts_with_all = ["speakers_from", "speaker_range"])]
    speakers: Vec<String>,
    /// Only the speakers in this file, one a line.
    #[arg(long, value_name = "FILE", conflicts_with = "speaker_range")]
    speakers_from: Option<PathBuf>,
    /// Only the speakers at these places of the sorted list, from 0, end excluded: 0..20. Of public data only: where a speaker
    /// stands depends on the others.
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    speaker_range: Option<Range<usize>>,
    /// Only the first N utterances of each speaker (with --units: that a speaker said for each user). Which they are depends on
    /// the speaker's other recordings: jobs that protect single recordings are then refused.
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
    /// Whose each utterance is, for jobs that protect users: a table (CSV; TSV if its name ends so) with a header, utterance
    /// ids in its first column, and a row for every utterance.
    #[arg(long, value_name = "FILE", requires = "unit_column")]
    units: Option<PathBuf>,
    /// The column of --units that counts: a patient, a caller, a session.
    #[arg(long, value_name = "NAME", requires = "units")]
    unit_column: Option<String>,
    /// Share of the utterances to hold out for tests, 0 to 1; 1 makes a dataset for tests only. Of query logs: of the users,
    /// or of the different queries where there is no --user-column.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(super) hold_out: f64,
    /// Number of classes; all participants of a job need the same. An utterance with a label that is not below is left out.
    ///
    /// It is told when the dataset is registered. So private data declare it, here or by --class-map, --phone-map or --align;
    /// of public data it is otherwise one more than the largest label.
    #[arg(long, value_name = "N", conflicts_with_all = ["least_frames", "class_map"])]
    classes: Option<usize>,
    /// Let labels with fewer frames share one class, and write the map as classes.json. Counts frames over all recordings: of
    /// public data only.
    #[arg(long, value_name = "FRAMES", conflicts_with = "class_map")]
    least_frames: Option<u64>,
    /// Use the classes.json of another dataset.
    #[arg(long, value_name = "FILE")]
    class_map: Option<PathBuf>,
    /// The mean to subtract from the features: of each `utterance`, of all that a `speaker` said (with --units: said for one
    /// user), or `none`. By speaker, a recording's features depend on the speaker's other recordings: jobs that protect single recordings are then refused.
    #[arg(long, value_enum, default_value_t = Mean::Utterance)]
    normalize: Mean,
    /// Slopes over time beside the 13 coefficients: 0 for none, 1 for deltas (26 numbers a frame), 2 for deltas and
    /// delta-deltas (39). All participants of a job need the same.
    #[arg(long, value_name = "ORDERS", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    deltas: u8,
    /// How many frames labels and features may differ by.
    #[arg(long, value_name = "FRAMES", default_value_t = align::TOLERANCE)]
    tolerance: usize,
    /// The longest recording to read, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = audio::LONGEST)]
    longest: f64,
    #[command(flatten)]
    pub(super) log: QueryLog,
}

/// Who may learn what, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Reach {
    Private,
    Open,
    Public,
}

impl From<Reach> for Visibility {
    fn from(reach: Reach) -> Self {
        match reach {
            Reach::Private => Self::Private,
            Reach::Open => Self::Open,
            Reach::Public => Self::Public,
        }
    }
}

/// What makes labels, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum With {
    #[value(name = "pocketsphinx")]
    PocketSphinx,
}

/// Which mean, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mean {
    None,
    Utterance,
    Speaker,
}

impl From<Mean> for Normalization {
    fn from(mean: Mean) -> Self {
        match mean {
            Mean::None => Self::None,
            Mean::Utterance => Self::Utterance,
            Mean::Speaker => Self::Speaker,
        }
    }
}

impl Prepare {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        if self.output.is_some() && self.visibility == Reach::Open {
            let reason = "`open` is of a dataset of the site: leave --output out".to_owned();
            return Err(DataError::Argument { argument: "--visibility", reason });
        }
        let (report, output, note) = match &self.input {
            Some(input) => {
                let options = self.options(input, folder, now)?;
                let mut intake = self.intake(folder, now)?;
                let report = prepare::prepare_in_lineage(&options, intake.as_mut(), &Bar::default())?;
                (report.to_string(), options.output, key_note(intake.as_ref()))
            }
            // Clap requires --queries where --input is missing.
            None => query_log::prepare(self, folder, now)?,
        };
        // For a dataset made elsewhere, the policy of its site declares the visibility.
        if self.visibility != Reach::Private && self.output.is_none() {
            declare(&folder.policy(), &self.name, self.visibility.into())?;
        }
        writeln!(out, "{report}\nLies in          {}{note}", output.display()).map_err(DataError::Print)
    }

    /// Opens the intake of the dataset's lineage.
    pub(super) fn intake(&self, folder: &Folder, now: OffsetDateTime) -> Result<Option<LineageIntake>, DataError> {
        let place = (self.output.is_some(), now);
        open_intake(folder, &self.name, self.visibility.into(), self.continues.as_deref(), place)
    }

    /// Returns the future path of the dataset.
    pub(super) fn place(&self, folder: &Folder) -> Result<PathBuf, DataError> {
        // The name is checked with --output too: it is the folder's name at any later site.
        let in_site = folder.dataset(&self.name)?;
        Ok(self.output.clone().unwrap_or(in_site))
    }

    fn options(&self, input: &Path, folder: &Folder, now: OffsetDateTime) -> Result<PrepareOptions, DataError> {
        let output = self.place(folder)?;
        // Clap requires --alignments where --align is missing.
        let alignments = self.alignments.clone().unwrap_or_else(|| {
            let mut beside = output.as_os_str().to_owned();
            beside.push(".alignments.jsonl");
            beside.into()
        });
        let argument = |argument, reason: &str| DataError::Argument { argument, reason: reason.to_owned() };
        if !(self.longest > 0.0 && self.longest <= 86_400.0) {
            return Err(argument("--longest", "between 0 and 86400 seconds"));
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
            aligner: self.align.map(|With::PocketSphinx| PocketSphinx {
                command: self.aligner_command.clone(),
                model: self.model.clone(),
                dictionary: self.dictionary.clone(),
                seconds: self.align_seconds,
            }),
            units: self.units.clone().zip(self.unit_column.clone()).map(|(path, column)| UnitTable { path, column }),
            replace: self.replace,
            visibility: self.visibility.into(),
            subsets: self.subsets.clone(),
            speakers: self.speakers()?,
            take: match (self.first, self.skip) {
                (Some(count), _) => UtteranceChoice::First(count),
                (_, Some(count)) => UtteranceChoice::Skip(count),
                _ => self.named_utterances()?,
            },
            hold_out: self.hold_out,
            classes: match (self.classes, self.least_frames, &self.class_map) {
                (Some(count), ..) => ClassOption::Count(count),
                (_, Some(least), _) => ClassOption::Frequent(least),
                (.., Some(path)) => ClassOption::Map(ClassMap::read(path)?),
                _ => ClassOption::FromLabels,
            },
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
            created: dated(now)?,
            threads: threads(),
            ..PrepareOptions::new(input, &alignments, &output, &self.name)
        })
    }

    fn speakers(&self) -> Result<SpeakerChoice, DataError> {
        match (&self.speakers_from, &self.speaker_range) {
            (Some(path), _) => Ok(SpeakerChoice::Named(lines("--speakers-from", path)?)),
            (_, Some(range)) => Ok(SpeakerChoice::Range(range.clone())),
            _ if !self.speakers.is_empty() => Ok(SpeakerChoice::Named(names("--speakers", &self.speakers)?)),
            _ => Ok(SpeakerChoice::All),
        }
    }

    fn named_utterances(&self) -> Result<UtteranceChoice, DataError> {
        let ids = match &self.utterances_from {
            Some(path) => lines("--utterances-from", path)?,
            None if !self.utterances.is_empty() => names("--utterances", &self.utterances)?,
            None => return Ok(UtteranceChoice::All),
        };
        Ok(UtteranceChoice::Named(ids.into_iter().collect()))
    }
}

/// Returns the names in a file, one per line.
fn lines(argument: &'static str, path: &Path) -> Result<Vec<String>, DataError> {
    let io = |source| DataError::File { argument, path: path.to_path_buf(), source };
    let text = std::fs::read_to_string(path).map_err(io)?;
    names(argument, &text.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// Returns the names without surrounding blanks; at least one is required.
fn names(argument: &'static str, texts: &[String]) -> Result<Vec<String>, DataError> {
    let names: Vec<String> = texts.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    let nobody = || DataError::Argument { argument, reason: "names nobody".to_owned() };
    if names.is_empty() { Err(nobody()) } else { Ok(names) }
}

/// Returns the date of a dataset: RFC 3339 in UTC, to the second.
pub(super) fn dated(now: OffsetDateTime) -> Result<String, DataError> {
    let date = now.to_offset(time::UtcOffset::UTC).replace_nanosecond(0).unwrap_or(now).format(&Rfc3339);
    let reason = "shows a year that has no RFC 3339 form".to_owned();
    date.map_err(|_| DataError::Argument { argument: "the clock", reason })
}

/// Parses `FROM..TO`.
fn range(text: &str) -> Result<Range<usize>, String> {
    let parse = |text: &str| text.trim().parse::<usize>().ok();
    let ends = text.split_once("..").and_then(|(from, to)| Some(parse(from)?..parse(to)?));
    ends.filter(|range| !range.is_empty())
        .ok_or_else(|| format!("{text:?} is not FROM..TO, as 0..20 for the first twenty"))
}
