//! A rehearsal job: the lead rehearses a planned job on parts of its own public data, and reports the results.
//!
//! It runs the search of the terminal's `tune` without the choice: every setting runs to its end, in each repeat with
//! other roles and other noise. It reads the lead's public dataset alone, computes on the site's device, and charges
//! nothing. The minutes of the spec bound a run; a killed worker resumes after the last finished setting.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use undertone_api::job::INITIAL_MODEL;
use undertone_api::job::Report as AnyReport;
use undertone_api::job::dp_sgd::{
    PublicContent, Rehearsal, RehearsalReport, RehearsedRun, RehearsedSetting, Report, Spec,
};

use super::error::TrainingError;
use super::tune::{PublicData, SettingGrid, TrialResult, TuneError, TuneResult, TuneSearch, tune};
use crate::run::evaluation::{digest_file, locate_model};
use crate::run::{Artifacts, Averaging, RunError, StopReason, check_cancelled};
use crate::site::folder::{FolderError, write_durably};

/// The period in which the run looks for its end.
const POLL_PERIOD: Duration = Duration::from_millis(500);
/// The folder of the roles' data, checkpoints and results, in the run's folder.
const WORK: &str = "rehearsal";
/// Share of the public speakers, or of the units of a table, for measurement only, as at the terminal.
const DEVELOPMENT: f64 = 0.15;
/// Least share of the other public units for the lead, as at the terminal.
const WARM: f64 = 0.5;

/// Runs a rehearsal job to its end, from the last setting that an earlier process finished.
///
/// # Errors
/// [`RunError::Refused`] when the site's policy does not mark the data as public, [`RunError::Stopped`] when the lease is
/// lost, [`RunError::Failed`] when the data are too few or the time is too short.
pub(super) fn run(
    spec: &Spec,
    rehearsal: &Rehearsal,
    exchange: &mut (impl Averaging + Artifacts),
) -> Result<(), RunError> {
    let own = exchange.participant();
    let (lead, name) = (own.dataset, own.dataset_name.clone());
    if spec.party(lead).is_none() {
        return Err(TrainingError::NotParticipant(name).into());
    }
    // The check precedes any read.
    let published = exchange.confirm_public(lead)?;
    let path = exchange.dataset(lead)?;
    let data = PublicData::open(spec, &path).map_err(RunError::from_failure)?;
    let contents = vec![PublicContent { dataset: lead, digest: data.digest().to_owned() }];
    let inputs = data.inputs();
    let classes = spec.model.classes.ok_or(TrainingError::NoClasses)?;
    drop(data);
    let units = rehearsal.parties.iter().map(|party| party.units.ok_or_else(|| TrainingError::NoUnits(name.clone())));
    let factors = |factors: &[f64]| std::iter::once(1.0).chain(factors.iter().copied()).collect();
    let grid = SettingGrid {
        clip: factors(&rehearsal.clip_factors),
        rate: factors(&rehearsal.rate_factors),
        ..SettingGrid::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let search = TuneSearch {
        spec: spec.rehearsed().ok_or(TrainingError::NoRehearsal)?,
        dataset: path,
        published,
        units: units.collect::<Result<_, _>>()?,
        goal: None,
        grid,
        settings: rehearsal.factors().count(),
        halvings: 0,
        development: DEVELOPMENT,
        warm: WARM,
        seed: rehearsal.seed,
        time: Some(Duration::from_secs(u64::from(rehearsal.minutes) * 60) / rehearsal.repeats.max(1)),
        stop: Arc::clone(&stop),
        models: find_models(spec, exchange)?,
        work: exchange.folder().join(WORK),
    };
    let report = watch(rehearsal, &search, &stop, exchange)?;
    let parameters = spec.model.parameters(spec.model.parts(), inputs, classes);
    exchange.submit_report(AnyReport::DpSgd(Report { arms: Vec::new(), parameters, contents, rehearsal: Some(report) }))
}

/// Removes the folder of the roles' data after the end of a part.
///
/// # Errors
/// [`RunError::Disk`] or [`RunError::Failed`] when the file system returns an error.
pub(in crate::run) fn forget(folder: &Path) -> Result<(), RunError> {
    let work = folder.join(WORK);
    match std::fs::remove_dir_all(&work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(FolderError::io("remove", &work)(error).into())
        }
        _ => Ok(()),
    }
}

/// Returns the folder with the initial model, if the plan begins with one: the site's own, or one in the run's folder
/// with the server's file.
fn find_models(spec: &Spec, exchange: &mut (impl Averaging + Artifacts)) -> Result<PathBuf, RunError> {
    let site = exchange.models();
    let fetched = exchange.folder().join("models");
    let Some(digest) = &spec.initial_model else { return Ok(site.unwrap_or(fetched)) };
    if let Some(site) = site.filter(|folder| locate_model(folder, digest).is_some()) {
        return Ok(site);
    }
    let file = exchange.fetch_file(INITIAL_MODEL)?;
    let actual = digest_file(&file);
    if actual != *digest {
        return Err(TrainingError::OtherInitialModel { digest: actual, expected: digest.clone() }.into());
    }
    std::fs::create_dir_all(&fetched)
        .map_err(|source| TrainingError::RehearsalFolder { path: fetched.clone(), source })?;
    write_durably(&fetched.join("initial.safetensors"), &file)?;
    Ok(fetched)
}

/// Runs the repeats on a thread of their own, and ends them when the exchange is stopped.
fn watch(
    rehearsal: &Rehearsal,
    search: &TuneSearch,
    stop: &AtomicBool,
    exchange: &dyn Averaging,
) -> Result<RehearsalReport, RunError> {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || drop(sender.send(rehearse_all(rehearsal, search))));
        loop {
            stop.fetch_or(check_cancelled(exchange).is_err(), Ordering::Relaxed);
            match receiver.recv_timeout(POLL_PERIOD) {
                // Results of an interrupted run are incomplete; the next process completes them.
                Ok(_) if stop.load(Ordering::Relaxed) => return Err(RunError::Stopped(StopReason::Requested)),
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(TrainingError::RehearsalPanic.into()),
            }
        }
    })
}

/// Runs every repeat; a repeat without time is left out if another one was measured.
fn rehearse_all(rehearsal: &Rehearsal, search: &TuneSearch) -> Result<RehearsalReport, RunError> {
    let mut repeats = Vec::new();
    for repeat in 1..=rehearsal.repeats {
        let search = TuneSearch { seed: rehearsal.seed.wrapping_add(u64::from(repeat)), ..search.clone() };
        let progress = |trial: &TrialResult| {
            tracing::debug!(
                repeat,
                setting = trial.number,
                seconds = trial.seconds,
                "setting of the rehearsal finished"
            );
        };
        match tune(&search, progress) {
            Ok(result) => repeats.push((repeat, result)),
            Err(TuneError::Time) => {}
            Err(TuneError::Run(error)) => return Err(error),
            Err(error) => return Err(RunError::from_failure(error)),
        }
    }
    let Some((_, first)) = repeats.first() else {
        return Err(TrainingError::RehearsalTime { minutes: rehearsal.minutes }.into());
    };
    let units = first.held.clone();
    let planned = u32::try_from(rehearsal.factors().count()).unwrap_or(u32::MAX);
    let settings = rehearsal.factors().map(|factors| collect_runs(rehearsal, factors, &repeats));
    let is_measured = |setting: &RehearsedSetting| !setting.runs.is_empty() || setting.failed > 0;
    Ok(RehearsalReport { units, planned, settings: settings.filter(is_measured).collect() })
}

/// Collects the results of one pair of factors.
fn collect_runs(
    rehearsal: &Rehearsal,
    (clip_factor, rate_factor): (f64, f64),
    repeats: &[(u32, TuneResult)],
) -> RehearsedSetting {
    // The grid multiplies in the same way, so that equal factors give equal bits.
    let rate = rehearsal.rounds.optimizer.learning_rate() * rate_factor;
    let is_own = |trial: &&TrialResult| {
        trial.setting.clip.to_bits() == clip_factor.to_bits()
            && trial.setting.optimizer.learning_rate().to_bits() == rate.to_bits()
    };
    let mut setting = RehearsedSetting { clip_factor, rate_factor, failed: 0, runs: Vec::new() };
    for (repeat, result) in repeats {
        let Some(trial) = result.tried.iter().find(is_own) else { continue };
        if trial.failed.is_some() {
            setting.failed += 1;
            continue;
        }
        setting.runs.push(RehearsedRun {
            repeat: *repeat,
            public: result.public.accuracy,
            private: trial.accuracy,
            loss: trial.loss,
            public_loss: Some(result.public.loss),
            seconds: trial.seconds,
        });
    }
    setting
}
