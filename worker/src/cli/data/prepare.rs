//! `data prepare`: from recordings and labels to a dataset of this site.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use undertone_api::dataset::Visibility;

use super::{Bar, DataError, threads};
use crate::site::folder::Folder;
use crate::site::policy::declare;
use crate::speech::align::{self, PhoneMap, Reading, Tying};
use crate::speech::audio;
use crate::speech::prepare::{self, ClassMap, Classes, Options, Speakers, Take};

/// Turn a folder of recordings and their labels into a dataset of this site.
#[derive(Debug, Args)]
pub(super) struct Prepare {
    /// Folder of recordings: <subset>/<speaker>/<chapter>/<id>.flac or .wav.
    #[arg(long, value_name = "FOLDER")]
    input: PathBuf,
    /// Labels, one line an utterance: {"u": id, "frames": N, "runs": [[class, frames], ...]}; or Kaldi's `ali-to-pdf` as
    /// text; or phones in time, as a CTM file or a folder of TextGrids (Montreal Forced Aligner).
    #[arg(long, value_name = "FILE|FOLDER")]
    alignments: PathBuf,
    /// Frames of 10 ms that one number of a Kaldi archive stands for: 3 for a model with frame subsampling.
    #[arg(long, value_name = "FRAMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    label_step: u32,
    /// For phones: a phone's state in its context has a class of its own if it has so many frames here. Writes the map as
    /// phones.json. Counts frames: for public data.
    #[arg(long, value_name = "FRAMES", conflicts_with = "phone_map")]
    phone_frames: Option<u64>,
    /// For phones: use the phones.json of another dataset.
    #[arg(long, value_name = "FILE")]
    phone_map: Option<PathBuf>,
    /// Name of the dataset. Its budget belongs to the name: prepare new versions under the same one.
    #[arg(long)]
    name: String,
    /// Another folder to make than the site's `data/<name>`.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Put the new dataset in the place of one that is there.
    #[arg(long)]
    replace: bool,
    /// Who may learn what: `private` (differentially private releases only), `open` (exact gradients too, for the
    /// comparison) or `public`. Written into the site's policy.
    #[arg(long, value_enum, default_value_t = Reach::Private)]
    visibility: Reach,
    /// Only this subset; may be repeated.
    #[arg(long = "subset", value_name = "NAME")]
    subsets: Vec<String>,
    /// Only these speakers.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', conflicts_with_all = ["speakers_from", "speaker_range"])]
    speakers: Vec<String>,
    /// Only the speakers in this file, one a line.
    #[arg(long, value_name = "FILE", conflicts_with = "speaker_range")]
    speakers_from: Option<PathBuf>,
    /// Only the speakers at these places of the sorted list, from 0, end excluded: 0..20.
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    speaker_range: Option<Range<usize>>,
    /// Only the first N utterances of each speaker.
    #[arg(long, value_name = "N", conflicts_with = "skip")]
    first: Option<usize>,
    /// All but the first N utterances of each speaker.
    #[arg(long, value_name = "N")]
    skip: Option<usize>,
    /// Share of the utterances to hold out for tests, 0 to 1; 1 makes a dataset for tests only.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    hold_out: f64,
    /// Number of classes; without it, one more than the largest label. All participants of a job need the same.
    #[arg(long, value_name = "N", conflicts_with_all = ["least_frames", "class_map"])]
    classes: Option<usize>,
    /// Let labels with fewer frames share one class, and write the map as classes.json. Counts frames: for public data.
    #[arg(long, value_name = "FRAMES", conflicts_with = "class_map")]
    least_frames: Option<u64>,
    /// Use the classes.json of another dataset.
    #[arg(long, value_name = "FILE")]
    class_map: Option<PathBuf>,
    /// Keep the mean of each utterance's features, which otherwise is subtracted.
    #[arg(long)]
    keep_mean: bool,
    /// How many frames labels and features may differ by.
    #[arg(long, value_name = "FRAMES", default_value_t = align::TOLERANCE)]
    tolerance: usize,
    /// The longest recording to read, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = audio::LONGEST)]
    longest: f64,
}

/// Who may learn what, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Reach {
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

impl Prepare {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        let options = self.options(folder, now)?;
        if self.output.is_some() && self.visibility != Reach::Private {
            let reason = "only for a dataset of the site: leave --output out".to_owned();
            return Err(DataError::Argument { argument: "--visibility", reason });
        }
        let report = prepare::prepare(&options, &Bar::default())?;
        if self.visibility != Reach::Private {
            declare(&folder.policy(), &self.name, self.visibility.into())?;
        }
        writeln!(out, "{report}\nLies in          {}", options.output.display()).map_err(DataError::Print)
    }

    fn options(&self, folder: &Folder, now: OffsetDateTime) -> Result<Options, DataError> {
        // Also with --output: the name is the folder's name wherever the dataset is taken later.
        let in_site = folder.dataset(&self.name)?;
        let output = self.output.clone().unwrap_or(in_site);
        let argument = |argument, reason: &str| DataError::Argument { argument, reason: reason.to_owned() };
        if !(self.longest > 0.0 && self.longest <= 86_400.0) {
            return Err(argument("--longest", "between 0 and 86400 seconds"));
        }
        let created = now.to_offset(time::UtcOffset::UTC).replace_nanosecond(0).unwrap_or(now).format(&Rfc3339);
        Ok(Options {
            reading: Reading {
                step: self.label_step,
                phones: match (self.phone_frames, &self.phone_map) {
                    (Some(least), _) => Some(Tying::Least(least)),
                    (None, Some(path)) => {
                        Some(Tying::Map(PhoneMap::read(path).map_err(|reason| argument("--phone-map", &reason))?))
                    }
                    (None, None) => None,
                },
            },
            replace: self.replace,
            subsets: self.subsets.clone(),
            speakers: self.speakers()?,
            take: match (self.first, self.skip) {
                (Some(count), _) => Take::First(count),
                (_, Some(count)) => Take::Skip(count),
                _ => Take::All,
            },
            hold_out: self.hold_out,
            classes: match (self.classes, self.least_frames, &self.class_map) {
                (Some(count), ..) => Classes::Count(count),
                (_, Some(least), _) => Classes::Frequent(least),
                (.., Some(path)) => Classes::Map(ClassMap::read(path)?),
                _ => Classes::FromLabels,
            },
            subtract_mean: !self.keep_mean,
            tolerance: self.tolerance,
            longest: self.longest,
            created: created.map_err(|_| argument("the clock", "shows a year that has no RFC 3339 form"))?,
            threads: threads(),
            ..Options::new(&self.input, &self.alignments, &output, &self.name)
        })
    }

    fn speakers(&self) -> Result<Speakers, DataError> {
        let names = |names: Vec<String>| {
            let names: Vec<String> =
                names.iter().map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect();
            let nobody = || DataError::Argument { argument: "--speakers", reason: "names nobody".to_owned() };
            if names.is_empty() { Err(nobody()) } else { Ok(Speakers::Named(names)) }
        };
        match (&self.speakers_from, &self.speaker_range) {
            (Some(path), _) => {
                let io = |source| DataError::File { argument: "--speakers-from", path: path.clone(), source };
                let text = std::fs::read_to_string(path).map_err(io)?;
                names(text.lines().map(str::to_owned).collect())
            }
            (_, Some(range)) => Ok(Speakers::Range(range.clone())),
            _ if !self.speakers.is_empty() => names(self.speakers.clone()),
            _ => Ok(Speakers::All),
        }
    }
}

/// Reads `FROM..TO`.
fn range(text: &str) -> Result<Range<usize>, String> {
    let parse = |text: &str| text.trim().parse::<usize>().ok();
    let ends = text.split_once("..").and_then(|(from, to)| Some(parse(from)?..parse(to)?));
    ends.filter(|range| !range.is_empty())
        .ok_or_else(|| format!("{text:?} is not FROM..TO, as 0..20 for the first twenty"))
}
