//! The data of the parties, and the proposal of jobs.

use std::ops::Range;
use std::path::{Path, PathBuf};

use support::stage::{SiteDataset, SpeechCorpus, TestConsortium, TestDatabase, TestResult};
use undertone_api::budget::NewBudget;
use undertone_api::id::JobId;
use undertone_api::job::dp_sgd::{Arm, Spec};
use undertone_api::job::{Job, NewJob, Spec as AnySpec};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};
use undertone_worker::site::folder::Folder;
use undertone_worker::speech::dataset::Dataset;
use undertone_worker::speech::model::Model;

/// The number of senones of the labels' acoustic model.
const CLASSES: &str = "5126";
const OUTLIER: &str = "3331";
/// The private datasets, each at the site after the lead's, in order.
pub(super) const PRIVATE: [&str; 3] = ["private-1", "private-2", "private-3"];
/// The test sets: name, dataset.
pub(super) const TESTS: [(&str, &str); 2] = [("an4-test", "an4-test"), ("outlier", "outlier-test")];
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

/// Returns the ids of a reader's recordings, sorted.
fn utterances(reader: &Path) -> TestResult<Vec<String>> {
    let mut ids = Vec::new();
    for chapter in names(reader)? {
        let files = names(&reader.join(&chapter))?;
        ids.extend(
            files.iter().filter_map(|file| file.strip_suffix(".flac").or(file.strip_suffix(".wav"))).map(str::to_owned),
        );
    }
    ids.sort();
    Ok(ids)
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
    pub(super) async fn set() -> TestResult<Self> {
        let Some(corpus) = SpeechCorpus::real() else {
            return Err("the speech data are not there: set UNDERTONE_DATA to the folder that holds `speech/`".into());
        };
        let mut stage =
            TestConsortium::set(TestDatabase::Sqlite, &["Public library", "Private 1", "Private 2", "Private 3"])
                .await?;
        // By name: positions in a list depend on all its elements, so private data accept neither --speaker-range nor
        // --first.
        let speakers = names(&corpus.folder().join("an4-train"))?;
        let an4 = |name: &str, visibility, range: Range<usize>| {
            let speakers = speakers.get(range).ok_or("an4-train has 74 speakers")?.join(",");
            let choice = ["--subset", "an4-train", "--speakers", &speakers, "--classes", CLASSES];
            TestResult::Ok(SiteDataset::new(name, visibility, &choice))
        };
        let readings = utterances(&corpus.folder().join("librispeech-test-other").join(OUTLIER))?;
        let first = readings.get(..6).ok_or("the outlier has read more than six utterances")?.join(",");
        let reader = |name: &str, visibility, more: &[&str]| {
            let mut holding = SiteDataset::new(
                name,
                visibility,
                &["--subset", "librispeech-test-other", "--speakers", OUTLIER, "--classes", CLASSES],
            );
            holding.choice.extend(more.iter().map(|word| (*word).to_owned()));
            holding
        };
        let test =
            SiteDataset::new("an4-test", "public", &["--subset", "an4-test", "--hold-out", "1", "--classes", CLASSES]);
        let plans = [
            vec![
                an4("public", "public", 0..20)?,
                test,
                reader("outlier-test", "public", &["--skip", "6", "--hold-out", "1"]),
            ],
            vec![an4(PRIVATE[0], "open", 20..47)?],
            vec![an4(PRIVATE[1], "open", 47..74)?],
            vec![reader(PRIVATE[2], "open", &["--utterances", &first])],
        ];
        for (site, holdings) in stage.sites.iter_mut().zip(plans) {
            for holding in holdings {
                site.prepare(&corpus, holding)?;
            }
            for (from, to) in [
                ("most_epsilon_per_job = 4.0", "most_epsilon_per_job = 1e4"),
                ("least_noise_multiplier = 0.5", "least_noise_multiplier = 0.05"),
                ("[budget.record]\nepsilon = 8.0\ndelta = 1e-6", "[budget.record]\nepsilon = 1e4\ndelta = 1e-5"),
            ] {
                site.edit_policy(from, to)?;
            }
        }
        stage.open().await?;
        let scene = Self { stage, warm: None };
        // Open data are charged nothing, but a job requires a budget.
        scene.budget(PrivacyUnit::Record, 1e-5).await?;
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
