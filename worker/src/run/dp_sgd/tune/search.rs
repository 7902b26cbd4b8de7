//! The input of a search: its check, and its identity.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use undertone_api::job::dp_sgd::{Rounds, Spec};

use super::error::TuneError;
use super::noise::PrivacyGoal;
use super::setting::SettingGrid;
use crate::site::clearance::PublicProof;

/// The input of a search.
#[derive(Debug, Clone)]
pub struct TuneSearch {
    /// The job as it would be proposed. Its private arm is tuned; every party that has to add noise must have some.
    pub spec: Spec,
    /// The path of the public dataset.
    pub dataset: PathBuf,
    /// The proof that it is public. There is no search without it.
    pub published: PublicProof,
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
    /// The fraction of the speakers, or of the units of a table, for measurement only: greater than 0, less than 1.
    pub development: f64,
    /// The lead's lowest fraction of the other units: greater than 0, less than 1.
    pub warm: f64,
    /// Determines the order of the search, the roles, and the noise.
    pub seed: u64,
    /// The time limit; `None` for no limit.
    pub time: Option<Duration>,
    /// Ends the search early when it becomes true, as if its time were over.
    pub stop: Arc<AtomicBool>,
    /// The folder of the site's model files, for a job that begins with a registry model.
    pub models: PathBuf,
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
    /// Absent for one job, so that earlier searches keep their identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u32>,
    grid: &'a SettingGrid,
    settings: usize,
    halvings: u32,
    shares: (f64, f64),
    seed: u64,
}

impl TuneSearch {
    /// Returns the private rounds, after a check of the whole input.
    pub(super) fn check(&self) -> Result<Rounds, TuneError> {
        let refuse = |why: &str| Err(TuneError::Spec(why.to_owned()));
        let TuneSearch { spec, units, development, warm, .. } = self;
        let Some(rounds) = spec.private else {
            return refuse("the spec has no rounds in `private`: there is nothing to tune");
        };
        if let Some(violation) = spec.find_wrong_rows() {
            return refuse(&format!("`{}`: {}", violation.field, violation.message));
        }
        self.grid.check_copies(spec)?;
        if spec.selection.is_some() {
            return refuse("the spec leaves the choice to a selection at the sites: tune it without `selection`");
        }
        if spec.secure_aggregation.is_some() {
            return refuse("the spec shares the noise of a group: tune it without `secure_aggregation`");
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

    /// Returns the digest that identifies the search on data of the digest `data`, hexadecimal.
    pub(super) fn identity(&self, data: &str) -> Result<String, TuneError> {
        let identity = SearchIdentity {
            spec: &self.spec,
            data,
            units: &self.units,
            goal: self.goal.map(|goal| (goal.epsilon.get(), goal.delta.get())),
            jobs: self.goal.map(|goal| goal.jobs.get()).filter(|jobs| *jobs > 1),
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
