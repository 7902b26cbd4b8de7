//! `data add-recordings`: creates a dataset of this site from a folder of recordings, which jobs may transcribe.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use time::OffsetDateTime;

use super::prepare::{VisibilityArgument, format_date};
use super::{DataError, key_notice, open_intake};
use crate::site::folder::Folder;
use crate::site::policy::declare;
use crate::speech::recordings::{Options, add_to_lineage};

/// Copy a folder of recordings into a dataset of this site, for transcription.
///
/// The command checks and copies every WAV and FLAC file, including those in subfolders. A text file with a recording's name
/// and the extension `.txt` beside it is its reference transcript: this site alone measures transcripts against it.
#[derive(Debug, Args)]
pub(super) struct AddRecordingsCommand {
    /// The folder of recordings.
    #[arg(long, value_name = "FOLDER")]
    input: PathBuf,
    /// The dataset's name.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The visibility: `private`, or `public` for recordings that are published anyway.
    #[arg(long, value_enum, default_value_t = VisibilityArgument::Private)]
    visibility: VisibilityArgument,
    /// Replace the dataset of this name; its spent budget stays spent.
    #[arg(long)]
    replace: bool,
    /// The dataset of this site, or of an imported lineage, that contains some of these recordings already: both are charged to
    /// the same lifetime accounts.
    #[arg(long, value_name = "DATASET")]
    continues: Option<String>,
}

impl AddRecordingsCommand {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        if self.visibility == VisibilityArgument::Open {
            let reason = "recordings are private or public: they are never exchanged in the clear".to_owned();
            return Err(DataError::Argument { argument: "--visibility", reason });
        }
        let output = folder.dataset(&self.name)?;
        let options = Options {
            input: self.input.clone(),
            output: output.clone(),
            name: self.name.clone(),
            replace: self.replace,
            created: format_date(now)?,
        };
        let visibility = self.visibility.into();
        let mut intake = open_intake(folder, &self.name, visibility, self.continues.as_deref(), false, now)?;
        let report = add_to_lineage(&options, intake.as_mut())?;
        if self.visibility != VisibilityArgument::Private {
            declare(&folder.policy(), &self.name, self.visibility.into())?;
        }
        let notice = key_notice(intake.as_ref());
        writeln!(out, "{report}\nFolder          {}{notice}", output.display()).map_err(DataError::Print)
    }
}
