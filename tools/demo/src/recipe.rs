//! The data of each party and the size of the job: for a given folder, or for a synthesized corpus.

use std::path::{Path, PathBuf};

use crate::DemoError;

/// The composition of the demo.
#[derive(Debug, Clone)]
pub(super) struct DemoRecipe {
    /// The recordings; `None` if they must be synthesized.
    pub(super) corpus: Option<CorpusFolder>,
    /// The parties; the public one first.
    pub(super) parties: Vec<PartyRecipe>,
    /// The size of the job.
    pub(super) scale: JobScale,
    /// Whether the owners open their data, for an arm without protection.
    pub(super) is_open: bool,
}

/// A folder of recordings with labels.
#[derive(Debug, Clone)]
pub(super) struct CorpusFolder {
    pub(super) folder: PathBuf,
    pub(super) labels: PathBuf,
}

/// An organization, its person and its datasets.
#[derive(Debug, Clone)]
pub(super) struct PartyRecipe {
    pub(super) name: &'static str,
    pub(super) email: &'static str,
    /// The folder of its site under the demo's folder.
    pub(super) site: &'static str,
    pub(super) datasets: Vec<DatasetRecipe>,
}

/// A dataset and the selection of its recordings, as arguments of `undertone-worker data prepare`.
#[derive(Debug, Clone)]
pub(super) struct DatasetRecipe {
    pub(super) name: &'static str,
    pub(super) choice: Vec<String>,
    /// The number of selected utterances to use, the first by id; `None` for all. The demo passes their ids to the
    /// worker. The first recordings depend on all recordings, so a worker does not accept `--first` for data with
    /// protected recordings.
    pub(super) first: Option<usize>,
    /// The name of the test set in tables; `None` for training data.
    pub(super) test: Option<&'static str>,
}

/// The size of the job.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobScale {
    pub(super) hidden: u32,
    pub(super) epochs: u32,
    pub(super) batch: u32,
    pub(super) rounds: u32,
    pub(super) sampling_rate: f64,
    /// z of every private party.
    pub(super) noise: f64,
}

/// Groups of the synthesized corpus: (name, speakers, is it an outlier).
pub(super) const GROUPS: [(&str, u32, bool); 5] =
    [("public", 4, false), ("first", 8, false), ("second", 8, false), ("third", 1, true), ("test", 4, false)];
/// Utterances of each synthesized speaker.
pub(super) const UTTERANCES: u32 = 20;
/// The outlier's utterances for training; the rest are for testing.
const OF_OUTLIER: usize = 6;

impl DemoRecipe {
    /// Returns the recipe for a folder, or for synthesized data.
    pub(super) fn new(data: Option<&Path>, is_open: bool) -> Result<Self, DemoError> {
        let Some(folder) = data else {
            let all = |group: &str| strings(&["--subset", group]);
            let scale = JobScale { hidden: 96, epochs: 24, batch: 4, rounds: 40, sampling_rate: 0.3, noise: 1.5 };
            let choices = RecordingChoices {
                public: all("public"),
                first: all("first"),
                second: all("second"),
                outlier: all("third"),
                test: all("test"),
            };
            return Ok(Self { corpus: None, parties: choices.parties(), scale, is_open });
        };
        let wrong = |reason: String| DemoError::Data { path: folder.to_owned(), reason };
        let folder = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
        let labels = labels(&folder).map_err(&wrong)?;
        let choices = RecordingChoices::from_folder(&folder).map_err(&wrong)?;
        let scale = JobScale { hidden: 128, epochs: 12, batch: 8, rounds: 30, sampling_rate: 0.15, noise: 1.0 };
        Ok(Self { corpus: Some(CorpusFolder { folder, labels }), parties: choices.parties(), scale, is_open })
    }
}

/// The recordings of each dataset.
struct RecordingChoices {
    public: Vec<String>,
    first: Vec<String>,
    second: Vec<String>,
    outlier: Vec<String>,
    test: Vec<String>,
}

impl RecordingChoices {
    /// Chooses from a folder: AN4 with one LibriSpeech reader if present, otherwise the speakers by name.
    fn from_folder(folder: &Path) -> Result<Self, String> {
        if folder.join("an4-train").is_dir() && folder.join("librispeech-test-other/3331").is_dir() {
            // By name: positions in the list depend on the other speakers.
            let names = folders(&folder.join("an4-train"))?.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
            let train = |range: std::ops::Range<usize>| {
                let names = names.get(range).ok_or_else(|| format!("{} speakers in an4-train, not 74", names.len()))?;
                Ok::<_, String>(strings(&["--subset", "an4-train", "--speakers", &names.join(",")]))
            };
            return Ok(Self {
                public: train(0..20)?,
                first: train(20..47)?,
                second: train(47..74)?,
                outlier: strings(&["--subset", "librispeech-test-other", "--speakers", "3331"]),
                test: strings(&["--subset", "an4-test"]),
            });
        }
        let speakers = speakers(folder)?;
        let count = speakers.len();
        if count < 5 {
            return Err(format!("{count} speakers in <subset>/<speaker>/ are too few for the demo: it needs 5"));
        }
        // The last speaker is the outlier, a tenth is for testing, and three tenths of the others are public.
        let test = (count / 10).max(1);
        let rest = count - 1 - test;
        let public = (rest * 3 / 10).max(1);
        let half = (rest - public) / 2;
        let speakers_option = |from: usize, to: usize| strings(&["--speakers", &speakers[from..to].join(",")]);
        Ok(Self {
            public: speakers_option(0, public),
            first: speakers_option(public, public + half),
            second: speakers_option(public + half, rest),
            test: speakers_option(rest, rest + test),
            outlier: speakers_option(count - 1, count),
        })
    }

    fn parties(self) -> Vec<PartyRecipe> {
        let rest = OF_OUTLIER.to_string();
        let private = |name, choice| DatasetRecipe { name, choice, first: None, test: None };
        let with = |mut choice: Vec<String>, more: &[&str]| {
            choice.extend(strings(more));
            choice
        };
        let tests = ["--hold-out", "1"];
        let public = vec![
            private("public-speech", self.public),
            DatasetRecipe {
                name: "common-test",
                choice: with(self.test, &tests),
                first: None,
                test: Some("common-test"),
            },
            DatasetRecipe {
                name: "outlier-test",
                choice: with(self.outlier.clone(), &["--skip", &rest, "--hold-out", "1"]),
                first: None,
                test: Some("outlier-test"),
            },
        ];
        let party = |name, email, site, datasets| PartyRecipe { name, email, site, datasets };
        vec![
            party("Public Archive", "archive@demo.example", "archive", public),
            party("North Clinic", "north@demo.example", "north", vec![private("north-speech", self.first)]),
            party("South Clinic", "south@demo.example", "south", vec![private("south-speech", self.second)]),
            party(
                "Voice Bank",
                "voice@demo.example",
                "voice",
                vec![DatasetRecipe { first: Some(OF_OUTLIER), ..private("voice-speech", self.outlier) }],
            ),
        ]
    }
}

/// Returns the only file of labels.
fn labels(folder: &Path) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(folder.join("alignments")).map_err(|error| format!("alignments/: {error}"))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    match (files.pop(), files.pop()) {
        (Some(file), None) => Ok(file),
        (None, _) => Err("alignments/ has no .jsonl file with labels".to_owned()),
        (Some(_), Some(_)) => Err("alignments/ has several .jsonl files: keep the one to use".to_owned()),
    }
}

/// Returns the names of all speakers, sorted.
fn speakers(folder: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for (subset, path) in folders(folder)? {
        if subset != "alignments" {
            names.extend(folders(&path)?.into_iter().map(|(name, _)| name));
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the folders in a folder, sorted by name.
fn folders(path: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let entries = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let all = entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir());
    let mut all: Vec<_> = all.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect();
    all.sort();
    Ok(all)
}

/// Returns the ids of the recordings below `folder` that are in folders of all these `names`, sorted.
pub(super) fn utterances(folder: &Path, names: &[&str]) -> Result<Vec<String>, String> {
    let mut missing = names.to_vec();
    if let Some(name) = folder.file_name() {
        missing.retain(|missing| name != *missing);
    }
    let mut ids = Vec::new();
    for (_, path) in folders(folder)? {
        ids.extend(utterances(&path, &missing)?);
    }
    if missing.is_empty() {
        let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let audio =
            |path: &PathBuf| path.extension().is_some_and(|extension| extension == "wav" || extension == "flac");
        let files = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(audio);
        ids.extend(files.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())));
    }
    ids.sort();
    Ok(ids)
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
