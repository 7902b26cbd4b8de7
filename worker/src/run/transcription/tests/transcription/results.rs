//! The results of a site's runs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;
use undertone_api::job::transcription::TranscriptionOutcome;

use super::{SITE, TestTranscription};
use crate::clouds::FakeCloud;

impl TestTranscription {
    /// Returns the sounds that each provider received, in order of arrival.
    pub(in crate::run::transcription::tests) fn provider_sounds(&self) -> Vec<Vec<Vec<u8>>> {
        let sounds = |cloud: &FakeCloud| cloud.received().into_iter().map(|request| request.wav).collect();
        self.providers.iter().map(sounds).collect()
    }

    /// Returns the number of sounds at the site's own recognizer.
    pub(in crate::run::transcription::tests) fn recognizer_requests(&self) -> usize {
        self.recognizer.received().len()
    }

    /// Returns the outcome in the site's own report.
    pub(in crate::run::transcription::tests) fn outcome(&self) -> TranscriptionOutcome {
        serde_json::from_value(self.site_report()["outcome"].clone()).unwrap()
    }

    /// Returns the site's own report.
    pub(in crate::run::transcription::tests) fn site_report(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.results_folder().join("report.json")).unwrap()).unwrap()
    }

    /// Returns the words of all transcripts.
    pub(in crate::run::transcription::tests) fn transcript_words(&self) -> Vec<Value> {
        let words = ["first", "second"].map(|name| {
            let text = std::fs::read(self.results_folder().join("recordings").join(format!("{name}.json"))).unwrap();
            let transcript: Value = serde_json::from_slice(&text).unwrap();
            transcript["words"].as_array().unwrap().clone()
        });
        words.concat()
    }

    pub(super) fn results_folder(&self) -> PathBuf {
        self.server.folder().join("transcripts")
    }

    pub(in crate::run::transcription::tests) fn work_files(&self) -> Vec<PathBuf> {
        let items = std::fs::read_dir(self.server.work_folder(SITE)).unwrap();
        items.map(|item| item.unwrap().path()).collect()
    }

    /// Returns whether only its owner may read the results.
    pub(in crate::run::transcription::tests) fn has_private_results(&self) -> bool {
        let formats = ["txt", "srt", "vtt", "json"].map(|ending| format!("recordings/first.{ending}"));
        let files = formats
            .into_iter()
            .chain(["report.json", "histogram.tsv", "sounds.json", "sounds/1.wav"].map(str::to_owned));
        let mode =
            |file: String| std::fs::metadata(self.results_folder().join(file)).unwrap().permissions().mode() & 0o777;
        files.map(mode).all(|mode| mode == 0o600)
    }
}
