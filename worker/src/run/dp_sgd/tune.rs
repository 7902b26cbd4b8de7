//! Tuning without payment: a rehearsal on public data chooses a job's clip, step, rate, batch and more.
//!
//! The lead's public data are split by speaker: one part acts as the lead, one as each of the other participants, and
//! one is for measurement only. Then the whole job runs in this process, for one setting after the other. The code is
//! that of real runs: the same batches, clip, integers, noise and optimizer. The expected batch q n is that of the real
//! parties, and the noise is the one that the target epsilon requires at that q and that number of rounds. It reads no
//! private data, sends nothing and charges nothing: it costs time.
//!
//! It cannot know the difference between the private data and the public ones. A clip and a rate transfer well, an
//! accuracy does not.
//!
//! The modules: `setting` is the grid of settings, `noise` their noise, `split` the parts of the data, `roles` their
//! assignment to participants, `rehearsal` the run, `halving` the choice of survivors, `journal` the results. None may
//! access a ledger, a key or the network.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use undertone_api::job::dp_sgd::{Arm, Spec};
use undertone_api::job::{Measurement, Report};

use self::journal::TuneJournal;
use self::rehearsal::{JobRehearsal, RehearsalInput, RehearsalResult};
use self::roles::{RehearsedJob, RoleAssignment};
use super::checkpoint;
use crate::run::RunError;
use crate::site::folder::FolderError;
use crate::site::gate::{self, NotPublic};
use crate::site::policy::DatasetRules;
use crate::speech::dataset::{Dataset, DatasetError};

mod halving;
mod journal;
mod noise;
mod rehearsal;
mod roles;
mod setting;
mod split;

pub use journal::TrialResult;
pub use noise::PrivacyGoal;
pub use setting::{SettingGrid, TuneSetting};

/// The reason for a failed search.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The data are not public.
    #[error(transparent)]
    NotPublic(#[from] NotPublic),
    /// The spec or an option is wrong.
    #[error("{0}")]
    Spec(String),
    /// A record of the search has no JSON form.
    #[error("cannot write a record of the search as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The data cannot be split.
    #[error(
        "the public data have {speakers} speakers to train on, and {needed} are needed: one for each participant and \
         one to measure on"
    )]
    TooFew {
        /// The number of speakers.
        speakers: usize,
        /// The required number of speakers.
        needed: usize,
    },
    /// The disk failed.
    #[error("cannot {action} {path}: check that this user may, and that the disk has room")]
    Io {
        /// The failed action, a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The journal cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The journal of another search.
    #[error("{0} is not the journal of this search, or was changed: remove its folder to begin again")]
    Journal(PathBuf),
    /// The data failed.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The spec's own setting, or the warm start, cannot be rehearsed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The time limit was too short.
    #[error("the time was over before the first setting was measured: give more --minutes (the finished part is kept)")]
    Time,
}

impl TuneError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}

/// The input of a search.
#[derive(Debug, Clone)]
pub struct TuneSearch {
    /// The job as it would be proposed. Its private arm is tuned; every party that has to add noise must have some.
    pub spec: Spec,
    /// The path of the public dataset.
    pub dataset: PathBuf,
    /// The site's rules for it.
    pub rules: DatasetRules,
    /// Units of every participant but the first, in order, by their size classes.
    pub units: Vec<u64>,
    /// The target cost of each private party; `None` to keep the spec's noise.
    pub goal: Option<PrivacyGoal>,
    /// The varied parameters.
    pub grid: SettingGrid,
    /// The highest number of settings, including the spec's own.
    pub settings: usize,
    /// The number of times that the worse half is dropped.
    pub halvings: u32,
    /// The fraction of the speakers for measurement only: greater than 0, less than 1.
    pub development: f64,
    /// The lead's lowest fraction of the other units: greater than 0, less than 1.
    pub warm: f64,
    /// Determines the order of the search, the roles, and the noise.
    pub seed: u64,
    /// The time limit; `None` for no limit.
    pub time: Option<Duration>,
    /// A folder for intermediate results. Every search has a subfolder, from which it resumes.
    pub work: PathBuf,
}

/// The properties that identify a search.
#[derive(Serialize)]
struct SearchIdentity<'a> {
    spec: &'a Spec,
    data: &'a str,
    units: &'a [u64],
    goal: Option<(f64, f64)>,
    grid: &'a SettingGrid,
    settings: usize,
    halvings: u32,
    shares: (f64, f64),
    seed: u64,
}

/// The result of a search.
#[derive(Debug, Clone)]
pub struct TuneResult {
    /// The spec with the chosen setting and its required noise.
    pub spec: Spec,
    /// The best of the results after the most rounds.
    pub chosen: TrialResult,
    /// All results, in order; a setting has a line for each rung it reached.
    pub tried: Vec<TrialResult>,
    /// The number of settings, including those without time.
    pub settings: usize,
    /// Accuracy of the warm start alone on the development data.
    pub public: f64,
    /// Units in the role of each participant, the lead first.
    pub held: Vec<u64>,
    /// The folder from which it resumes.
    pub work: PathBuf,
}

/// Runs the search; calls `report` with every result. Blocks.
///
/// # Errors
/// [`TuneError`], with a text for the researcher.
pub fn tune(search: &TuneSearch, mut report: impl FnMut(&TrialResult)) -> Result<TuneResult, TuneError> {
    // The check precedes any read.
    gate::prove_public(&search.rules)?;
    let rounds = check(search)?;
    let settings = search.grid.settings(&rounds, search.settings, search.seed)?;
    let dataset = Dataset::open(&search.dataset)?;
    let identity = search.identity(&dataset.meta().digest)?;
    let work = search.work.join(&identity[..12]);
    std::fs::create_dir_all(&work).map_err(TuneError::io("make", &work))?;
    let mut journal = TuneJournal::open(&work.join("journal.jsonl"), &identity)?;
    let roles = RoleAssignment::assign(search, &dataset, &work)?;
    drop(dataset);

    let began = Instant::now();
    let deadline = search.time.map(|time| began + time);
    let trials = Trials { search, roles: &roles, work: &work, deadline };
    let public = trials.warm_up()?;
    let last = search.halvings as usize + 1;
    let mut alive: Vec<usize> = (0..settings.len()).collect();
    for rung in 0..last {
        // Each rung has its share of the time, so that some settings run to their end.
        let share = search.time.map(|time| began + time.mul_f64((rung + 1) as f64 / last as f64));
        let mut ranking = Vec::new();
        for number in alive {
            let rungs = halving::rungs(settings[number].rounds, search.halvings);
            let Some(after) = rungs.get(rung).or(rungs.last()).copied() else { continue };
            let result = match journal.find(number, after) {
                Some(result) => result,
                None if !ranking.is_empty() && share.is_some_and(|share| Instant::now() >= share) => break,
                None => {
                    let setting_rung = SettingRung { number, setting: settings[number], rungs: &rungs, after };
                    let Some(result) = trials.measure(&setting_rung)? else { break };
                    journal.record(result.clone())?;
                    report(&result);
                    result
                }
            };
            ranking.push((number, result.accuracy, result.loss));
        }
        if ranking.is_empty() {
            break;
        }
        alive = if rung + 1 < last { halving::better_half(ranking) } else { Vec::new() };
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            break;
        }
        if alive.is_empty() {
            break;
        }
    }
    let chosen = choose_best(journal.results(), search.halvings).ok_or(TuneError::Time)?;
    let spec = roles.spec_with(&chosen.setting)?;
    let tried = journal.results().to_vec();
    Ok(TuneResult { spec, chosen, tried, settings: settings.len(), public, held: roles.role_units(), work })
}

/// Returns the best of the results after the most rounds.
fn choose_best(results: &[TrialResult], halvings: u32) -> Option<TrialResult> {
    let rung = |result: &TrialResult| {
        let rungs = halving::rungs(result.setting.rounds, halvings);
        // A setting with few rounds has fewer rungs, and its last one equals the last of the others.
        rungs.iter().position(|after| *after == result.after).map(|place| halvings as usize + 1 + place - rungs.len())
    };
    let measured = || results.iter().filter(|result| result.failed.is_none());
    let furthest = measured().filter_map(rung).max()?;
    let rank = |result: &TrialResult| (result.number, result.accuracy, result.loss);
    let candidates = measured().filter(|result| rung(result) == Some(furthest));
    candidates.min_by(|a, b| halving::compare(rank(a), rank(b))).cloned()
}

/// Returns the private rounds, after a check of the whole input.
fn check(search: &TuneSearch) -> Result<undertone_api::job::dp_sgd::Rounds, TuneError> {
    let refuse = |why: &str| Err(TuneError::Spec(why.to_owned()));
    let TuneSearch { spec, units, development, warm, .. } = search;
    let Some(rounds) = spec.private else { return refuse("the spec has no private arm: there is nothing to tune") };
    if spec.selection.is_some() {
        return refuse("the spec leaves the choice to a selection at the sites: tune it without `selection`");
    }
    let others = spec.participants.len().saturating_sub(1);
    if others == 0 {
        return refuse("the spec has one participant only: add those whose data are to be learned from");
    }
    if units.len() != others {
        let why = format!("give the units of all {others} participants after the first, not of {}", units.len());
        return refuse(&why);
    }
    if units.contains(&0) {
        return refuse("a participant without units takes part in nothing: give it at least one");
    }
    if !spec.participants.iter().any(|party| party.noise.is_some()) {
        return refuse("no participant adds noise: there is nothing to tune");
    }
    for share in [development, warm] {
        if !(*share > 0.0 && *share < 1.0) {
            return refuse("the shares of the development data and of the lead are greater than 0 and less than 1");
        }
    }
    Ok(rounds)
}

impl TuneSearch {
    fn identity(&self, data: &str) -> Result<String, TuneError> {
        let identity = SearchIdentity {
            spec: &self.spec,
            data,
            units: &self.units,
            goal: self.goal.map(|goal| (goal.epsilon.get(), goal.delta.get())),
            grid: &self.grid,
            settings: self.settings,
            halvings: self.halvings,
            shares: (self.development, self.warm),
            seed: self.seed,
        };
        let text = serde_json::to_string(&identity)?;
        Ok(hex::encode(Sha256::new().chain_update("undertone/tune/1\0").chain_update(text).finalize()))
    }
}

/// One rung of one setting.
struct SettingRung<'a> {
    number: usize,
    setting: TuneSetting,
    rungs: &'a [u32],
    after: u32,
}

/// The rehearsals of one search.
struct Trials<'a> {
    search: &'a TuneSearch,
    roles: &'a RoleAssignment<'a>,
    /// The search's folder.
    work: &'a Path,
    deadline: Option<Instant>,
}

impl Trials<'_> {
    /// Trains the lead, once for all settings; returns its accuracy on the development data.
    fn warm_up(&self) -> Result<f64, TuneError> {
        let job = self.roles.warm_start_job();
        let Some(RehearsalResult { report: Some(Report::DpSgd(report)), .. }) =
            self.rehearse(&job, &self.work.join("warm"), 0)?
        else {
            return Err(TuneError::Time);
        };
        Ok(report.arms.first().and_then(|arm| arm.tests.first()).map_or(0.0, |test| test.accuracy))
    }

    /// Rehearses a setting from the previous rung to its next; returns `None` when the time was over first.
    fn measure(&self, rung: &SettingRung<'_>) -> Result<Option<TrialResult>, TuneError> {
        let began = Instant::now();
        let proposal = self.roles.spec_with(&rung.setting)?;
        let job = self.roles.private_job(&proposal, rung.rungs[0]);
        let folder = self.prepare_folder(rung)?;
        let (measurements, failure) = match self.rehearse(&job, &folder, rung.after) {
            Ok(Some(result)) => (result.measurements, None),
            Ok(None) => {
                remove(&folder)?;
                return Ok(None);
            }
            // A setting that cannot run, or that diverges, does not end the search; the spec's own does.
            Err(TuneError::Run(RunError::Failed(problem))) if rung.number > 0 => {
                (Vec::new(), Some(problem.with_causes()))
            }
            Err(error) => return Err(error),
        };
        if let Some(previous) = self.previous_rung(rung) {
            remove(&self.rung_folder(rung, previous))?;
        }
        let is_result = |m: &&Measurement| m.series == Arm::Private.series() && m.round == rung.after;
        let figures = measurements.iter().find(is_result).map(|m| (m.accuracy, m.loss));
        let failed = failure.or_else(|| figures.is_none().then(|| "nothing was measured".to_owned()));
        let (accuracy, loss) = figures.unwrap_or((0.0, f64::MAX));
        let noise = proposal.participants.iter().find_map(|party| party.noise);
        Ok(Some(TrialResult {
            number: rung.number,
            setting: rung.setting,
            noise_multiplier: noise.map_or(0.0, |noise| noise.noise_multiplier.get()),
            after: rung.after,
            accuracy,
            loss: if loss.is_finite() { loss } else { f64::MAX },
            seconds: began.elapsed().as_secs_f64(),
            failed,
        }))
    }

    /// Prepares the folder of a rung: with the state after the previous one, or of the warm start.
    fn prepare_folder(&self, rung: &SettingRung<'_>) -> Result<PathBuf, TuneError> {
        let folder = self.rung_folder(rung, rung.after);
        // The unfinished part of an interrupted search begins again; the finished part is resumed.
        remove(&folder)?;
        if let Some(previous) = self.previous_rung(rung) {
            copy(&self.rung_folder(rung, previous), &folder)?;
            return Ok(folder);
        }
        let lead = JobRehearsal::work_folder(&folder, 0);
        std::fs::create_dir_all(&lead).map_err(TuneError::io("make", &lead))?;
        let warm_lead = JobRehearsal::work_folder(&self.work.join("warm"), 0);
        let warm = checkpoint::path(&warm_lead, Arm::Public.series());
        if warm.exists() {
            let target = checkpoint::path(&lead, Arm::Public.series());
            std::fs::copy(&warm, &target).map_err(TuneError::io("copy", &warm))?;
        }
        Ok(folder)
    }

    /// Returns the last finished rung before this one, if its folder is there.
    fn previous_rung(&self, rung: &SettingRung<'_>) -> Option<u32> {
        let mut rungs = rung.rungs.iter().rev().copied();
        rungs.find(|after| *after < rung.after && self.rung_folder(rung, *after).exists())
    }

    fn rung_folder(&self, rung: &SettingRung<'_>, after: u32) -> PathBuf {
        self.work.join(format!("setting-{}", rung.number)).join(format!("after-{after}"))
    }

    fn rehearse(&self, job: &RehearsedJob, folder: &Path, until: u32) -> Result<Option<RehearsalResult>, TuneError> {
        let input = RehearsalInput {
            manifest: &job.manifest,
            weights: job.weights.clone(),
            data: self.roles.data(),
            folder,
            rules: &self.search.rules,
            seed: self.search.seed,
            until,
            deadline: self.deadline,
        };
        Ok(JobRehearsal::new(input).run()?)
    }
}

fn remove(folder: &Path) -> Result<(), TuneError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(TuneError::io("remove", folder)(error)),
        _ => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), TuneError> {
    std::fs::create_dir_all(to).map_err(TuneError::io("make", to))?;
    for entry in std::fs::read_dir(from).map_err(TuneError::io("read", from))? {
        let entry = entry.map_err(TuneError::io("read", from))?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target).map_err(TuneError::io("copy", &target))?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
