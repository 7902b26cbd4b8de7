//! `data add-recordings`: makes a dataset of this site from a folder of recordings, which jobs may transcribe.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use time::OffsetDateTime;

use super::prepare::{Reach, dated};
use super::{DataError, key_note, open_intake};
use crate::site::folder::Folder;
use crate::site::policy::declare;
use crate::speech::recordings::{Options, add_to_lineage};

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
    /// The dataset of this site, or of an imported lineage, that has some of these recordings already: both are charged to the same
    /// accounts for life.
    #[arg(long, value_name = "DATASET")]
    continues: Option<String>,
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
        let visibility = self.visibility.into();
        let mut intake = open_intake(folder, &self.name, visibility, self.continues.as_deref(), (false, now))?;
        let added = add_to_lineage(&options, intake.as_mut())?;
        if self.visibility != Reach::Private {
            declare(&folder.policy(), &self.name, self.visibility.into())?;
        }
        let note = key_note(intake.as_ref());
        writeln!(out, "{added}\nLies in         {}{note}", output.display()).map_err(DataError::Print)
    }
}
