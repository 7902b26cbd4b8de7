//! The report of a preparation: counts and names. It names recordings, so it stays at the site.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::scan::{FolderContent, RecordingSelection};
use super::work::FeatureRow;
use super::{PrepareOptions, Split};
use crate::align::alignment::AlignmentSet;
use crate::align::lines::BadLine;
use crate::audio::error::AudioError;
use crate::audio::resample::RATE;
use crate::dataset::{Meta, SplitCounts};

/// Reasons why a recording was omitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RecordingProblem {
    /// It has no labels.
    Unlabelled {
        /// The recording.
        id: String,
    },
    /// It has no transcript, so it cannot be aligned.
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
        /// The cause.
        reason: String,
    },
    /// The audio is broken, empty, too long or of another format.
    Audio {
        /// The recording.
        id: String,
        /// The file, relative to the input.
        file: String,
        /// The problem.
        reason: String,
    },
    /// Shorter than one frame of 25 ms.
    Short {
        /// The recording.
        id: String,
        /// Its length in seconds.
        seconds: f64,
    },
    /// The labels cannot belong to this recording.
    Mismatch {
        /// The recording.
        id: String,
        /// The difference.
        reason: String,
    },
    /// A label is not one of the dataset's classes.
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
    /// It is not in a speaker's chapter.
    Misplaced {
        /// The file.
        file: String,
    },
}

impl RecordingProblem {
    /// Returns the problem of a rejected recording.
    pub(super) fn audio(options: &PrepareOptions, error: &AudioError) -> Self {
        let file = error.path.strip_prefix(&options.input).unwrap_or(&error.path);
        let id = error.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Self::Audio { id, file: file.display().to_string(), reason: error.problem.to_string() }
    }

    /// Returns the id of the recording, if the problem is that of a chosen recording.
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

    /// Returns the kind as text.
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

impl fmt::Display for RecordingProblem {
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

/// The counts and problems of a preparation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrepareReport {
    /// Name of the dataset.
    pub name: String,
    /// SHA-256 of its content.
    pub digest: String,
    /// Number of recordings in the folder.
    pub found: usize,
    /// Number of chosen recordings.
    pub chosen: usize,
    /// Number of utterances in the dataset.
    pub kept: usize,
    /// The training split.
    pub train: SplitCounts,
    /// The test split.
    pub test: SplitCounts,
    /// The requested fraction to hold out.
    pub hold_out: f64,
    /// Number of speakers in the dataset.
    pub speakers: usize,
    /// Number of frames in the dataset.
    pub frames: u64,
    /// Hours of labelled speech in the dataset.
    pub hours: f64,
    /// Number of classes of the dataset.
    pub classes: usize,
    /// Number of resampled recordings by original rate in Hz.
    pub resampled: BTreeMap<u32, usize>,
    /// Number of recordings with several channels, which were averaged.
    pub mixed_down: usize,
    /// Number of frames at the end of recordings that had no label and were dropped.
    pub unlabelled_frames: u64,
    /// Number of labels at the end of recordings that had no frame and were dropped.
    pub surplus_labels: u64,
    /// The omitted recordings with the reasons.
    pub problems: Vec<RecordingProblem>,
    /// The skipped lines of the alignments or the transcripts.
    pub bad_lines: Vec<BadLine>,
    /// Number of utterances with labels but without a recording here.
    pub surplus_alignments: usize,
    /// The forced alignment, if this preparation ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aligner: Option<AlignerRecord>,
    /// The column of users in the table of units, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_column: Option<String>,
}

/// A forced alignment by this preparation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlignerRecord {
    /// The program and its version.
    pub program: String,
    /// Digest of program, model and dictionary.
    pub identity: String,
    /// Number of recordings that an earlier run aligned.
    pub resumed: usize,
    /// The file of the labels.
    pub labels: PathBuf,
}

impl PrepareReport {
    pub(super) fn new(options: &PrepareOptions, found: &FolderContent, chosen: &RecordingSelection) -> Self {
        let below = |path: &PathBuf| path.strip_prefix(&options.input).unwrap_or(path).to_path_buf();
        let in_subsets = |path: &PathBuf| {
            let in_subset = |subset: &String| path.iter().any(|part| part == subset.as_str());
            options.subsets.is_empty() || options.subsets.iter().any(in_subset)
        };
        let text = |path: PathBuf| path.display().to_string();
        let repeated = chosen.repeated.iter().map(below).map(|path| RecordingProblem::Repeated { file: text(path) });
        let misplaced = found.misplaced.iter().map(below).filter(in_subsets);
        let misplaced = misplaced.map(|path| RecordingProblem::Misplaced { file: text(path) });
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

    pub(super) fn keep(&mut self, ready: &FeatureRow) {
        if ready.source_rate != RATE {
            *self.resampled.entry(ready.source_rate).or_default() += 1;
        }
        self.mixed_down += usize::from(ready.channels > 1);
        self.unlabelled_frames += ready.unlabelled as u64;
        self.surplus_labels += ready.surplus as u64;
    }

    /// Records the properties of the labels; `ids` are those of all recordings.
    pub(super) fn labelled<'a>(&mut self, alignments: &AlignmentSet, ids: impl Iterator<Item = &'a str>) {
        self.bad_lines.clone_from(&alignments.bad_lines);
        let recorded = ids.filter(|id| alignments.by_id.contains_key(*id)).count();
        self.surplus_alignments = alignments.by_id.len() - recorded;
    }

    pub(super) fn leave(&mut self, problem: RecordingProblem) {
        self.problems.push(problem);
    }

    /// Records the properties of the finished dataset.
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

    /// Returns the first omitted recording of the selection, with the reason.
    pub(super) fn first_left(&self) -> String {
        let is_chosen = |problem: &&RecordingProblem| {
            !matches!(problem, RecordingProblem::Repeated { .. } | RecordingProblem::Misplaced { .. })
        };
        self.problems.iter().find(is_chosen).map_or_else(String::new, ToString::to_string)
    }

    /// Returns the number of omitted recordings by kind, as text.
    pub fn problem_counts(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for problem in &self.problems {
            *counts.entry(problem.kind()).or_default() += 1;
        }
        let count = |(kind, count): (&str, usize)| format!("{count} {kind}");
        counts.into_iter().map(count).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for PrepareReport {
    /// Prints a table for the steward's terminal, with counts and without names.
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
        if let Some(AlignerRecord { program, resumed, labels, .. }) = &self.aligner {
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
            RecordingProblem::Class { label, .. } => Some(*label),
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
