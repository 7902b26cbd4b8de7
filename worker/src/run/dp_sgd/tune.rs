//! Tuning without payment: a rehearsal on public data chooses a job's clip, step, rate, batch and more.
//!
//! The lead's public data are split by speaker, or by unit of a table: one part acts as the lead, one as each of the
//! other participants, and one is for measurement only. Then the whole job runs in this process, for one setting after
//! the other. The code is that of real runs: the same batches, clip, integers, noise and optimizer. The expected batch q n
//! is that of the real parties, and the noise is the one that the target epsilon requires at that q and that number of
//! rounds. It reads no private data, sends nothing and charges nothing: it costs time.
//!
//! It cannot know the difference between the private data and the public ones. A clip and a rate transfer well, an
//! accuracy does not.
//!
//! The modules: `search` is the input, `setting` the grid of settings, `noise` their noise, `public_data` the data, `split`
//! their parts, `roles` their assignment to participants, `rehearsal` the run, `halving` the choice of survivors, `journal`
//! the results. None may access a ledger, a key or the network.

use std::path::{Path, PathBuf};
use std::time::Instant;

use undertone_api::job::dp_sgd::{Arm, SettingMeasure, Spec};
use undertone_api::job::{Measurement, Report};

use self::journal::TuneJournal;
use self::rehearsal::{JobRehearsal, RehearsalInput, RehearsalResult};
use self::roles::{RehearsedJob, RoleAssignment};
use super::checkpoint;
use crate::run::RunError;

mod error;
mod halving;
mod journal;
mod noise;
mod public_data;
mod rehearsal;
mod roles;
mod search;
mod setting;
mod split;

pub use self::error::TuneError;
pub use self::journal::TrialResult;
pub use self::noise::PrivacyGoal;
pub(super) use self::public_data::PublicData;
pub use self::search::TuneSearch;
pub use self::setting::{SettingGrid, TuneSetting};

/// The figures of a model on the development data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestFigures {
    /// As [`TrialResult::accuracy`].
    pub accuracy: f64,
    /// As [`TrialResult::loss`].
    pub loss: f64,
}

impl TestFigures {
    /// The worst figures.
    const WORST: Self = Self { accuracy: 0.0, loss: f64::MAX };

    /// Returns figures that JSON can state: a loss that is no number, or infinite, is the greatest one.
    const fn new(accuracy: f64, loss: f64) -> Self {
        Self { accuracy, loss: if loss.is_finite() { loss } else { f64::MAX } }
    }
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
    /// Figures of the warm start alone.
    pub public: TestFigures,
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
    let rounds = search.check()?;
    let settings = search.grid.settings(&rounds, search.settings, search.seed)?;
    let data = PublicData::open(&search.spec, &search.dataset)?;
    let identity = search.identity(data.digest())?;
    let work = search.work.join(&identity[..12]);
    std::fs::create_dir_all(&work).map_err(TuneError::io("make", &work))?;
    let mut journal = TuneJournal::open(&work.join("journal.jsonl"), &identity)?;
    let roles = RoleAssignment::assign(search, &data, &work)?;
    drop(data);

    let began = Instant::now();
    let deadline = search.time.map(|time| began + time);
    let trials = Trials { search, roles: &roles, work: &work, deadline };
    let public = trials.warm_up()?;
    let measure = SettingMeasure::from_loss(search.spec.model.loss);
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
        alive = if rung + 1 < last { halving::better_half(measure, ranking) } else { Vec::new() };
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            break;
        }
        if alive.is_empty() {
            break;
        }
    }
    let chosen = choose_best(measure, journal.results(), search.halvings).ok_or(TuneError::Time)?;
    let spec = roles.spec_with(&chosen.setting)?;
    let tried = journal.results().to_vec();
    Ok(TuneResult { spec, chosen, tried, settings: settings.len(), public, held: roles.role_units(), work })
}

/// Returns the best of the results after the most rounds.
fn choose_best(measure: SettingMeasure, results: &[TrialResult], halvings: u32) -> Option<TrialResult> {
    let rung = |result: &TrialResult| {
        let rungs = halving::rungs(result.setting.rounds, halvings);
        // A setting with few rounds has fewer rungs, and its last one equals the last of the others.
        rungs.iter().position(|after| *after == result.after).map(|place| halvings as usize + 1 + place - rungs.len())
    };
    let measured = || results.iter().filter(|result| result.failed.is_none());
    let furthest = measured().filter_map(rung).max()?;
    let rank = |result: &TrialResult| (result.number, result.accuracy, result.loss);
    let candidates = measured().filter(|result| rung(result) == Some(furthest));
    candidates.min_by(|a, b| halving::compare(measure, rank(a), rank(b))).cloned()
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
    /// Trains the lead, once for all settings; returns its figures.
    fn warm_up(&self) -> Result<TestFigures, TuneError> {
        let job = self.roles.warm_start_job();
        let Some(RehearsalResult { report: Some(Report::DpSgd(report)), .. }) =
            self.rehearse(&job, &self.work.join("warm"), 0)?
        else {
            return Err(TuneError::Time);
        };
        let test = report.arms.first().and_then(|arm| arm.tests.first());
        Ok(test.map_or(TestFigures::WORST, |test| TestFigures::new(test.accuracy, test.loss)))
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
        let figures = measurements.iter().find(is_result).map(|m| TestFigures::new(m.accuracy, m.loss));
        let failed = failure.or_else(|| figures.is_none().then(|| "nothing was measured".to_owned()));
        let TestFigures { accuracy, loss } = figures.unwrap_or(TestFigures::WORST);
        let noise = proposal.participants.iter().find_map(|party| party.noise);
        Ok(Some(TrialResult {
            number: rung.number,
            setting: rung.setting,
            noise_multiplier: noise.map_or(0.0, |noise| noise.noise_multiplier.get()),
            after: rung.after,
            accuracy,
            loss,
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
            models: &self.search.models,
            published: &self.search.published,
            seed: self.search.seed,
            until,
            deadline: self.deadline,
            stop: &self.search.stop,
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
