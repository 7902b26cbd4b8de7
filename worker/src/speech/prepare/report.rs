//! What a preparation found, counted and named. It names recordings: it stays at the site.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::scan::{Chosen, Found};
use super::work::Ready;
use super::{Options, Split};
use crate::speech::align::{Alignments, BadLine};
use crate::speech::audio::{AudioError, RATE};
use crate::speech::dataset::{Meta, SplitCounts};

/// Why a recording was left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Problem {
    /// No labels for it.
    Unlabelled {
        /// The recording.
        id: String,
    },
    /// No transcript for it, so that it cannot be aligned.
    Untranscribed {
        /// The recording.
        id: String,
    },
    /// Its transcript has words that the aligner's dictionary lacks.
    Words {
        /// The recording.
        id: String,
        /// The words, in order, each once.
        words: Vec<String>,
    },
    /// The aligner found no alignment, hung or crashed.
    Unaligned {
        /// The recording.
        id: String,
        /// What happened.
        reason: String,
    },
    /// The audio is broken, empty, too long or of another format.
    Audio {
        /// The recording.
        id: String,
        /// The file, below the input.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// Shorter than one frame of 25 ms.
    Short {
        /// The recording.
        id: String,
        /// Its length.
        seconds: f64,
    },
    /// Labels that cannot be of this recording.
    Mismatch {
        /// The recording.
        id: String,
        /// How far apart.
        reason: String,
    },
    /// A label that is not one of the dataset's classes.
    Class {
        /// The recording.
        id: String,
        /// Its largest label.
        label: u16,
    },
    /// Another recording has its id.
    Repeated {
        /// The file.
        file: String,
    },
    /// Not in a speaker's chapter.
    Misplaced {
        /// The file.
        file: String,
    },
}

impl Problem {
    /// A recording that was refused.
    pub(super) fn audio(options: &Options, error: &AudioError) -> Self {
        let file = error.path.strip_prefix(&options.input).unwrap_or(&error.path);
        let id = error.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Self::Audio { id, file: file.display().to_string(), reason: error.problem.to_string() }
    }

    /// The recording it is about, where that is a recording that was chosen.
    pub(super) fn id(&self) -> Option<&str> {
        match self {
            Self::Unlabelled { id }
            | Self::Untranscribed { id }
            | Self::Words { id, .. }
            | Self::Unaligned { id, .. }
            | Self::Audio { id, .. }
            | Self::Short { id, .. }
            | Self::Mismatch { id, .. }
            | Self::Class { id, .. } => Some(id),
            Self::Repeated { .. } | Self::Misplaced { .. } => None,
        }
    }

    /// The kind, in words.
    fn kind(&self) -> &'static str {
        match self {
            Self::Unlabelled { .. } => "without labels",
            Self::Untranscribed { .. } => "without a transcript",
            Self::Words { .. } => "with words that the dictionary lacks",
            Self::Unaligned { .. } => "not aligned",
            Self::Audio { .. } => "broken or unreadable",
            Self::Short { .. } => "shorter than one frame",
            Self::Mismatch { .. } => "labels of another length",
            Self::Class { .. } => "with a label that is none of the classes",
            Self::Repeated { .. } => "of an id seen before",
            Self::Misplaced { .. } => "outside a speaker's chapter",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlabelled { id } => write!(f, "{id}: no labels"),
            Self::Untranscribed { id } => write!(f, "{id}: no transcript in a *.trans.txt beside it"),
            Self::Words { id, words } => write!(f, "{id}: the dictionary lacks {}", words.join(", ")),
            Self::Audio { file, reason, .. } => write!(f, "{file}: {reason}"),
            Self::Short { id, seconds } => write!(f, "{id}: {seconds:.3} s is shorter than one frame of 25 ms"),
            Self::Unaligned { id, reason } | Self::Mismatch { id, reason } => write!(f, "{id}: {reason}"),
            Self::Class { id, label } => write!(f, "{id}: label {label} is none of the classes"),
            Self::Repeated { file } => write!(f, "{file}: another recording has this id"),
            Self::Misplaced { file } => write!(f, "{file}: not in <speaker>/<chapter>/"),
        }
    }
}

/// What was found, kept and left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the dataset.
    pub name: String,
    /// SHA-256 of its content.
    pub digest: String,
    /// Recordings found in the folder.
    pub found: usize,
    /// Recordings that were asked for.
    pub chosen: usize,
    /// Utterances in the dataset.
    pub kept: usize,
    /// Of them, to learn from.
    pub train: SplitCounts,
    /// Of them, held out.
    pub test: SplitCounts,
    /// The share that was to be held out.
    pub hold_out: f64,
    /// Speakers in the dataset.
    pub speakers: usize,
    /// Frames in the dataset.
    pub frames: u64,
    /// Hours of labelled speech in the dataset.
    pub hours: f64,
    /// Classes of the dataset.
    pub classes: usize,
    /// Recordings by original rate in Hz, where it was not 16 kHz: they were resampled.
    pub resampled: BTreeMap<u32, usize>,
    /// Recordings of several channels: they were averaged.
    pub mixed_down: usize,
    /// Frames at the end of recordings that had no label and were left out.
    pub unlabelled_frames: u64,
    /// Labels at the end of recordings that had no frame and were left out.
    pub surplus_labels: u64,
    /// Why recordings were left out, each by name.
    pub problems: Vec<Problem>,
    /// Lines of the alignments, or of the transcripts, that were passed over.
    pub bad_lines: Vec<BadLine>,
    /// Utterances that have labels and no recording here.
    pub surplus_alignments: usize,
    /// What aligned the recordings, if that was done here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aligner: Option<Aligned>,
    /// The table's column that says whose each utterance is, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_column: Option<String>,
}

/// Forced alignment, done here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Aligned {
    /// The program and its version.
    pub program: String,
    /// Digest of program, model and dictionary.
    pub identity: String,
    /// Recordings that were aligned in an earlier run.
    pub resumed: usize,
    /// Where the labels are kept.
    pub labels: PathBuf,
}

impl Report {
    pub(super) fn new(options: &Options, found: &Found, chosen: &Chosen) -> Self {
        let below = |path: &PathBuf| path.strip_prefix(&options.input).unwrap_or(path).to_path_buf();
        let asked = |path: &PathBuf| {
            let in_subset = |subset: &String| path.iter().any(|part| part == subset.as_str());
            options.subsets.is_empty() || options.subsets.iter().any(in_subset)
        };
        let text = |path: PathBuf| path.display().to_string();
        let repeated = chosen.repeated.iter().map(below).map(|path| Problem::Repeated { file: text(path) });
        let misplaced = found.misplaced.iter().map(below).filter(asked);
        let misplaced = misplaced.map(|path| Problem::Misplaced { file: text(path) });
        Self {
            name: options.name.clone(),
            digest: String::new(),
            found: found.recordings.len() + found.misplaced.len(),
            chosen: chosen.recordings.len(),
            kept: 0,
            train: SplitCounts::default(),
            test: SplitCounts::default(),
            hold_out: options.hold_out,
            speakers: 0,
            frames: 0,
            hours: 0.0,
            classes: 0,
            resampled: BTreeMap::new(),
            mixed_down: 0,
            unlabelled_frames: 0,
            surplus_labels: 0,
            problems: repeated.chain(misplaced).collect(),
            bad_lines: Vec::new(),
            surplus_alignments: 0,
            aligner: None,
            unit_column: options.units.as_ref().map(|units| units.column.clone()),
        }
    }

    pub(super) fn keep(&mut self, ready: &Ready) {
        if ready.source_rate != RATE {
            *self.resampled.entry(ready.source_rate).or_default() += 1;
        }
        self.mixed_down += usize::from(ready.channels > 1);
        self.unlabelled_frames += ready.unlabelled as u64;
        self.surplus_labels += ready.surplus as u64;
    }

    /// Takes over what the labels say of themselves; `ids` are those of all recordings.
    pub(super) fn labelled<'a>(&mut self, alignments: &Alignments, ids: impl Iterator<Item = &'a str>) {
        self.bad_lines.clone_from(&alignments.bad_lines);
        let known = ids.filter(|id| alignments.by_id.contains_key(*id)).count();
        self.surplus_alignments = alignments.by_id.len() - known;
    }

    pub(super) fn leave(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Takes over what the finished dataset says of itself.
    pub(super) fn complete(&mut self, meta: &Meta) {
        self.digest.clone_from(&meta.digest);
        (self.kept, self.speakers, self.frames, self.classes) =
            (meta.utterances, meta.speakers, meta.frames, meta.classes);
        (self.train, self.test) = (meta.split(Split::Train), meta.split(Split::Test));
        self.hours = meta.frames as f64 / 360_000.0;
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a report is plain text and finite numbers, with text keys")
    }

    /// The first chosen recording that was left out, and why.
    pub(super) fn first_left(&self) -> String {
        let chosen = |problem: &&Problem| !matches!(problem, Problem::Repeated { .. } | Problem::Misplaced { .. });
        self.problems.iter().find(chosen).map_or_else(String::new, ToString::to_string)
    }

    /// How many recordings were left out, by kind.
    pub fn problem_counts(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for problem in &self.problems {
            *counts.entry(problem.kind()).or_default() += 1;
        }
        let count = |(kind, count): (&str, usize)| format!("{count} {kind}");
        counts.into_iter().map(count).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Report {
    /// A table for the steward's terminal: counts, no names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let split = |counts: SplitCounts| {
            format!("{} utterances, {} speakers, {} frames", counts.utterances, counts.speakers, counts.frames)
        };
        writeln!(f, "Dataset          {}", self.name)?;
        writeln!(f, "Recordings       {} found, {} chosen, {} kept", self.found, self.chosen, self.kept)?;
        writeln!(f, "To learn from    {}", split(self.train))?;
        writeln!(f, "Held out         {}", split(self.test))?;
        writeln!(f, "Speech           {:.2} hours, {} speakers, {} classes", self.hours, self.speakers, self.classes)?;
        if let Some(column) = &self.unit_column {
            let (train, test) = (self.train.users, self.test.users);
            writeln!(f, "Users            {train} to learn from, {test} held out (column {column})")?;
        }
        if let Some(Aligned { program, resumed, labels, .. }) = &self.aligner {
            writeln!(f, "Aligned          by {program}, {resumed} of them earlier; labels in {}", labels.display())?;
        }
        if self.surplus_alignments > 0 {
            writeln!(f, "Labels           of {} utterances that have no recording here", self.surplus_alignments)?;
        }
        if !self.resampled.is_empty() {
            let rate = |(rate, count): (&u32, &usize)| format!("{count} from {rate} Hz");
            let rates: Vec<_> = self.resampled.iter().map(rate).collect();
            writeln!(f, "Resampled        {}", rates.join(", "))?;
        }
        if self.mixed_down > 0 {
            writeln!(f, "Mixed to mono    {}", self.mixed_down)?;
        }
        let (frames, labels) = (self.unlabelled_frames, self.surplus_labels);
        writeln!(f, "Reconciled       {labels} labels without a frame, {frames} frames without a label")?;
        if !self.problems.is_empty() {
            writeln!(f, "Left out         {} (named in report.json)", self.problem_counts())?;
        }
        if !self.bad_lines.is_empty() {
            let what = if self.aligner.is_some() { "Transcript lines" } else { "Label lines     " };
            writeln!(f, "{what} {} unreadable (named in report.json)", self.bad_lines.len())?;
        }
        let classes = self.problems.iter().filter_map(|problem| match problem {
            Problem::Class { label, .. } => Some(*label),
            _ => None,
        });
        if let Some(label) = classes.max() {
            writeln!(f, "Note             labels go up to {label}: --classes {} keeps all", u32::from(label) + 1)?;
        }
        if self.hold_out > 0.0 && self.test.utterances == 0 {
            writeln!(f, "Note             the share {} held out no utterance; take a larger one", self.hold_out)?;
        }
        if self.train.utterances == 0 {
            writeln!(f, "Note             nothing to learn from: this dataset is for tests only")?;
        }
        write!(f, "Digest           {}", self.digest)
    }
}
