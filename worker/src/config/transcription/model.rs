//! `[transcription.recognizer]` with `kind = "model"`: a model that a job of the consortium trained, as the recognizer of
//! this site.
//!
//! ```toml
//! [transcription.recognizer]
//! kind = "model"
//! digest = "2c26…"                      # SHA-256 of the model's file
//! file = "ward.safetensors"             # without it: the file in models/ that has the digest
//! characters = "characters.json"
//! lexicon = "words.dict"
//! language_model = "words.arpa"
//! ```
//!
//! The digest is required: it decides which model transcribes, and the site's report of each job names it. Files are
//! relative to the site's folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ConfigError;
use crate::config::field;
use crate::recognition::site::TrainedRecognizer;
use crate::recognition::{ModelRecognizer, RecognitionError, RecognizerFiles, RecognizerOptions};
use crate::run::evaluation::locate_model;
use crate::site::folder::Folder;
use crate::speech::decode::SearchOptions;
use crate::speech::transcribe::recognize::LONGEST;

/// The greatest factor of the language model.
pub const MOST_LANGUAGE_WEIGHT: f64 = 1_000.0;
/// The table of the settings.
const TABLE: &str = "transcription.recognizer";

/// A trained model with the files that turn its classes into words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedModel {
    /// SHA-256 of the model's file, 64 hexadecimal digits in lower case, as the registry shows it.
    pub digest: String,
    /// The model's file; without it, the file of the site's folder `models` that has the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The characters of a CTC model, as `data spell` writes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characters: Option<PathBuf>,
    /// The phones of a model of phone states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone_map: Option<PathBuf>,
    /// The classes of the labels of a model of phone states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_map: Option<PathBuf>,
    /// A pronouncing dictionary; for characters its words alone count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lexicon: Option<PathBuf>,
    /// A language model over the words of the dictionary (ARPA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language_model: Option<PathBuf>,
    /// The factor of the language model, 0 to 1,000; 10 for phones and 2 for characters if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language_weight: Option<f64>,
}

/// The reason why a trained model cannot transcribe.
#[derive(Debug, thiserror::Error)]
pub enum TrainedModelError {
    /// No file has the digest.
    #[error(
        "digest: no file in {folder} has the SHA-256 {digest}: download the model of the registry into that folder, name its \
         `file`, or correct the digest"
    )]
    UnknownDigest {
        /// The site's folder of models.
        folder: PathBuf,
        /// The configured digest.
        digest: String,
    },
    /// The file is another model.
    #[error("file: {path} has the SHA-256 {digest}, and `digest` is {expected}: correct one of them")]
    OtherDigest {
        /// The file.
        path: PathBuf,
        /// Its digest.
        digest: String,
        /// The configured digest.
        expected: String,
    },
    /// A file is missing, or is not what its key says.
    #[error(transparent)]
    Files(#[from] RecognitionError),
}

impl TrainedModel {
    /// Checks the rules beyond the types; reads no file.
    ///
    /// # Errors
    /// [`ConfigError::Field`] with the key and its permitted values.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |reason: &str| Err(field(TABLE, reason));
        let is_digit = |digit: char| digit.is_ascii_digit() || matches!(digit, 'a'..='f');
        if self.digest.len() != 64 || !self.digest.chars().all(is_digit) {
            return wrong("digest: must be the SHA-256 of the model's file, 64 hexadecimal digits in lower case");
        }
        match (&self.characters, &self.phone_map) {
            (Some(_), None) => {}
            (None, Some(_)) if self.lexicon.is_some() => {}
            (None, Some(_)) => return wrong("phone_map: needs a lexicon, which has the words of the phones"),
            (None, None) => {
                return wrong(
                    "characters: name the characters of a CTC model, or phone_map and lexicon of another one",
                );
            }
            (Some(_), Some(_)) => {
                return wrong("characters: a model has characters or phones (phone_map): name one of the two");
            }
        }
        if self.class_map.is_some() && self.phone_map.is_none() {
            return wrong("class_map: needs a phone_map, whose classes it numbers");
        }
        if self.language_model.is_some() && self.lexicon.is_none() {
            return wrong("language_model: needs a lexicon, which spells its words");
        }
        match self.language_weight {
            Some(weight) if !(0.0..=MOST_LANGUAGE_WEIGHT).contains(&weight) => {
                Err(field(TABLE, format!("language_weight: must be 0 to {MOST_LANGUAGE_WEIGHT}, not {weight}")))
            }
            _ => Ok(()),
        }
    }

    /// Opens the model. `site` is the site's folder.
    ///
    /// # Errors
    /// [`TrainedModelError`] for an unknown or another digest, a missing file, and files that do not fit the model.
    pub fn open(&self, site: &Path) -> Result<TrainedRecognizer, TrainedModelError> {
        let path = if let Some(file) = &self.file {
            site.join(file)
        } else {
            let folder = Folder::new(site.to_owned()).models();
            let unknown = || TrainedModelError::UnknownDigest { folder: folder.clone(), digest: self.digest.clone() };
            locate_model(&folder, &self.digest).ok_or_else(unknown)?
        };
        let in_site = |path: &Option<PathBuf>| path.as_ref().map(|path| site.join(path));
        let files = RecognizerFiles {
            model: path.clone(),
            dataset: None,
            phone_map: in_site(&self.phone_map),
            class_map: in_site(&self.class_map),
            characters: in_site(&self.characters),
            lexicon: in_site(&self.lexicon),
            language_model: in_site(&self.language_model),
        };
        let options = RecognizerOptions {
            language_weight: self.language_weight,
            subtracts_mean: None,
            longest: LONGEST,
            upsamples: true,
        };
        let search = SearchOptions { skip_missing_words: true, ..SearchOptions::default() };
        let recognizer = ModelRecognizer::open(&files, search, options)?;
        if recognizer.digest() == self.digest {
            Ok(TrainedRecognizer::new(recognizer))
        } else {
            let (digest, expected) = (recognizer.digest().to_owned(), self.digest.clone());
            Err(TrainedModelError::OtherDigest { path, digest, expected })
        }
    }
}
