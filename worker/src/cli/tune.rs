//! `tune`: rehearses a job on public data, and writes the best spec.
//!
//! It turns arguments into a search, and its result into a table and a file; the search is in
//! [`crate::run::dp_sgd::tune`].

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use undertone_api::job::Spec;
use undertone_api::job::dp_sgd::{self, ModelPart, ModelParts, Optimizer};
use undertone_privacy::{Delta, Epsilon};

use super::Failure;
use super::table::table;
use crate::run::dp_sgd::tune::{PrivacyGoal, SettingGrid, TrialResult, TuneResult, TuneSearch, tune};
use crate::site::folder::{Folder, FolderError, write_durably};
use crate::site::policy::Policy;

/// Choose a job's clip, learning rate, batch and more by rehearsing it on public data, before it is proposed.
///
/// Part of the public data plays the lead, parts play the other participants, part is only measured on; no speaker plays two
/// roles. Every setting is the real job with the real noise, played by halves: the better half goes on. Nothing private is
/// read, sent or charged. The search goes on where it was when the same command is given again.
#[derive(Debug, Args)]
pub(super) struct Tune {
    /// The job as it would be proposed, in JSON, or its `spec` alone.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
    /// The public dataset of this site that leads the job.
    #[arg(long, value_name = "NAME")]
    dataset: String,
    /// Units (records or speakers, as the job protects) of every participant after the first, in the spec's order.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', required = true)]
    units: Vec<u64>,
    /// What each private party shall pay in all. Without it the noise stays what the spec says.
    #[arg(long, requires = "delta", value_parser = parsed::<Epsilon>)]
    epsilon: Option<Epsilon>,
    /// At this delta.
    #[arg(long, requires = "epsilon", value_parser = parsed::<Delta>)]
    delta: Option<Delta>,
    /// Factors of every party's clip.
    #[arg(long, value_name = "X,X,...", value_delimiter = ',', default_value = "0.25,0.5,1,2")]
    clip: Vec<f64>,
    /// Factors of the learning rate.
    #[arg(long, value_name = "X,X,...", value_delimiter = ',', default_value = "0.3,1,3")]
    rate: Vec<f64>,
    /// Factors of the batch, that is of every party's sampling rate.
    #[arg(long, value_name = "X,X,...", value_delimiter = ',', default_value = "1,2")]
    batch: Vec<f64>,
    /// Factors of the number of rounds.
    #[arg(long, value_name = "X,X,...", value_delimiter = ',', default_value = "1")]
    rounds: Vec<f64>,
    /// Another optimizer to try, with its own learning rate: `sgd:RATE[:MOMENTUM]`, `adam:RATE`, `dp_adam:RATE`; may be
    /// repeated.
    #[arg(long = "optimizer", value_name = "KIND:RATE", value_parser = optimizer)]
    optimizers: Vec<Optimizer>,
    /// Parts to train, in place of the spec's: `all`, `output`, `layer1+output`, ...; may be repeated.
    #[arg(long = "train", value_name = "PARTS", value_parser = parts)]
    train: Vec<Trained>,
    /// Decay of the mean of the iterates, in place of the spec's: `none`, `0.9`, ...; may be repeated.
    #[arg(long = "ema", value_name = "DECAY", value_parser = decay)]
    averaging: Vec<Decay>,
    /// Most settings to try, the spec's own included.
    #[arg(long, value_name = "N", default_value_t = 12)]
    settings: usize,
    /// How often the worse half is left behind.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=8))]
    halvings: u32,
    /// Part of the public speakers that is only measured on.
    #[arg(long, value_name = "SHARE", default_value_t = 0.15)]
    development: f64,
    /// Part of the other public units that the lead has at least.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    warm: f64,
    /// Decides the order of the search, who plays whom, and the noise of the rehearsal.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after so many minutes, with the best that was found.
    #[arg(long, value_name = "MINUTES", default_value_t = 60.0)]
    minutes: f64,
    /// Where the chosen job is written, in JSON, ready to be proposed; with what was tried.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy)]
struct Trained(Option<ModelParts>);

#[derive(Debug, Clone, Copy)]
struct Decay(Option<f64>);

/// The reason for a rejected search.
#[derive(Debug, thiserror::Error)]
enum ArgumentError {
    #[error("--spec: {path} is not a job of kind `dp_sgd` in JSON, nor a spec of one")]
    Spec {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("--output: {0} exists already: choose another place, or remove it")]
    Output(PathBuf),
    #[error("--dataset: there is no dataset `{0}` at this site; `undertone-worker data list` shows what there is")]
    Dataset(String),
    #[error("--minutes: greater than 0 and at most 100,000, not {0}")]
    Minutes(f64),
}

/// A job in a file: a proposal, or a spec alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Job {
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
struct Chosen<'a> {
    title: &'a str,
    #[serde(flatten)]
    spec: Spec,
    tuning: Tuning<'a>,
}

#[derive(Serialize)]
struct Tuning<'a> {
    note: &'static str,
    dataset: &'a str,
    units: &'a [u64],
    played_by: &'a [u64],
    seed: u64,
    public_accuracy: f64,
    chosen: &'a TrialResult,
    tried: &'a [TrialResult],
}

const NOTE: &str = "chosen by rehearsing on public data; nothing private was read or charged. The accuracies are those of public \
                    speakers in the place of the participants, with noise from a seed: they rank settings and promise nothing.";

fn parsed<T: TryFrom<f64, Error = undertone_privacy::UnitError>>(text: &str) -> Result<T, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    T::try_from(value).map_err(|error| error.to_string())
}

/// Parses `KIND:RATE[:MOMENTUM]`.
fn optimizer(text: &str) -> Result<Optimizer, String> {
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
fn parts(text: &str) -> Result<Trained, String> {
    if text == "all" {
        return Ok(Trained(None));
    }
    let named = |name: &str| {
        let known = ModelPart::ALL.into_iter().find(|part| part.name() == name);
        known.ok_or_else(|| format!("{name:?} is no part: {}", ModelPart::ALL.map(ModelPart::name).join(", ")))
    };
    text.split('+').map(named).collect::<Result<ModelParts, _>>().map(|parts| Trained(Some(parts)))
}

/// Parses `none` or a decay.
fn decay(text: &str) -> Result<Decay, String> {
    match text.parse::<f64>() {
        _ if text == "none" => Ok(Decay(None)),
        Ok(decay) if decay > 0.0 && decay < 1.0 => Ok(Decay(Some(decay))),
        _ => Err(format!("{text:?} is neither `none` nor greater than 0 and less than 1")),
    }
}

impl Tune {
    /// Runs the search; prints progress to standard error and the table to `out`.
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), Failure> {
        if self.output.symlink_metadata().is_ok() {
            return Err(ArgumentError::Output(self.output.clone()).into());
        }
        let (title, spec) = read(&self.spec)?;
        let search = self.search(folder, spec)?;
        let of = search.settings;
        let found = tune(&search, |tried| eprintln!("{}", line(tried, of)))?;
        self.write(&title, &found)?;
        out.write_all(self.table(&found).as_bytes())?;
        Ok(())
    }

    fn search(&self, folder: &Folder, spec: dp_sgd::Spec) -> Result<TuneSearch, Failure> {
        if !(self.minutes > 0.0 && self.minutes <= 100_000.0) {
            return Err(ArgumentError::Minutes(self.minutes).into());
        }
        let dataset = folder.dataset(&self.dataset)?;
        if !dataset.is_dir() {
            return Err(ArgumentError::Dataset(self.dataset.clone()).into());
        }
        let grid = SettingGrid {
            clip: self.clip.clone(),
            rate: self.rate.clone(),
            batch: self.batch.clone(),
            rounds: self.rounds.clone(),
            optimizers: self.optimizers.clone(),
            parts: self.train.iter().map(|trained| trained.0).collect(),
            averaging: self.averaging.iter().map(|decay| decay.0).collect(),
        };
        Ok(TuneSearch {
            spec,
            dataset,
            rules: Policy::load(&folder.policy())?.rules(&self.dataset),
            units: self.units.clone(),
            goal: self.epsilon.zip(self.delta).map(|(epsilon, delta)| PrivacyGoal { epsilon, delta }),
            grid,
            settings: self.settings,
            halvings: self.halvings,
            development: self.development,
            warm: self.warm,
            seed: self.seed,
            time: Some(Duration::from_secs_f64(self.minutes * 60.0)),
            work: folder.root().join("tune"),
        })
    }

    fn write(&self, title: &str, found: &TuneResult) -> Result<(), Failure> {
        let tuning = Tuning {
            note: NOTE,
            dataset: &self.dataset,
            units: &self.units,
            played_by: &found.held,
            seed: self.seed,
            public_accuracy: found.public,
            chosen: &found.chosen,
            tried: &found.tried,
        };
        let chosen = Chosen { title, spec: Spec::DpSgd(found.spec.clone()), tuning };
        let mut text = serde_json::to_string_pretty(&chosen)?;
        text.push('\n');
        write_durably(&self.output, text.as_bytes())?;
        Ok(())
    }

    fn table(&self, found: &TuneResult) -> String {
        let percent = |part: f64| format!("{:.2} %", part * 100.0);
        let mut tried: Vec<&TrialResult> = found.tried.iter().collect();
        tried.sort_by_key(|tried| (tried.number, tried.after));
        let rows: Vec<Vec<String>> = tried
            .into_iter()
            .map(|tried| {
                let mark = if *tried == found.chosen { "*" } else { "" };
                let (accuracy, loss) = match &tried.failed {
                    Some(_) => ("failed".to_owned(), String::new()),
                    None => (percent(tried.accuracy), format!("{:.4}", tried.loss)),
                };
                vec![
                    format!("{}{mark}", tried.number),
                    format!("{:.4}", tried.noise_multiplier),
                    format!("{}/{}", tried.after, tried.setting.rounds),
                    accuracy,
                    loss,
                    format!("{:.1}", tried.seconds),
                    tried.setting.to_string(),
                ]
            })
            .collect();
        let mut reached: Vec<usize> = found.tried.iter().map(|tried| tried.number).collect();
        reached.sort_unstable();
        reached.dedup();
        let played: Vec<String> = found.held.iter().map(u64::to_string).collect();
        format!(
            "{}\nWithout private data  {} (the warm start, on the development part)\n\
             Settings              {} of {} were begun; 0 is the spec's own, * is chosen\n\
             Played by             {} public units in place of the lead and of {:?}\n\
             Noise                 from the seed {}: the data are public, so there is nothing to hide\n\
             Next                  propose {}; the search can be gone on with in {}\n",
            table(&["NO", "Z", "ROUNDS", "ACCURACY", "LOSS", "SECONDS", "SETTING"], &rows),
            percent(found.public),
            reached.len(),
            found.settings,
            played.join(", "),
            self.units,
            self.seed,
            self.output.display(),
            found.work.display(),
        )
    }
}

fn line(tried: &TrialResult, of: usize) -> String {
    let TrialResult { number, after, setting, accuracy, seconds, failed, .. } = tried;
    let brought = failed.as_ref().map_or_else(|| format!("{:.2} %", accuracy * 100.0), |why| format!("failed: {why}"));
    format!(
        "[setting {number} of at most {of}, round {after}/{}] {setting}: {brought} ({seconds:.1} s)",
        setting.rounds
    )
}

fn read(path: &Path) -> Result<(String, dp_sgd::Spec), Failure> {
    let text = std::fs::read_to_string(path).map_err(FolderError::io("read", path))?;
    let job: Job = serde_json::from_str(&text).map_err(|_| {
        // The reader of two forms cannot report the error of either; the reader of the spec alone can.
        let inner =
            serde_json::from_str::<serde_json::Value>(&text).map(|value| value.get("spec").cloned().unwrap_or(value));
        let source = inner.and_then(serde_json::from_value::<dp_sgd::Spec>).err();
        let source = source.unwrap_or_else(|| serde::de::Error::custom("it is of another kind"));
        ArgumentError::Spec { path: path.to_owned(), source }
    })?;
    Ok(match job {
        Job::Whole { title, spec } => {
            let Spec::DpSgd(spec) = *spec else {
                let source = serde::de::Error::custom("it is of another kind: only `dp_sgd` is tuned");
                return Err(ArgumentError::Spec { path: path.to_owned(), source }.into());
            };
            (title.unwrap_or_else(|| "tuned".to_owned()), spec)
        }
        Job::Bare(spec) => ("tuned".to_owned(), *spec),
    })
}

#[cfg(test)]
mod tests;
