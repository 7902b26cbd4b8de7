//! The data of the parties, and the proposal of jobs.

use std::ops::Range;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use support::scene::pin_peers;
use support::stage::{SiteDataset, SpeechCorpus, TestConsortium, TestDatabase, TestResult};
use tempfile::TempDir;
use undertone_api::budget::NewBudget;
use undertone_api::id::JobId;
use undertone_api::job::dp_sgd::{Arm, Spec};
use undertone_api::job::{Job, NewJob, Spec as AnySpec};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};
use undertone_worker::site::folder::Folder;
use undertone_worker::speech::dataset::Dataset;
use undertone_worker::speech::model::Model;

use super::labels::{self, LabelSet};

/// The subset of the outlier's readers.
const READERS: &str = "librispeech-test-other";
/// The private datasets, each at the site after the lead's, in order; the last is the outlier's.
pub(super) const PRIVATE: [&str; 3] = ["private-1", "private-2", "private-3"];
/// The other recordings of the same speakers, at the lead, in the order of [`PRIVATE`].
pub(super) const HELD: [&str; 3] = ["held-1", "held-2", "outlier-test"];
/// The test sets: name, dataset.
pub(super) const TESTS: [(&str, &str); 2] = [("common", "common-test"), ("outlier", "outlier-test")];
/// The ε of a budget for all cells together.
const PLENTY: f64 = 1e4;

/// Returns the participants by name, the lead first, with their sampling rates.
pub(super) fn parties(lead: f64, others: f64) -> impl Iterator<Item = (&'static str, f64)> {
    std::iter::once(("public", lead)).chain(PRIVATE.map(|name| (name, others)))
}

/// Returns the names in a folder, sorted.
fn names(folder: &Path) -> TestResult<Vec<String>> {
    let entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<String> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Returns the ids of the recordings of a subset's speakers: those for training, and those held out.
fn divide(subset: &Path, speakers: &[String]) -> TestResult<[Vec<String>; 2]> {
    let mut sides = [Vec::new(), Vec::new()];
    for speaker in speakers {
        for chapter in names(&subset.join(speaker))? {
            for file in names(&subset.join(speaker).join(&chapter))? {
                let id = file.strip_suffix(".flac").or(file.strip_suffix(".wav"));
                let Some(id) = id else { continue };
                sides[usize::from(!is_member(id))].push(id.to_owned());
            }
        }
    }
    Ok(sides)
}

/// Decides by a coin whether a recording is for training: with probability 2/3, from the digest of its id.
fn is_member(id: &str) -> bool {
    Sha256::digest(id).first().is_some_and(|byte| *byte < 171)
}

/// Returns the datasets of each site: the lead's, then those of the private sites.
fn plan_datasets(corpus: &SpeechCorpus, labels: LabelSet, work: &Path) -> TestResult<Vec<Vec<SiteDataset>>> {
    let classes = labels.classes().to_string();
    // By name: positions in a list depend on all its elements, so private data accept neither --speaker-range nor --first.
    let speakers = names(&corpus.folder().join("an4-train"))?;
    let some = |range: Range<usize>| speakers.get(range).ok_or("an4-train has 74 speakers");
    let public = some(0..20)?.join(",");
    let choice = ["--subset", "an4-train", "--speakers", &public, "--classes", &classes];
    let mut lead = vec![SiteDataset::new("public", "public", &choice)];
    let choice = ["--subset", "an4-test", "--hold-out", "1", "--classes", &classes];
    lead.push(SiteDataset::new("common-test", "public", &choice));
    let readers = names(&corpus.folder().join(READERS))?;
    let sites = [("an4-train", some(20..47)?), ("an4-train", some(47..74)?), (READERS, readers.as_slice())];
    let mut others = Vec::new();
    for (index, (subset, speakers)) in sites.into_iter().enumerate() {
        let [members, held] = divide(&corpus.folder().join(subset), speakers)?;
        let list = |name: &str, ids: &[String]| -> TestResult<String> {
            let path = work.join(format!("{name}.txt"));
            std::fs::write(&path, ids.join("\n"))?;
            Ok(path.to_string_lossy().into_owned())
        };
        let file = list(PRIVATE[index], &members)?;
        let choice = ["--subset", subset, "--utterances-from", &file, "--classes", &classes];
        others.push(vec![SiteDataset::new(PRIVATE[index], "open", &choice)]);
        let file = list(HELD[index], &held)?;
        let choice = ["--subset", subset, "--utterances-from", &file, "--hold-out", "1", "--classes", &classes];
        lead.push(SiteDataset::new(HELD[index], "public", &choice));
    }
    others.insert(0, lead);
    Ok(others)
}

/// The consortium.
pub(super) struct ArmsConsortium {
    pub(super) stage: TestConsortium,
    /// The lead's checkpoint after the warm start.
    pub(super) warm: Option<Vec<u8>>,
}

impl ArmsConsortium {
    /// Sets up the sites, their data and policies for a measurement.
    ///
    /// # Errors
    /// Any step that does not work as documented, or missing data.
    pub(super) async fn set(labels: LabelSet, delta: f64) -> TestResult<Self> {
        let Some(corpus) = SpeechCorpus::real() else {
            return Err("the speech data are not there: set UNDERTONE_DATA to the folder that holds `speech/`".into());
        };
        let work = TempDir::with_prefix("undertone-arms-")?;
        let corpus = match labels {
            LabelSet::States => {
                let states = work.path().join("states.jsonl");
                labels::write_states(corpus.alignments(), &states)?;
                corpus.with_alignments(states)
            }
            LabelSet::Senones | LabelSet::Original => corpus,
        };
        let mut stage =
            TestConsortium::set(TestDatabase::Sqlite, &["Public library", "Private 1", "Private 2", "Private 3"])
                .await?;
        let plans = plan_datasets(&corpus, labels, work.path())?;
        let budget = format!("[budget.record]\nepsilon = 1e4\ndelta = {delta:e}");
        for (site, holdings) in stage.sites.iter_mut().zip(plans) {
            for holding in holdings {
                site.prepare(&corpus, holding)?;
            }
            for (from, to) in [
                ("most_epsilon_per_job = 4.0", "most_epsilon_per_job = 1e4"),
                ("least_noise_multiplier = 0.5", "least_noise_multiplier = 0.05"),
                ("[jobs]\n", "[jobs]\nsecure_aggregation = { allowed = true }\n"),
                ("[budget.record]\nepsilon = 8.0\ndelta = 1e-6", &budget),
            ] {
                site.edit_policy(from, to)?;
            }
        }
        stage.open().await?;
        pin_peers(&stage.sites[1..], &PRIVATE)?;
        let scene = Self { stage, warm: None };
        // Open data are charged nothing, but a job requires a budget.
        scene.budget(PrivacyUnit::Record, delta).await?;
        Ok(scene)
    }

    /// Returns the number of participants.
    pub(super) fn everybody(&self) -> u32 {
        self.stage.sites.len() as u32
    }

    /// Gives every private dataset a budget for a unit. δ is that of the first call.
    ///
    /// # Errors
    /// When the server rejects a budget.
    pub(super) async fn budget(&self, unit: PrivacyUnit, delta: f64) -> TestResult<()> {
        for (index, name) in PRIVATE.into_iter().enumerate() {
            let dataset = self.stage.dataset(name).await?;
            if dataset.accounts.iter().any(|account| account.unit == unit) {
                continue;
            }
            if unit == PrivacyUnit::Speaker {
                // From here on jobs that protect records are refused, because a limit for speakers bounds every job.
                let both = "[budget.speaker]\nepsilon = 1e4\ndelta = 1e-3\n\n[budget.record]";
                self.stage.sites[index + 1].edit_policy("[budget.record]", both)?;
            }
            let budget = NewBudget { unit, epsilon: Epsilon::new(PLENTY)?, delta: Delta::new(delta)?, filter: None };
            self.stage.sites[index + 1].client.set_budget(dataset.id, &budget).await?;
        }
        Ok(())
    }

    /// Proposes a job and approves it for all parties. With the lead's checkpoint of a warm start, the job begins after
    /// it.
    ///
    /// # Errors
    /// When the job is refused.
    pub(super) async fn launch(&self, title: &str, spec: Spec, warm: Option<Vec<u8>>) -> TestResult<JobId> {
        let new = NewJob { title: title.to_owned(), spec: AnySpec::DpSgd(spec) };
        let job = self.stage.sites[0].client.propose(self.stage.consortium, &new).await?.summary.id;
        if let Some(warm) = warm {
            let folder = self.lead_folder(job).await?;
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("public.checkpoint"), warm)?;
        }
        for (index, name) in PRIVATE.into_iter().enumerate() {
            let dataset = self.stage.dataset(name).await?.id;
            self.stage.sites[index + 1].client.approve(job, dataset).await?;
        }
        Ok(job)
    }

    /// Returns the folder of the lead's checkpoints of a job.
    ///
    /// # Errors
    /// When the lead's dataset does not exist.
    pub(super) async fn lead_folder(&self, job: JobId) -> TestResult<PathBuf> {
        let dataset = self.stage.dataset("public").await?.id;
        Ok(Folder::new(self.stage.sites[0].folder()).work(job, dataset))
    }

    /// Returns a finished job's model of an arm.
    ///
    /// # Errors
    /// When it is not among the job's files.
    pub(super) async fn model(&self, job: &Job, arm: Arm) -> TestResult<Model> {
        let name = format!("model-{}.safetensors", arm.series());
        let client = &self.stage.sites[0].client;
        let files = client.artifacts(job.summary.id).await?;
        let file = files.iter().find(|file| file.name == name).ok_or_else(|| format!("the job left no {name}"))?;
        Ok(Model::from_safetensors(&client.content(file.id).await?)?)
    }

    /// Opens a prepared dataset from a site's disk, which only the experimenter can do.
    ///
    /// # Errors
    /// When it does not exist.
    pub(super) fn dataset(&self, name: &str) -> TestResult<Dataset> {
        let holder = self.stage.sites.iter().find(|site| site.holdings.iter().any(|holding| holding.name == name));
        let holder = holder.ok_or_else(|| format!("no site holds {name}"))?;
        Ok(Dataset::open(&Folder::new(holder.folder()).dataset(name)?)?)
    }
}
