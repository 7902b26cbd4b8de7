//! `tune`: rehearses a job on public data, and writes the best spec.
//!
//! It turns arguments into a search, and its result into a table and a file; the search is in
//! [`crate::run::dp_sgd::tune`].

use std::io::Write;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use undertone_api::job::Spec;
use undertone_api::job::dp_sgd::{self, ModelPart, ModelParts, Optimizer, SettingMeasure};
use undertone_privacy::{Delta, Epsilon};

use super::table::format_table;
use super::{CommandFailure, find_dataset};
use crate::config::{Config, ConfigError};
use crate::run::dp_sgd::tune::{PrivacyGoal, SettingGrid, TrialResult, TuneError, TuneResult, TuneSearch, tune};
use crate::site::folder::{Folder, FolderError, write_durably};
use crate::site::gate::prove_public;
use crate::site::policy::Policy;

/// Choose a job's clip, learning rate, batch and other settings by rehearsing it on public data.
///
/// Parts of the public data take the roles of the lead and of the other participants; one part is for measurement only. No
/// speaker, and no unit of a table, has two roles. Each setting runs the real job with the real noise, and after each
/// halving the better half continues. The command reads, sends and charges nothing private. Repeat it to continue an
/// interrupted search.
#[derive(Debug, Args)]
pub(super) struct TuneCommand {
    /// The proposed job in JSON, or its `spec` alone.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
    /// The public dataset of this site that leads the job.
    #[arg(long, value_name = "NAME")]
    dataset: String,
    /// The number of units (the records, speakers or units of tables that the job protects) of each participant after the first,
    /// in the spec's order.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', required = true)]
    units: Vec<u64>,
    /// The total epsilon of each private participant. Without it, the noise of the spec applies.
    #[arg(long, requires = "delta", value_parser = parse_number::<Epsilon>)]
    epsilon: Option<Epsilon>,
    /// The delta for --epsilon.
    #[arg(long, requires = "epsilon", value_parser = parse_number::<Delta>)]
    delta: Option<Delta>,
    /// The number of such jobs that --epsilon covers. For several numbers the search runs for each, with its share of the time;
    /// the table compares them, and the file has the job of the first.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "1", requires = "epsilon")]
    jobs: Vec<NonZeroU32>,
    /// Factors for the clip of every participant.
    #[arg(long, value_name = "X,X,...", value_delimiter = ',', default_value = "0.25,0.5,1,2")]
    clip: Vec<f64>,
    /// Factors for the learning rate.
    #[arg(long, value_name = "X,X,...", value_delimiter = ',', default_value = "0.3,1,3")]
    rate: Vec<f64>,
    /// Factors for the batch, that is for the sampling rate of every participant.
    #[arg(long, value_name = "X,X,...", value_delimiter = ',', default_value = "1,2")]
    batch: Vec<f64>,
    /// Factors for the number of rounds.
    #[arg(long, value_name = "X,X,...", value_delimiter = ',', default_value = "1")]
    rounds: Vec<f64>,
    /// An additional optimizer with its own learning rate: `sgd:RATE[:MOMENTUM]`, `adam:RATE`, `dp_adam:RATE`; may be
    /// repeated.
    #[arg(long = "optimizer", value_name = "KIND:RATE", value_parser = parse_optimizer)]
    optimizers: Vec<Optimizer>,
    /// The parts to train instead of the spec's: `all`, `output`, `layer1+output`, ...; may be repeated.
    #[arg(long = "train", value_name = "PARTS", value_parser = parse_parts)]
    train: Vec<TrainedParts>,
    /// The decay of the mean of the iterates instead of the spec's: `none`, `0.9`, ...; may be repeated.
    #[arg(long = "ema", value_name = "DECAY", value_parser = parse_decay)]
    averaging: Vec<AveragingDecay>,
    /// The number of altered copies of each unit of speech instead of the spec's, 1 to 16; 1 for none. May be repeated.
    #[arg(long = "copies", value_name = "N,N,...", value_delimiter = ',')]
    copies: Vec<u32>,
    /// The greatest number of settings to try, including the spec's own.
    #[arg(long, value_name = "N", default_value_t = 12)]
    settings: usize,
    /// The number of times that the search drops the worse half.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=8))]
    halvings: u32,
    /// Share of the public speakers, or units of a table, for measurement only.
    #[arg(long, value_name = "SHARE", default_value_t = 0.15)]
    development: f64,
    /// Least share of the other public units for the lead.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    warm: f64,
    /// The random seed for the order of the search, the assignment of roles, and the noise.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The time limit in minutes; the search then writes its best setting.
    #[arg(long, value_name = "MINUTES", default_value_t = 60.0)]
    minutes: f64,
    /// The file for the chosen job in JSON, ready to propose, with a record of the search.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy)]
struct TrainedParts(Option<ModelParts>);

#[derive(Debug, Clone, Copy)]
struct AveragingDecay(Option<f64>);

/// The reason for a rejected search.
#[derive(Debug, thiserror::Error)]
enum ArgumentError {
    #[error("--spec: {path} is neither a job of kind `dp_sgd` in JSON, nor its spec")]
    Spec {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("--output: {0} exists already: choose another file, or remove it")]
    Output(PathBuf),
    #[error("--minutes: must be greater than 0 and at most 100,000, not {0}")]
    Minutes(f64),
}

/// A job in a file: a proposal, or a spec alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum JobFile {
    Whole {
        #[serde(default)]
        title: Option<String>,
        #[serde(flatten)]
        spec: Box<Spec>,
    },
    Bare(Box<dp_sgd::Spec>),
}

/// The output: a proposal, with additional fields that its readers ignore.
#[derive(Serialize)]
struct TunedProposal<'a> {
    title: &'a str,
    #[serde(flatten)]
    spec: Spec,
    tuning: TuningRecord<'a>,
}

#[derive(Serialize)]
struct TuningRecord<'a> {
    note: &'static str,
    dataset: &'a str,
    units: &'a [u64],
    played_by: &'a [u64],
    seed: u64,
    /// The measure by which the settings are compared.
    measure: SettingMeasure,
    public_accuracy: f64,
    public_loss: f64,
    chosen: &'a TrialResult,
    tried: &'a [TrialResult],
    /// The best setting by the number of jobs that the budget covers.
    division: Vec<JobDivision<'a>>,
}

/// The best setting of a search for some number of jobs.
#[derive(Serialize)]
struct JobDivision<'a> {
    jobs: NonZeroU32,
    chosen: &'a TrialResult,
}

const NOTE: &str = "chosen by a rehearsal on public data, which read and charged nothing private. The results are those of parts of \
                    the public data in the roles of the participants, with noise from a seed: they rank settings and guarantee nothing.";
/// The greatest share that is printed: a diverged training predicts numbers far beyond the range of its target.
const MOST_SHARE: f64 = 10.0;

fn parse_number<T: TryFrom<f64, Error = undertone_privacy::UnitError>>(text: &str) -> Result<T, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    T::try_from(value).map_err(|error| error.to_string())
}

/// Parses `KIND:RATE[:MOMENTUM]`.
fn parse_optimizer(text: &str) -> Result<Optimizer, String> {
    let fields: Vec<&str> = text.split(':').collect();
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("{text:?} is not a number"));
    Ok(match fields[..] {
        ["sgd", rate] => Optimizer::Sgd { learning_rate: number(rate)?, momentum: 0.9 },
        ["sgd", rate, momentum] => Optimizer::Sgd { learning_rate: number(rate)?, momentum: number(momentum)? },
        ["adam", rate] => Optimizer::Adam { learning_rate: number(rate)? },
        ["dp_adam", rate] => Optimizer::DpAdam { learning_rate: number(rate)? },
        _ => return Err(format!("{text:?} is not sgd:RATE[:MOMENTUM], adam:RATE or dp_adam:RATE")),
    })
}

/// Parses `all` or `PART+PART`.
fn parse_parts(text: &str) -> Result<TrainedParts, String> {
    if text == "all" {
        return Ok(TrainedParts(None));
    }
    let find_part = |name: &str| {
        let part = ModelPart::ALL.into_iter().find(|part| part.name() == name);
        part.ok_or_else(|| format!("{name:?} is no part; parts are {}", ModelPart::ALL.map(ModelPart::name).join(", ")))
    };
    text.split('+').map(find_part).collect::<Result<ModelParts, _>>().map(|parts| TrainedParts(Some(parts)))
}

/// Parses `none` or a decay.
fn parse_decay(text: &str) -> Result<AveragingDecay, String> {
    match text.parse::<f64>() {
        _ if text == "none" => Ok(AveragingDecay(None)),
        Ok(decay) if decay > 0.0 && decay < 1.0 => Ok(AveragingDecay(Some(decay))),
        _ => Err(format!("{text:?} is neither `none` nor greater than 0 and less than 1")),
    }
}

/// Selects the device of the site's `[compute]`, as a run of the job does. A folder that is not enrolled has no
/// configuration, and computes on the CPU.
fn choose_device(folder: &Folder) -> Result<(), CommandFailure> {
    match Config::load(folder) {
        Ok(config) => eprintln!("computes on {}", config.compute.choose()?),
        Err(ConfigError::NotEnrolled(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

impl TuneCommand {
    /// Runs the search; prints progress to standard error and the table to `out`.
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
        if self.output.symlink_metadata().is_ok() {
            return Err(ArgumentError::Output(self.output.clone()).into());
        }
        let (title, spec) = read_job(&self.spec)?;
        let search = self.build_search(folder, spec)?;
        choose_device(folder)?;
        let mut results = Vec::new();
        for jobs in self.jobs.iter().copied() {
            let search = TuneSearch { goal: self.goal(jobs), ..search.clone() };
            let limit = search.settings;
            let measure = SettingMeasure::from_loss(search.spec.model.loss);
            let progress =
                |trial: &TrialResult| eprintln!("{}{}", self.format_jobs(jobs), format_progress(measure, trial, limit));
            results.push((jobs, tune(&search, progress)?));
        }
        // Clap gives at least the default.
        let Some((_, first)) = results.first() else { return Ok(()) };
        self.write(&title, first, &results)?;
        out.write_all(self.format_summary(first).as_bytes())?;
        if results.len() > 1 {
            out.write_all(format_division(&results).as_bytes())?;
        }
        Ok(())
    }

    fn goal(&self, jobs: NonZeroU32) -> Option<PrivacyGoal> {
        self.epsilon.zip(self.delta).map(|(epsilon, delta)| PrivacyGoal { epsilon, delta, jobs })
    }

    /// Formats the number of jobs for a line of progress, where the search runs for several.
    fn format_jobs(&self, jobs: NonZeroU32) -> String {
        if self.jobs.len() > 1 { format!("[{jobs} jobs] ") } else { String::new() }
    }

    fn build_search(&self, folder: &Folder, spec: dp_sgd::Spec) -> Result<TuneSearch, CommandFailure> {
        if !(self.minutes > 0.0 && self.minutes <= 100_000.0) {
            return Err(ArgumentError::Minutes(self.minutes).into());
        }
        let dataset = find_dataset(folder, &self.dataset)?;
        let grid = SettingGrid {
            clip: self.clip.clone(),
            rate: self.rate.clone(),
            batch: self.batch.clone(),
            rounds: self.rounds.clone(),
            optimizers: self.optimizers.clone(),
            parts: self.train.iter().map(|parts| parts.0).collect(),
            averaging: self.averaging.iter().map(|decay| decay.0).collect(),
            copies: self.copies.clone(),
        };
        Ok(TuneSearch {
            spec,
            dataset,
            published: prove_public(&Policy::load(&folder.policy())?.rules(&self.dataset)).map_err(TuneError::from)?,
            units: self.units.clone(),
            goal: self.goal(NonZeroU32::MIN),
            grid,
            settings: self.settings,
            halvings: self.halvings,
            development: self.development,
            warm: self.warm,
            seed: self.seed,
            time: Some(Duration::from_secs_f64(self.minutes * 60.0 / self.jobs.len().max(1) as f64)),
            stop: Arc::default(),
            models: folder.models(),
            work: folder.root().join("tune"),
        })
    }

    fn write(&self, title: &str, result: &TuneResult, all: &[(NonZeroU32, TuneResult)]) -> Result<(), CommandFailure> {
        let division = all.iter().map(|(jobs, result)| JobDivision { jobs: *jobs, chosen: &result.chosen });
        let tuning = TuningRecord {
            note: NOTE,
            dataset: &self.dataset,
            units: &self.units,
            played_by: &result.held,
            seed: self.seed,
            measure: SettingMeasure::from_loss(result.spec.model.loss),
            public_accuracy: result.public.accuracy,
            public_loss: result.public.loss,
            chosen: &result.chosen,
            tried: &result.tried,
            division: division.collect(),
        };
        let proposal = TunedProposal { title, spec: Spec::DpSgd(result.spec.clone()), tuning };
        let mut text = serde_json::to_string_pretty(&proposal)?;
        text.push('\n');
        write_durably(&self.output, text.as_bytes())?;
        Ok(())
    }

    fn format_summary(&self, result: &TuneResult) -> String {
        let measure = SettingMeasure::from_loss(result.spec.model.loss);
        let mut trials: Vec<&TrialResult> = result.tried.iter().collect();
        trials.sort_by_key(|trial| (trial.number, trial.after));
        let rows: Vec<Vec<String>> = trials
            .into_iter()
            .map(|trial| {
                let mark = if *trial == result.chosen { "*" } else { "" };
                let (value, loss) = match &trial.failed {
                    Some(_) => ("failed".to_owned(), String::new()),
                    None => (format_value(measure, trial.accuracy, trial.loss), format_loss(trial.loss)),
                };
                vec![
                    format!("{}{mark}", trial.number),
                    format!("{:.4}", trial.noise_multiplier),
                    format!("{}/{}", trial.after, trial.setting.rounds),
                    value,
                    loss,
                    format!("{:.1}", trial.seconds),
                    trial.setting.to_string(),
                ]
            })
            .collect();
        let mut numbers: Vec<usize> = result.tried.iter().map(|trial| trial.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let unit_counts: Vec<String> = result.held.iter().map(u64::to_string).collect();
        format!(
            "{}\nMeasure               {}\n\
             Without private data  {} (the warm start, on the development part)\n\
             Settings              {} of {} were begun; 0 is the spec's own, * is chosen\n\
             Roles                 {} public units for the lead and for participants of {:?} units\n\
             Noise                 from the seed {}: the data are public, so there is nothing to hide\n\
             Next                  propose {}; repeat the command to continue the search in {}\n",
            format_table(&["NO", "Z", "ROUNDS", measure_title(measure), "LOSS", "SECONDS", "SETTING"], &rows),
            match measure {
                SettingMeasure::Accuracy => "the share that is classified correctly",
                SettingMeasure::Rmse => "the root mean squared error, as a share of the target's declared range",
            },
            format_value(measure, result.public.accuracy, result.public.loss),
            numbers.len(),
            result.settings,
            unit_counts.join(", "),
            self.units,
            self.seed,
            self.output.display(),
            result.work.display(),
        )
    }
}

/// Formats the best setting by the number of jobs that the budget covers.
fn format_division(results: &[(NonZeroU32, TuneResult)]) -> String {
    let loss = results.first().map(|(_, result)| result.spec.model.loss).unwrap_or_default();
    let measure = SettingMeasure::from_loss(loss);
    let rows: Vec<Vec<String>> = results
        .iter()
        .map(|(jobs, TuneResult { chosen, .. })| {
            vec![
                jobs.to_string(),
                format!("{:.4}", chosen.noise_multiplier),
                format_value(measure, chosen.accuracy, chosen.loss),
                chosen.setting.to_string(),
            ]
        })
        .collect();
    format!(
        "\nBest setting by the number of jobs that the budget covers\n{}\n",
        format_table(&["JOBS", "Z", measure_title(measure), "SETTING"], &rows)
    )
}

/// Returns the title of the measured shares in a table.
const fn measure_title(measure: SettingMeasure) -> &'static str {
    match measure {
        SettingMeasure::Accuracy => "ACCURACY",
        SettingMeasure::Rmse => "RMSE",
    }
}

/// Formats the measured share of a result.
fn format_value(measure: SettingMeasure, accuracy: f64, loss: f64) -> String {
    let share = measure.value(accuracy, loss);
    if share > MOST_SHARE { format!("over {} %", MOST_SHARE * 100.0) } else { format!("{:.2} %", share * 100.0) }
}

/// Formats a loss; the greatest one stands for a loss that is no number.
fn format_loss(loss: f64) -> String {
    if loss < 1e6 { format!("{loss:.4}") } else { format!("{loss:.1e}") }
}

fn format_progress(measure: SettingMeasure, trial: &TrialResult, limit: usize) -> String {
    let TrialResult { number, after, setting, accuracy, loss, seconds, failed, .. } = trial;
    let outcome =
        failed.as_ref().map_or_else(|| format_value(measure, *accuracy, *loss), |why| format!("failed: {why}"));
    format!(
        "[setting {number} of at most {limit}, round {after}/{}] {setting}: {outcome} ({seconds:.1} s)",
        setting.rounds
    )
}

fn read_job(path: &Path) -> Result<(String, dp_sgd::Spec), CommandFailure> {
    let text = std::fs::read_to_string(path).map_err(FolderError::io("read", path))?;
    let job: JobFile = serde_json::from_str(&text).map_err(|_| {
        // The reader of two forms cannot report the error of either; the reader of the spec alone can.
        let inner =
            serde_json::from_str::<serde_json::Value>(&text).map(|value| value.get("spec").cloned().unwrap_or(value));
        let source = inner.and_then(serde_json::from_value::<dp_sgd::Spec>).err();
        let source = source.unwrap_or_else(|| serde::de::Error::custom("it is of another kind"));
        ArgumentError::Spec { path: path.to_owned(), source }
    })?;
    Ok(match job {
        JobFile::Whole { title, spec } => {
            let Spec::DpSgd(spec) = *spec else {
                let source = serde::de::Error::custom("it is of another kind: only `dp_sgd` is tuned");
                return Err(ArgumentError::Spec { path: path.to_owned(), source }.into());
            };
            (title.unwrap_or_else(|| "tuned".to_owned()), spec)
        }
        JobFile::Bare(spec) => ("tuned".to_owned(), *spec),
    })
}

#[cfg(test)]
mod tests;
