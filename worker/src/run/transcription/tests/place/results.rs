//! The results of a site's runs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;
use undertone_api::job::transcription::TranscriptionOutcome;

use super::Place;
use crate::clouds::Cloud;

impl Place {
    /// Returns the sounds that each provider received, in order of arrival.
    pub(in crate::run::transcription::tests) fn received(&self) -> Vec<Vec<Vec<u8>>> {
        let of = |cloud: &Cloud| cloud.received().into_iter().map(|one| one.wav).collect();
        self.providers.iter().map(of).collect()
    }

    /// Returns the number of sounds at the site's own recognizer.
    pub(in crate::run::transcription::tests) fn heard_at_the_site(&self) -> usize {
        self.site.received().len()
    }

    /// Returns the outcome in the site's own report.
    pub(in crate::run::transcription::tests) fn outcome(&self) -> TranscriptionOutcome {
        serde_json::from_value(self.page()["outcome"].clone()).unwrap()
    }

    /// Returns the site's own report.
    pub(in crate::run::transcription::tests) fn page(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.results().join("report.json")).unwrap()).unwrap()
    }

    /// Returns the words of all transcripts.
    pub(in crate::run::transcription::tests) fn words(&self) -> Vec<Value> {
        let words = ["first", "second"].map(|name| {
            let text = std::fs::read(self.results().join("recordings").join(format!("{name}.json"))).unwrap();
            let page: Value = serde_json::from_slice(&text).unwrap();
            page["words"].as_array().unwrap().clone()
        });
        words.concat()
    }

    pub(super) fn results(&self) -> PathBuf {
        self.folder.path().join("transcripts")
    }

    pub(in crate::run::transcription::tests) fn left_behind(&self) -> Vec<PathBuf> {
        let items = std::fs::read_dir(self.folder.path().join("work")).unwrap();
        items.map(|item| item.unwrap().path()).collect()
    }

    /// Returns whether only its owner may read the results.
    pub(in crate::run::transcription::tests) fn is_for_its_owner_alone(&self) -> bool {
        let formats = ["txt", "srt", "vtt", "json"].map(|ending| format!("recordings/first.{ending}"));
        let files = formats.into_iter().chain(["report.json", "histogram.tsv"].map(str::to_owned));
        let mode = |file: String| std::fs::metadata(self.results().join(file)).unwrap().permissions().mode() & 0o777;
        files.map(mode).all(|mode| mode == 0o600)
    }
}
