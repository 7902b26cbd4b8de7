//! `data index-speech`: indexes recordings without confidential content, as speech for dummies.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use time::OffsetDateTime;

use super::prepare::dated;
use super::{Bar, DataError};
use crate::config::Config;
use crate::config::transcription::{Speech, Transcription};
use crate::run::TranscriptionSite;
use crate::run::transcription::count_remaining;
use crate::site::folder::Folder;
use crate::site::{clock, speech};
use crate::speech::recordings::{Options, add};
use crate::speech::transcribe::recorded::index::make;
use crate::speech::transcribe::vocabulary::language::StemmingLanguage;
use crate::speech::transcribe::vocabulary::{WordList, public};

/// Take recordings that anybody may have, and have them heard, so that dummies of transcriptions can be made of them.
///
/// What dummies say leaves the site as it was recorded: give recordings that anybody may hear, of people who said so. Best are some
/// that are not published: who has the same recordings finds the dummies by their words. The site's own recognizer hears all of them
/// once, which takes about as long as a transcription of them; interrupted, it goes on where it stopped when the command is run
/// again without --input.
#[derive(Debug, Args)]
pub(super) struct IndexSpeech {
    /// A folder of WAV and FLAC files that anybody may have, copied into the site's folder. Absent: what was given before, or the
    /// public dataset that [transcription.speech] names.
    #[arg(long, value_name = "FOLDER")]
    input: Option<PathBuf>,
    /// What is spoken in them, by ISO 639-1.
    #[arg(long, value_name = "CODE", default_value = "en")]
    language: String,
    /// Put these recordings in the place of those that were given before; and have all of them heard again, where others were
    /// heard, or another recognizer did. Which pieces were set aside for jobs stays known.
    #[arg(long)]
    replace: bool,
    /// Afterwards show how many pieces may still be dummies for each word of this list, one a line.
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
}

impl IndexSpeech {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        let settings = Config::load(folder)?.transcription;
        let language = StemmingLanguage::new(&self.language)?;
        let recognizer = settings.recognizer.as_ref().ok_or_else(|| DataError::Argument {
            argument: "--site",
            reason: "nobody hears recordings here: add [transcription.recognizer] to config.toml".to_owned(),
        })?;
        let dataset = settings.speech.recorded().and_then(|of| of.dataset);
        if let Some(input) = &self.input {
            self.take(input, folder, dataset.as_deref(), now)?;
        }
        let recordings = speech::open(folder, dataset.as_deref())?;
        let ears = recognizer.ears(folder.root(), language.code())?;
        let index = make(&recordings, language, &ears, &folder.speech(), self.replace, &Bar::default())?;
        let mut said = format!(
            "Recordings      {}\nSeconds         {}\nPieces          {}\nWords           {}\nDigest          {}\n",
            index.recordings,
            recordings.meta().seconds(),
            index.pieces,
            index.words,
            index.digest.get(..12).unwrap_or(&index.digest)
        );
        if settings.speech.recorded().is_none() {
            said.push_str("Not used yet: set [transcription.speech] kind = \"recorded\" in config.toml\n");
        }
        if let Some(words) = &self.words {
            said.push_str(&covered(words, language, settings, folder)?);
        }
        out.write_all(said.as_bytes()).map_err(DataError::Print)
    }

    /// Copies the recordings of a folder.
    fn take(&self, input: &Path, folder: &Folder, dataset: Option<&str>, now: OffsetDateTime) -> Result<(), DataError> {
        let refused = |reason: &str| DataError::Argument { argument: "--input", reason: reason.to_owned() };
        if dataset.is_some() {
            return Err(refused(
                "[transcription.speech] names a dataset: take `dataset` out of it, or leave --input out",
            ));
        }
        let output = speech::given(folder);
        if output.exists() && !self.replace {
            let reason = "there are recordings already: leave it out to go on with them, or say --replace";
            return Err(refused(reason));
        }
        let (input, name) = (input.to_owned(), "recordings".to_owned());
        add(&Options { input, output, name, replace: self.replace, created: dated(now)? })?;
        Ok(())
    }
}

/// Returns the number of unused pieces for each word of a list, and for none of them.
fn covered(
    path: &Path,
    language: StemmingLanguage,
    settings: Transcription,
    folder: &Folder,
) -> Result<String, DataError> {
    let io = |source| DataError::File { argument: "--words", path: path.to_owned(), source };
    let vocabulary = public(language, &WordList::parse(&std::fs::read_to_string(path).map_err(io)?)?)?;
    // Pieces are counted as if recorded speech were configured.
    let settings = match settings.speech {
        Speech::Recorded { .. } => settings,
        _ => Transcription { speech: Speech::Recorded { dataset: None, again: false, fill: None }, ..settings },
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
