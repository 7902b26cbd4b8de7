//! `undertone-worker data`: makes datasets and lists them.
//!
//! It turns arguments into options and results into text; the work is in [`crate::speech`] and [`crate::queries`].
//! Datasets lie in the site's folder, where the daemon finds them, unless another path is given.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use time::OffsetDateTime;
use undertone_api::dataset::Visibility;

use crate::queries;
use crate::site::datasets::Described;
use crate::site::folder::{Folder, FolderError};
use crate::site::lineage::{LineageError, LineageIntake};
use crate::site::policy::PolicyError;
use crate::speech::prepare::{ClassMapError, PrepareError};
use crate::speech::synthesize::SynthesizeError;

mod bar;
mod forecast;
mod index_speech;
mod list;
mod prepare;
mod query_log;
mod recordings;
mod synthesize;

use bar::Bar;
use forecast::Forecast;
use index_speech::IndexSpeech;
use list::List;
use prepare::Prepare;
use recordings::AddRecordings;
use synthesize::Synthesize;

/// Make datasets from recordings or query logs, and list them.
#[derive(Debug, Args)]
pub(super) struct DataCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Turn a folder of recordings and their labels, or query logs, into a dataset of this site.
    Prepare(Box<Prepare>),
    /// Copy a folder of recordings into a dataset of this site, to be transcribed.
    AddRecordings(AddRecordings),
    /// Take recordings that anybody may have, and have them heard, so that dummies of transcriptions can be made of them.
    IndexSpeech(IndexSpeech),
    /// Show this site's datasets.
    List(List),
    /// Estimate how many queries of a log gates would let through.
    Forecast(Forecast),
    /// Make a small corpus of synthetic speakers, or a synthetic query log, to try things out with no data at hand.
    Synthesize(Synthesize),
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
    /// The site's configuration failed.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// Recordings that cannot be used for dummies.
    #[error(transparent)]
    Speech(#[from] crate::site::speech::SpeechError),
    /// The site's recognizer failed.
    #[error(transparent)]
    Ears(#[from] crate::config::transcription::EarsError),
    /// The index of recorded speech failed.
    #[error(transparent)]
    Index(#[from] crate::speech::transcribe::recorded::RecordedError),
    /// A list of words failed.
    #[error(transparent)]
    Words(#[from] crate::speech::transcribe::vocabulary::VocabularyError),
    /// The coverage of words cannot be computed.
    #[error(transparent)]
    Coverage(#[from] crate::run::RunError),
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
    #[error("the operating system gave no randomness for a key")]
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
            Action::Prepare(prepare) => prepare.run(folder, now, out),
            Action::AddRecordings(add) => add.run(folder, now, out),
            Action::IndexSpeech(index) => index.run(folder, now, out),
            Action::List(list) => list.run(folder, out),
            Action::Forecast(forecast) => forecast.run(folder, out),
            Action::Synthesize(synthesize) => synthesize.run(out),
        }
    }
}

/// Opens the intake of a dataset called `name` at the site; returns `None` for a dataset made elsewhere without a site.
fn open_intake(
    folder: &Folder,
    name: &str,
    visibility: Visibility,
    continues: Option<&str>,
    (is_elsewhere, now): (bool, OffsetDateTime),
) -> Result<Option<LineageIntake>, DataError> {
    if is_elsewhere && !folder.ledger().exists() {
        let reason =
            "there is no site here whose dataset could be continued: leave --output out, or name the site with --site";
        return match continues {
            Some(_) => Err(DataError::Argument { argument: "--continues", reason: reason.to_owned() }),
            None => Ok(None),
        };
    }
    Ok(Some(LineageIntake::open::<Described>(folder, name, visibility, continues, now)?))
}

/// Returns the notice about a newly made organization key, or an empty text.
fn key_note(intake: Option<&LineageIntake>) -> &'static str {
    match intake {
        Some(intake) if intake.has_new_key() => {
            "\nOrganization key  made here, as this site had none. Has your organization another worker? Carry the lineages to it with\n\
             `undertone-worker lineage export` and `import`, so that the same data are recognized there"
        }
        _ => "",
    }
}

/// Returns the number of threads for work that mostly computes or waits for programs.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests;
