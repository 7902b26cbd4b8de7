//! A rehearsal: the lead's site runs a planned job on parts of its own public data, before the job is proposed.
//!
//! A spec with a rehearsal has the lead as its only participant, so no other site has to agree or to be present, and
//! nothing is charged. The rehearsed parties stand for the planned participants: each is played by a part of the lead's
//! public data, with the batch and the noise that the planned party would have. The settings around the plan's own
//! change the clip and the learning rate only, which cost nothing: each of them has the plan's price.

use serde::{Deserialize, Serialize};
use undertone_privacy::SamplingRate;

use super::{Noise, Party, Rounds, Spec};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::problem::Violation;

/// A rehearsal on the lead's public data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdRehearsal))]
pub struct Rehearsal {
    /// The planned participants after the lead: 1 to 20, at least one with noise.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 20))]
    pub parties: Vec<RehearsedParty>,
    /// The planned private arm.
    pub rounds: Rounds,
    /// Factors of every party's clip, for further settings: 0 to 4, each once, 0.01 to 100, not 1.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_items = 4))]
    pub clip_factors: Vec<f64>,
    /// Factors of the learning rate, for further settings: 0 to 4, each once, 0.01 to 100, not 1. A product above the
    /// optimizer's limit is refused.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_items = 4))]
    pub rate_factors: Vec<f64>,
    /// Repeats with other roles of the speakers, or of the units of a table, and other noise: 1 to 10.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10))]
    pub repeats: u32,
    /// The time limit of a run, in minutes: 1 to 1,440. Each repeat has an equal share. The plan's own setting comes
    /// first in each; settings without time are left out.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1440))]
    pub minutes: u32,
    /// Determines the roles and the noise. The data are public, so there is nothing to hide.
    pub seed: u64,
}

/// A planned participant, played by a part of the lead's public data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RehearsedParty {
    /// The dataset that would take part. The rehearsal does not use it.
    pub dataset: DatasetId,
    /// q of the plan.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.1))]
    pub sampling_rate: SamplingRate,
    /// The noise of the plan; absent for a public dataset that sends exact gradients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// n: its units, 1 to 1,000,000,000. Absent in a proposal: the dataset's public number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000_000))]
    pub units: Option<u64>,
}

impl From<RehearsedParty> for Party {
    fn from(party: RehearsedParty) -> Self {
        let RehearsedParty { dataset, sampling_rate, noise, units: _ } = party;
        Self { dataset, sampling_rate, noise, rounds: None }
    }
}

impl Rehearsal {
    /// Returns the factors of the clip and of the learning rate of each setting, the plan's own first.
    pub fn factors(&self) -> impl Iterator<Item = (f64, f64)> {
        let rates = || std::iter::once(1.0).chain(self.rate_factors.iter().copied());
        let clips = std::iter::once(1.0).chain(self.clip_factors.iter().copied());
        clips.flat_map(move |clip| rates().map(move |rate| (clip, rate)))
    }
}

impl Spec {
    /// Returns the planned job that a rehearsal rehearses; `None` for a spec without a rehearsal.
    pub fn rehearsed(&self) -> Option<Self> {
        let rehearsal = self.rehearsal.as_ref()?;
        let parties = rehearsal.parties.iter().map(|party| Party::from(*party));
        Some(Self {
            participants: self.participants.iter().copied().chain(parties).collect(),
            private: Some(rehearsal.rounds),
            rehearsal: None,
            ..self.clone()
        })
    }

    /// Returns the rehearsal of this plan, with the usual settings: the plan's own, half and twice its clip and its
    /// learning rate, three repeats, within `minutes`. Terms that the plan leaves open have the plan's own values, and
    /// the audit is left out.
    ///
    /// # Errors
    /// The fields of a plan that cannot be rehearsed: without a private arm, with a selection, or with a party that
    /// leaves early.
    pub fn to_rehearsal(&self, minutes: u32) -> Result<Self, Vec<Violation>> {
        let mut violations = Vec::new();
        let mut say = |field: String, message: &str| violations.push(Violation::new(format!("spec.{field}"), message));
        if self.private.is_none() {
            say("private".to_owned(), "a rehearsal shows the private arm: ask for it");
        }
        if self.selection.is_some() {
            say("selection".to_owned(), "the choice at the sites cannot be rehearsed: leave it out");
        }
        if self.secure_aggregation.is_some() {
            let why =
                "a rehearsal adds the noise of each site alone: leave this out, and rehearse with a smaller multiplier";
            say("secure_aggregation".to_owned(), why);
        }
        for (index, _) in self.participants.iter().enumerate().filter(|(_, party)| party.rounds.is_some()) {
            say(format!("participants.{index}.rounds"), "a rehearsed party stays for the whole job: leave this out");
        }
        let (Some(rounds), true) = (self.private, violations.is_empty()) else { return Err(violations) };
        let party = |party: &Party| RehearsedParty {
            dataset: party.dataset,
            sampling_rate: party.sampling_rate,
            noise: party.noise,
            units: None,
        };
        let rehearsal = Rehearsal {
            parties: self.participants.iter().skip(1).map(party).collect(),
            rounds,
            clip_factors: vec![0.5, 2.0],
            rate_factors: vec![0.5, 2.0],
            repeats: 3,
            minutes,
            seed: 1,
        };
        // A product above the optimizer's limit is no setting of a job that could be proposed.
        let rate = rounds.optimizer.learning_rate();
        let rate_factors = rehearsal.rate_factors.iter().copied();
        let rate_factors =
            rate_factors.filter(|factor| rate * factor <= rounds.optimizer.most_learning_rate()).collect();
        Ok(Self {
            participants: self.participants.iter().copied().take(1).collect(),
            open_terms: Vec::new(),
            open: None,
            private: None,
            audit: None,
            rehearsal: Some(Box::new(Rehearsal { rate_factors, ..rehearsal })),
            ..self.clone()
        })
    }

    /// Returns the planned job with another setting of a rehearsal, by its factors of the clip and of the learning rate;
    /// `None` for a spec without a rehearsal.
    pub fn rehearsed_with(&self, clip_factor: f64, rate_factor: f64) -> Option<Self> {
        let mut rehearsed = self.rehearsed()?;
        if let Some(rounds) = rehearsed.private.as_mut() {
            let optimizer = rounds.optimizer;
            rounds.optimizer = optimizer.with_learning_rate(optimizer.learning_rate() * rate_factor);
        }
        for noise in rehearsed.participants.iter_mut().filter_map(|party| party.noise.as_mut()) {
            noise.clip *= clip_factor;
        }
        Some(rehearsed)
    }

    /// Returns the factors of the clip and of the learning rate with which a rehearsal contains `plan`; `None` if it
    /// rehearses other jobs. The plan has the same model, warm start, participants, noise, sampling rates,
    /// rounds and steps. Other arms, the audit, test sets, deadlines and releases in reserve do not change the private
    /// arm. Both specs have to be settled.
    pub fn rehearsal_factors(&self, plan: &Self) -> Option<(f64, f64)> {
        let key = plan.rehearsal_key();
        let is_plan = |(clip, rate): &(f64, f64)| {
            self.rehearsed_with(*clip, *rate).is_some_and(|rehearsed| rehearsed.rehearsal_key() == key)
        };
        self.rehearsal.as_ref()?.factors().find(is_plan)
    }

    /// Returns the spec with one value for every field that does not change the accuracy of the private arm.
    fn rehearsal_key(&self) -> Self {
        let private = self.private.map(|rounds| Rounds { evaluate_every: 1, deadline_seconds: 1, quorum: 1, ..rounds });
        Self {
            open_terms: Vec::new(),
            tests: Vec::new(),
            open: None,
            private,
            audit: None,
            spare_releases: 0,
            checkpoint_every: 1,
            ..self.clone()
        }
    }

    /// Sets the units that the rehearsed parties leave to their datasets.
    pub(super) fn settle_rehearsal(&mut self, datasets: &[Dataset]) {
        let unit = self.unit;
        for party in self.rehearsal.iter_mut().flat_map(|rehearsal| &mut rehearsal.parties) {
            let dataset = datasets.iter().find(|dataset| dataset.id == party.dataset);
            party.units = party.units.or_else(|| dataset.map(|dataset| dataset.count(unit).0));
        }
    }
}
