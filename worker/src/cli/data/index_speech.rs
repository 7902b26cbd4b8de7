//! `data index-speech`: indexes recordings without confidential content, as speech for dummies.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use time::OffsetDateTime;

use super::prepare::format_date;
use super::{DataError, TerminalProgress};
use crate::config::Config;
use crate::config::transcription::{SpeechSource, TranscriptionSettings};
use crate::run::TranscriptionSite;
use crate::run::transcription::count_remaining;
use crate::site::folder::Folder;
use crate::site::{clock, speech};
use crate::speech::recordings::{Options, add};
use crate::speech::transcribe::recorded::index::make;
use crate::speech::transcribe::vocabulary::language::StemmingLanguage;
use crate::speech::transcribe::vocabulary::{WordList, public};

/// Transcribe and index public recordings, as speech for the dummies of transcriptions.
///
/// Dummies leave the site as they were recorded: use only recordings that anyone may hear, whose speakers have consented.
/// Prefer unpublished recordings: a provider that has the same recordings could recognize dummies by their words. The
/// site's own recognizer transcribes each recording once, which takes about as long as a normal transcription. After an
/// interruption, run the command again without --input to continue.
#[derive(Debug, Args)]
pub(super) struct IndexSpeechCommand {
    /// A folder of public WAV and FLAC files, which the command copies into the site's folder. Default: the recordings of an
    /// earlier --input, or the public dataset that [transcription.speech] names.
    #[arg(long, value_name = "FOLDER")]
    input: Option<PathBuf>,
    /// The language of the recordings (ISO 639-1).
    #[arg(long, value_name = "CODE", default_value = "en")]
    language: String,
    /// Replace the recordings of an earlier --input, or transcribe all recordings again after a change of the language or the
    /// recognizer. The site remembers which pieces are set aside for jobs.
    #[arg(long)]
    replace: bool,
    /// Then show how many unused pieces remain for each word of this list (one word a line).
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
}

impl IndexSpeechCommand {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        let settings = Config::load(folder)?.transcription;
        let language = StemmingLanguage::new(&self.language)?;
        let recognizer = settings.recognizer.as_ref().ok_or_else(|| DataError::Argument {
            argument: "--site",
            reason: "this site has no recognizer: add [transcription.recognizer] to config.toml".to_owned(),
        })?;
        let dataset = settings.speech.recorded().and_then(|source| source.dataset);
        if let Some(input) = &self.input {
            self.copy_recordings(input, folder, dataset.as_deref(), now)?;
        }
        let recordings = speech::open(folder, dataset.as_deref())?;
        let pool = recognizer.start_pool(folder.root(), language.code())?;
        let progress = TerminalProgress::default();
        let index = make(&recordings, language, &pool, &folder.speech(), self.replace, &progress)?;
        let mut report = format!(
            "Recordings      {}\nSeconds         {}\nPieces          {}\nWords           {}\nDigest          {}\n",
            index.recordings,
            recordings.meta().seconds(),
            index.pieces,
            index.words,
            index.digest.get(..12).unwrap_or(&index.digest)
        );
        if settings.speech.recorded().is_none() {
            report.push_str("Not used yet: set [transcription.speech] kind = \"recorded\" in config.toml\n");
        }
        if let Some(words) = &self.words {
            report.push_str(&count_unused_pieces(words, language, settings, folder)?);
        }
        out.write_all(report.as_bytes()).map_err(DataError::Print)
    }

    /// Copies the recordings of a folder.
    fn copy_recordings(
        &self,
        input: &Path,
        folder: &Folder,
        dataset: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<(), DataError> {
        let refused = |reason: &str| DataError::Argument { argument: "--input", reason: reason.to_owned() };
        if dataset.is_some() {
            return Err(refused("[transcription.speech] names a dataset: remove `dataset` there, or omit --input"));
        }
        let output = speech::input_folder(folder);
        if output.exists() && !self.replace {
            let reason = "recordings exist already: omit the option to continue with them, or add --replace";
            return Err(refused(reason));
        }
        let input = input.to_owned();
        let name = "recordings".to_owned();
        add(&Options { input, output, name, replace: self.replace, created: format_date(now)? })?;
        Ok(())
    }
}

/// Returns the number of unused pieces for each word of a list, and for none of them.
fn count_unused_pieces(
    path: &Path,
    language: StemmingLanguage,
    settings: TranscriptionSettings,
    folder: &Folder,
) -> Result<String, DataError> {
    let io = |source| DataError::File { argument: "--words", path: path.to_owned(), source };
    let vocabulary = public(language, &WordList::parse(&std::fs::read_to_string(path).map_err(io)?)?)?;
    // Pieces are counted as if recorded speech were configured.
    let settings = match settings.speech {
        SpeechSource::Recorded { .. } => settings,
        _ => TranscriptionSettings {
            speech: SpeechSource::Recorded { dataset: None, again: false, fill: None },
            ..settings
        },
    };
    let site = TranscriptionSite {
        settings,
        site: folder.root().to_owned(),
        results: folder.root().to_owned(),
        environment: |name| std::env::var_os(name),
        clock: clock::system(),
    };
    let mut table = String::new();
    for (word, pieces) in count_remaining(&vocabulary, &site)?.unwrap_or_default() {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{pieces:>8}  {word}");
    }
    Ok(table)
}
