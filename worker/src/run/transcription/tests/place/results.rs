//! What came of the runs of a site.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;
use undertone_api::job::transcription::Outcome;

use super::Place;
use crate::clouds::Cloud;

impl Place {
    /// What each provider received, in the order of its arrival.
    pub(in crate::run::transcription::tests) fn received(&self) -> Vec<Vec<Vec<u8>>> {
        let of = |cloud: &Cloud| cloud.received().into_iter().map(|one| one.wav).collect();
        self.providers.iter().map(of).collect()
    }

    /// Sounds that the site's own recognizer heard.
    pub(in crate::run::transcription::tests) fn heard_at_the_site(&self) -> usize {
        self.site.received().len()
    }

    /// The site's own report of what came of it.
    pub(in crate::run::transcription::tests) fn outcome(&self) -> Outcome {
        serde_json::from_value(self.page()["outcome"].clone()).unwrap()
    }

    /// The site's own report.
    pub(in crate::run::transcription::tests) fn page(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.results().join("report.json")).unwrap()).unwrap()
    }

    /// The words of all transcripts.
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

    /// That only its owner may read what was written.
    pub(in crate::run::transcription::tests) fn is_for_its_owner_alone(&self) -> bool {
        let formats = ["txt", "srt", "vtt", "json"].map(|ending| format!("recordings/first.{ending}"));
        let files = formats.into_iter().chain(["report.json", "histogram.tsv"].map(str::to_owned));
        let mode = |file: String| std::fs::metadata(self.results().join(file)).unwrap().permissions().mode() & 0o777;
        files.map(mode).all(|mode| mode == 0o600)
    }
}
