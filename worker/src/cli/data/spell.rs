//! `data spell`: labels of characters from transcripts.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::DataError;
use crate::speech::audio::LONGEST;
use crate::speech::prepare::spell::{CHARACTERS_FILE, LABELS_FILE, SpellOptions, spell};

/// The recordings without labels that are listed.
const LISTED: usize = 10;

/// Write the characters of transcripts as labels, for training with CTC. No aligner is needed.
///
/// The transcripts are `*.trans.txt` beside the recordings, with a line `ID TEXT` for each. The folder of the result has
/// labels.jsonl, for `data prepare --alignments`, and characters.json, for its `--characters`. All participants of a job need the same characters.
#[derive(Debug, Args)]
pub(super) struct SpellCommand {
    /// Folder of recordings: <subset>/<speaker>/<chapter>/<id>.flac or .wav.
    #[arg(long, value_name = "FOLDER")]
    input: PathBuf,
    /// Folder of the result.
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// Use this characters.json. Without it the characters are those of the transcripts; for public data.
    #[arg(long, value_name = "FILE")]
    characters: Option<PathBuf>,
}

impl SpellCommand {
    /// Writes the labels and prints their number and the options of the next command.
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), DataError> {
        let options = SpellOptions {
            input: self.input.clone(),
            output: self.output.clone(),
            characters: self.characters.clone(),
            longest: LONGEST,
        };
        let report = spell(&options)?;
        let place = |name: &str| self.output.join(name).display().to_string();
        let mut lines = vec![format!("{} recordings labelled, {} left out", report.spelled, report.left.len())];
        lines.extend(report.left.iter().take(LISTED).map(|(id, reason)| format!("  {id}: {reason}")));
        let (labels, characters) = (place(LABELS_FILE), place(CHARACTERS_FILE));
        lines.push(format!("Labels      {labels}"));
        lines.push(format!("Characters  {characters}"));
        lines.push(format!("Classes     {}", report.characters.classes()));
        lines.push(format!("Continue with `data prepare --alignments {labels} --characters {characters}`\n"));
        let text = lines.join("\n");
        out.write_all(text.as_bytes()).map_err(DataError::Print)
    }
}
