//! `undertone-worker data`: creates datasets and lists them.
//!
//! It turns arguments into options and results into text; the work is in [`crate::speech`],
//! [`crate::queries`], [`crate::tables`] and [`undertone_worker_encoder`].
//! Datasets lie in the site's folder, where the daemon finds them, unless another path is given.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use time::OffsetDateTime;
use undertone_api::dataset::Visibility;

use crate::queries;
use crate::site::datasets::DatasetMeta;
use crate::site::folder::{Folder, FolderError};
use crate::site::lineage::{LineageError, LineageIntake};
use crate::site::policy::PolicyError;
use crate::speech::prepare::{ClassMapError, PrepareError};
use crate::speech::synthesize::SynthesizeError;

mod bar;
mod encode;
mod forecast;
mod index_speech;
mod list;
mod prepare;
mod query_log;
mod recordings;
mod rows;
mod spell;
mod synthesize;
mod table;
mod transcripts;

use bar::TerminalProgress;
use encode::EncodeCommand;
use forecast::ForecastCommand;
use index_speech::IndexSpeechCommand;
use list::ListCommand;
use prepare::PrepareCommand;
use recordings::AddRecordingsCommand;
use spell::SpellCommand;
use synthesize::SynthesizeCommand;
use table::AddTableCommand;
use transcripts::{LabelTranscriptsCommand, LogTranscriptsCommand};

/// Create datasets from recordings, query logs or tables, and list them.
#[derive(Debug, Args)]
pub(super) struct DataCommand {
    #[command(subcommand)]
    action: DataAction,
}

#[derive(Debug, Subcommand)]
enum DataAction {
    /// Create a dataset of this site from recordings with labels, or from query logs.
    Prepare(Box<PrepareCommand>),
    /// Copy a folder of recordings into a dataset of this site, for transcription.
    AddRecordings(AddRecordingsCommand),
    /// Create a dataset of this site from rows of CSV, Parquet or PostgreSQL, for analytics.
    AddTable(Box<AddTableCommand>),
    /// Create a dataset of this site from rows whose features a frozen encoder computes, for training on rows.
    Encode(Box<EncodeCommand>),
    /// Transcribe and index public recordings, as speech for the dummies of transcriptions.
    IndexSpeech(IndexSpeechCommand),
    /// Show this site's datasets.
    List(ListCommand),
    /// Estimate how many queries of a log gates would release.
    Forecast(ForecastCommand),
    /// Write the characters of transcripts as labels, for training with CTC.
    Spell(SpellCommand),
    /// Create a dataset for training with CTC from the transcripts of a finished job.
    LabelTranscripts(LabelTranscriptsCommand),
    /// Create a query log from the transcripts of a finished job.
    LogTranscripts(LogTranscriptsCommand),
    /// Create a small corpus of synthetic speakers, or a synthetic query log, for experiments without real data.
    Synthesize(SynthesizeCommand),
}

/// The reason for the failure of a `data` command.
#[derive(Debug, thiserror::Error)]
pub(super) enum DataError {
    /// An argument is wrong.
    #[error("{argument}: {reason}")]
    Argument {
        /// The argument's name.
        argument: &'static str,
        /// Its valid values.
        reason: String,
    },
    /// A file that an argument names cannot be read.
    #[error("cannot read {path}: check {argument}")]
    File {
        /// The argument.
        argument: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The site's folder failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The site's policy failed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The accounts of a dataset failed.
    #[error(transparent)]
    Lineage(#[from] LineageError),
    /// The map of classes failed.
    #[error(transparent)]
    ClassMap(#[from] ClassMapError),
    /// The preparation failed.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// Recordings that cannot be added.
    #[error(transparent)]
    Recordings(#[from] crate::speech::recordings::AddError),
    /// A table that cannot be added.
    #[error(transparent)]
    Table(#[from] crate::tables::error::TableError),
    /// An encoder that is refused.
    #[error(transparent)]
    Encoder(#[from] undertone_worker_encoder::error::EncoderError),
    /// The site's configuration failed.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// Recordings that cannot be used for dummies.
    #[error(transparent)]
    Speech(#[from] crate::site::speech::SpeechError),
    /// The site's recognizer failed.
    #[error(transparent)]
    Recognizer(#[from] crate::config::transcription::RecognizerSetupError),
    /// The index of recorded speech failed.
    #[error(transparent)]
    Index(#[from] crate::speech::transcribe::recorded::RecordedError),
    /// A list of words failed.
    #[error(transparent)]
    Words(#[from] crate::speech::transcribe::vocabulary::VocabularyError),
    /// The coverage of words cannot be computed.
    #[error(transparent)]
    Coverage(#[from] crate::run::RunError),
    /// The labels of characters failed.
    #[error(transparent)]
    Spell(#[from] crate::speech::prepare::spell::SpellError),
    /// The transcripts of a job cannot be used.
    #[error(transparent)]
    Transcripts(#[from] crate::run::transcription::finished::FinishedError),
    /// The synthesis failed.
    #[error(transparent)]
    Synthesize(#[from] SynthesizeError),
    /// The preparation of query logs failed.
    #[error(transparent)]
    Queries(#[from] queries::prepare::PrepareError),
    /// The synthesis of a query log failed.
    #[error(transparent)]
    SynthesizeQueries(#[from] queries::synthesize::SynthesizeError),
    /// A prepared query log cannot be read.
    #[error(transparent)]
    Dataset(#[from] crate::speech::dataset::DatasetError),
    /// The sketches of a forecast failed.
    #[error(transparent)]
    Sketch(#[from] queries::sketch::SketchError),
    /// No randomness for the key of user ids.
    #[error("the operating system returned no random bytes for a key")]
    Entropy(#[source] std::io::Error),
    /// The result cannot be printed.
    #[error("cannot print the result")]
    Print(#[source] std::io::Error),
}

impl DataCommand {
    /// Runs the command at the site in `folder`; `now` is the date of new datasets. It blocks, and prints the result to
    /// `out` and progress to standard error.
    ///
    /// # Errors
    /// [`DataError`], whose message contains the remedy.
    pub(super) fn run(
        &self,
        folder: &Folder,
        now: OffsetDateTime,
        out: &mut dyn std::io::Write,
    ) -> Result<(), DataError> {
        match &self.action {
            DataAction::Prepare(prepare) => prepare.run(folder, now, out),
            DataAction::AddRecordings(add) => add.run(folder, now, out),
            DataAction::AddTable(add) => add.run(folder, now, out),
            DataAction::Encode(encode) => encode.run(folder, now, out),
            DataAction::IndexSpeech(index) => index.run(folder, now, out),
            DataAction::List(list) => list.run(folder, out),
            DataAction::Forecast(forecast) => forecast.run(folder, out),
            DataAction::Spell(spell) => spell.run(out),
            DataAction::LabelTranscripts(label) => label.run(folder, now, out),
            DataAction::LogTranscripts(log) => log.run(folder, now, out),
            DataAction::Synthesize(synthesize) => synthesize.run(out),
        }
    }
}

/// Opens the intake of a dataset called `name` at the site; returns `None` for a dataset made elsewhere without a site.
fn open_intake(
    folder: &Folder,
    name: &str,
    visibility: Visibility,
    continues: Option<&str>,
    is_elsewhere: bool,
    now: OffsetDateTime,
) -> Result<Option<LineageIntake>, DataError> {
    if is_elsewhere && !folder.ledger().exists() {
        let reason =
            "no site exists here whose dataset could be continued: omit --output, or name the site with --site";
        return match continues {
            Some(_) => Err(DataError::Argument { argument: "--continues", reason: reason.to_owned() }),
            None => Ok(None),
        };
    }
    Ok(Some(LineageIntake::open::<DatasetMeta>(folder, name, visibility, continues, now)?))
}

/// Returns the notice about a newly made organization key, or an empty text.
fn key_notice(intake: Option<&LineageIntake>) -> &'static str {
    match intake {
        Some(intake) if intake.has_new_key() => {
            "\nOrganization key  created here, because this site had none. If your organization has another worker, transfer the lineages to it with\n\
             `undertone-worker lineage export` and `import`, so that it recognizes the same data"
        }
        _ => "",
    }
}

/// Returns the number of threads for work that mostly computes or waits for programs.
fn count_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests;
