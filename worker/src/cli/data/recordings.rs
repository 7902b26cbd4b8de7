//! `data add-recordings`: from a folder of recordings to a dataset of this site that jobs may transcribe.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use time::OffsetDateTime;

use super::DataError;
use super::prepare::{Reach, dated};
use crate::site::folder::Folder;
use crate::site::policy::declare;
use crate::speech::recordings::{Options, add};

/// Copy a folder of recordings into a dataset of this site, to be transcribed.
///
/// Every WAV and FLAC file is read once to see that it is whole, and copied, in folders below it too. A text with a recording's name
/// and the ending `.txt` beside it is what is said in it: transcripts are measured against it, at this site only.
#[derive(Debug, Args)]
pub(super) struct AddRecordings {
    /// The folder of recordings.
    #[arg(long, value_name = "FOLDER")]
    input: PathBuf,
    /// The dataset's name.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Who may learn what from it: `private`, or `public` for recordings that are published anyway.
    #[arg(long, value_enum, default_value_t = Reach::Private)]
    visibility: Reach,
    /// Replace a dataset of this name; what was spent of its budget stays spent.
    #[arg(long)]
    replace: bool,
}

impl AddRecordings {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        if self.visibility == Reach::Open {
            let reason = "recordings are private or public: nothing of them is ever exchanged in the clear".to_owned();
            return Err(DataError::Argument { argument: "--visibility", reason });
        }
        let output = folder.dataset(&self.name)?;
        let options = Options {
            input: self.input.clone(),
            output: output.clone(),
            name: self.name.clone(),
            replace: self.replace,
            created: dated(now)?,
        };
        let added = add(&options)?;
        if self.visibility != Reach::Private {
            declare(&folder.policy(), &self.name, self.visibility.into())?;
        }
        writeln!(out, "{added}\nLies in         {}", output.display()).map_err(DataError::Print)
    }
}
