//! Speech for scenarios: synthesized once for a whole run of tests, or real where a benchmark requires it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use super::TestResult;
use crate::workspace;

/// A folder of speech with its labels.
#[derive(Debug, Clone)]
pub struct SpeechCorpus {
    folder: PathBuf,
    alignments: PathBuf,
}

/// The corpus; its folder exists until the process ends.
static SMALL: OnceLock<Result<(TempDir, SpeechCorpus), String>> = OnceLock::new();

impl SpeechCorpus {
    /// Returns a small synthetic corpus with the subsets `public`, `one`, `two`, `odd` (voices unlike the others) and
    /// `test`. The first call makes it with `undertone-worker data synthesize`.
    ///
    /// # Errors
    /// When synthesis fails: flite or espeak-ng are missing (`make setup`).
    pub fn small() -> TestResult<Self> {
        let corpus = SMALL.get_or_init(|| {
            let folder = TempDir::with_prefix("undertone-corpus-").map_err(|error| error.to_string())?;
            let output = folder.path().join("speech");
            let synthesis = Command::new(workspace::program("undertone-worker").map_err(|error| error.to_string())?)
                .args(["data", "synthesize", "--utterances", "4", "--seed", "7"])
                .args(["--subset", "public=3", "--subset", "one=2", "--subset", "two=2", "--subset", "test=2"])
                .args(["--outlier", "odd=1"])
                .arg("--output")
                .arg(&output)
                .output()
                .map_err(|error| error.to_string())?;
            if !synthesis.status.success() {
                return Err(String::from_utf8_lossy(&synthesis.stderr).into_owned());
            }
            let alignments = output.join("alignments/phone-states.jsonl");
            Ok((folder, Self { folder: output, alignments }))
        });
        corpus.as_ref().map(|(_, corpus)| corpus.clone()).map_err(|error| error.clone().into())
    }

    /// Returns the real speech of the data folder, if it exists.
    pub fn real() -> Option<Self> {
        let folder = workspace::data()?.join("speech");
        let alignments = folder.join("alignments/pocketsphinx-en-us-senones.jsonl");
        alignments.is_file().then_some(Self { folder, alignments })
    }

    /// Replaces the labels by another file of them.
    #[must_use]
    pub fn with_alignments(self, alignments: PathBuf) -> Self {
        Self { alignments, ..self }
    }

    /// Returns the folder of recordings.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file of labels.
    pub fn alignments(&self) -> &Path {
        &self.alignments
    }
}
