//! `data label-transcripts` and `data log-transcripts`: datasets from the transcripts of a finished job.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_api::id::JobId;

use super::prepare::{VisibilityArgument, format_date};
use super::{DataError, TerminalProgress, count_threads, key_notice, open_intake};
use crate::queries;
use crate::queries::log::ReadOptions;
use crate::run::transcription::finished::{FinishedTranscripts, ScratchFolder, log};
use crate::site::clock;
use crate::site::folder::Folder;
use crate::site::lineage::LineageIntake;
use crate::site::policy::declare;
use crate::speech::audio;
use crate::speech::prepare::spell::{CHARACTERS_FILE, LABELS_FILE, SpellOptions, spell};
use crate::speech::prepare::{self, ClassOption};

/// The arguments of both commands: the source and the new dataset.
#[derive(Debug, Args)]
struct SourceArguments {
    /// The finished transcription job, whose transcripts lie in this site's `transcripts/<job>`.
    #[arg(long, value_name = "JOB")]
    job: JobId,
    /// The dataset of the job's recordings. The new dataset joins its lineage, and is charged to the same lifetime accounts.
    #[arg(long, value_name = "DATASET")]
    recordings: String,
    /// The name of the new dataset.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The visibility: `private`, `open` or `public`; it protects no less than that of the recordings.
    #[arg(long, value_enum, default_value_t = VisibilityArgument::Private)]
    visibility: VisibilityArgument,
    /// Share to hold out for tests, 0 to 1: of the pieces for labels, of the speakers for a log.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    hold_out: f64,
    /// Replace the dataset of this name; its spent budget stays spent.
    #[arg(long)]
    replace: bool,
}

impl SourceArguments {
    fn open(&self, folder: &Folder) -> Result<FinishedTranscripts, DataError> {
        Ok(FinishedTranscripts::open(folder, self.job, &self.recordings, &self.name)?)
    }

    /// Opens the intake of the new dataset in the lineage of the recordings.
    fn open_intake(&self, folder: &Folder, now: OffsetDateTime) -> Result<Option<LineageIntake>, DataError> {
        open_intake(folder, &self.name, self.visibility.into(), Some(&self.recordings), false, now)
    }

    /// Declares the visibility of the new dataset, and prints the reports.
    fn finish(&self, folder: &Folder, lines: &[String], out: &mut dyn Write) -> Result<(), DataError> {
        if self.visibility != VisibilityArgument::Private {
            declare(&folder.policy(), &self.name, self.visibility.into())?;
        }
        writeln!(out, "{}", lines.join("\n")).map_err(DataError::Print)
    }
}

/// Create a dataset for training with CTC from the transcripts of a finished job.
///
/// The recordings are cut into the pieces of the job. The labels of a piece are the characters of its words. A piece without
/// words is left out. The units of the dataset are speakers: the first folder of a recording's name; recordings outside
/// folders are of one speaker.
#[derive(Debug, Args)]
pub(super) struct LabelTranscriptsCommand {
    #[command(flatten)]
    source: SourceArguments,
    /// The characters.json of a public dataset: the participants of a job need the same characters. Required unless the data are
    /// public; then the characters are those of the transcripts.
    #[arg(long, value_name = "FILE")]
    characters: Option<PathBuf>,
}

impl LabelTranscriptsCommand {
    /// Makes the dataset, with its characters as a file.
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        let source = &self.source;
        if self.characters.is_none() && source.visibility != VisibilityArgument::Public {
            let reason = "missing: the characters of transcripts that are not public must not decide the classes of a job; give \
                          the characters.json of a public dataset";
            return Err(DataError::Argument { argument: "--characters", reason: reason.to_owned() });
        }
        let transcripts = source.open(folder)?;
        let output = folder.dataset(&source.name)?;
        let mut intake = source.open_intake(folder, now)?;
        let scratch = ScratchFolder::create(&output)?;
        let corpus = scratch.path().join("corpus");
        let summary = transcripts.write_corpus(&corpus)?;
        let labels = scratch.path().join("labels");
        let spelled = spell(&SpellOptions {
            input: corpus.clone(),
            output: labels.clone(),
            characters: self.characters.clone(),
            longest: audio::LONGEST,
        })?;
        let options = prepare::PrepareOptions {
            visibility: source.visibility.into(),
            replace: source.replace,
            hold_out: source.hold_out,
            classes: ClassOption::Characters(spelled.characters),
            created: format_date(now)?,
            threads: count_threads(),
            across_records: Some("data label-transcripts"),
            ..prepare::PrepareOptions::new(&corpus, &labels.join(LABELS_FILE), &output, &source.name)
        };
        let report = prepare::prepare_in_lineage(&options, intake.as_mut(), &TerminalProgress::default())?;
        let lines = [
            format!(
                "{} pieces of {} recordings have words, and {} have none",
                summary.pieces, summary.recordings, summary.empty
            ),
            report.to_string(),
            format!("Characters       {}", output.join(CHARACTERS_FILE).display()),
            format!("Folder           {}{}", output.display(), key_notice(intake.as_ref())),
        ];
        source.finish(folder, &lines, out)
    }
}

/// Create a query log from the transcripts of a finished job.
///
/// A row has the words between two silences; its user is the speaker: the first folder of a recording's name. Recordings outside
/// folders are of one speaker. Rows with words of a piece that stayed at the site for its sensitive content are left out.
#[derive(Debug, Args)]
pub(super) struct LogTranscriptsCommand {
    #[command(flatten)]
    source: SourceArguments,
    /// The silence between two rows, in seconds: 0.1 to 60.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pause: f64,
}

impl LogTranscriptsCommand {
    /// Makes the dataset.
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        let source = &self.source;
        if !(0.1..=60.0).contains(&self.pause) {
            return Err(DataError::Argument {
                argument: "--pause",
                reason: "must be from 0.1 to 60 seconds".to_owned(),
            });
        }
        let transcripts = source.open(folder)?;
        let output = folder.dataset(&source.name)?;
        let mut intake = source.open_intake(folder, now)?;
        let scratch = ScratchFolder::create(&output)?;
        let rows = scratch.path().join("rows.jsonl");
        let summary = transcripts.write_log(&rows, self.pause)?;
        let key = clock::entropy().map_err(DataError::Entropy)?;
        let options = queries::prepare::PrepareOptions {
            visibility: Visibility::from(source.visibility),
            replace: source.replace,
            hold_out: source.hold_out,
            created: format_date(now)?,
            across_records: Some("data log-transcripts"),
            ..queries::prepare::PrepareOptions::new(
                vec![rows],
                ReadOptions::new(log::columns()),
                &output,
                &source.name,
                key,
            )
        };
        let report = queries::prepare::prepare_in_lineage(&options, intake.as_mut(), &TerminalProgress::default())?;
        let lines = [
            format!(
                "{} utterances became rows, and {} with sensitive content are left out",
                summary.rows, summary.sensitive
            ),
            report.to_string(),
            format!("Folder           {}{}", output.display(), key_notice(intake.as_ref())),
        ];
        source.finish(folder, &lines, out)
    }
}
