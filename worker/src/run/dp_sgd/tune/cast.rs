//! The cast: the parts of the public data in the roles of a spec's participants.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use undertone_api::dataset::SizeClass;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::dp_sgd::{Spec, TestSet};
use undertone_api::job::{DatasetUse, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::PrivacyUnit;
use uuid::Uuid;

use super::split::{self, Shares};
use super::{Search, Setting, TuneError, noise};
use crate::speech::dataset::Dataset;

/// The test set of a rehearsal.
const DEVELOPMENT: &str = "development";
/// The dataset of the test set; no real id is all ones.
const DEVELOPMENT_ID: DatasetId = DatasetId(Uuid::max());

/// The roles and their data.
pub(super) struct Cast<'a> {
    search: &'a Search,
    data: HashMap<DatasetId, PathBuf>,
    /// The real numbers of units of each participant, the lead first.
    stated: Vec<u64>,
    /// The numbers of units in their roles.
    held: Vec<u64>,
    classes: u32,
}

/// A job to be rehearsed.
pub(super) struct Play {
    pub(super) manifest: Manifest,
    pub(super) weights: Vec<f64>,
}

impl<'a> Cast<'a> {
    /// Splits the public data.
    ///
    /// # Errors
    /// [`TuneError`] when they are too few, or the disk refuses.
    pub(super) fn gather(search: &'a Search, dataset: &Dataset, work: &Path) -> Result<Self, TuneError> {
        let Search { spec, units, development, warm, seed, .. } = search;
        let shares = Shares { development: *development, warm: *warm, parties: units.clone() };
        let parts = split::split(dataset, spec.unit, &shares, *seed, &work.join("data"))?;
        let train = dataset.meta().train;
        let lead = match spec.unit {
            PrivacyUnit::Record | PrivacyUnit::Words => train.utterances,
            PrivacyUnit::Speaker | PrivacyUnit::User => train.speakers,
        };
        let stated = std::iter::once(SizeClass::from_count(lead as u64).0).chain(units.iter().copied()).collect();
        let held = parts.participants.iter().map(|(_, units)| *units).collect();
        let parties = spec.participants.iter().map(|party| party.dataset);
        let mut data: HashMap<_, _> = parties.zip(parts.participants.into_iter().map(|(place, _)| place)).collect();
        data.insert(DEVELOPMENT_ID, parts.development);
        Ok(Self { search, data, stated, held, classes: dataset.meta().classes as u32 })
    }

    /// Returns the paths of the data by dataset.
    pub(super) const fn data(&self) -> &HashMap<DatasetId, PathBuf> {
        &self.data
    }

    /// Returns the units in the role of each participant, the lead first.
    pub(super) fn held(&self) -> Vec<u64> {
        self.held.clone()
    }

    /// Returns the spec that would be proposed for a setting.
    ///
    /// # Errors
    /// [`TuneError::Spec`] when no noise reaches the goal.
    pub(super) fn proposed(&self, setting: &Setting) -> Result<Spec, TuneError> {
        let mut spec = self.search.spec.clone();
        setting.apply(&mut spec);
        if let Some(goal) = self.search.goal {
            noise::calibrated(&mut spec, goal)?;
        }
        Ok(spec)
    }

    /// Returns a proposed spec's private arm with this cast, measured and stored every `every` rounds.
    pub(super) fn play(&self, proposed: &Spec, every: u32) -> Play {
        let weigh = proposed.participants.iter().zip(&self.stated);
        let weights = weigh.map(|(party, stated)| proposed.weight(party, *stated)).collect();
        let mut spec = self.quiet(proposed);
        spec.checkpoint_every = every;
        if let Some(rounds) = spec.private.as_mut() {
            rounds.evaluate_every = every;
        }
        for (party, (stated, held)) in spec.participants.iter_mut().zip(self.stated.iter().zip(&self.held)) {
            let z = party.noise.map(|noise| noise.noise_multiplier);
            let (rate, z) = noise::rehearsed(party.sampling_rate, z, *stated, *held);
            party.sampling_rate = rate;
            if let (Some(noise), Some(z)) = (party.noise.as_mut(), z) {
                noise.noise_multiplier = z;
            }
        }
        Play { manifest: self.manifest(spec), weights }
    }

    /// Returns the warm start alone.
    pub(super) fn prologue(&self) -> Play {
        let mut spec = self.quiet(&self.search.spec);
        spec.private = None;
        spec.participants.truncate(1);
        Play { manifest: self.manifest(spec), weights: vec![1.0] }
    }

    /// Returns a spec without the parts that are not rehearsed.
    fn quiet(&self, spec: &Spec) -> Spec {
        let mut spec = spec.clone();
        (spec.open, spec.audit, spec.selection) = (None, None, None);
        spec.model.classes.get_or_insert(self.classes);
        spec.tests = vec![TestSet { name: DEVELOPMENT.to_owned(), dataset: DEVELOPMENT_ID }];
        spec
    }

    /// Makes the manifest of an imaginary server. It is unsigned and never leaves this process.
    fn manifest(&self, spec: Spec) -> Manifest {
        let id = |number: usize| Uuid::from_u128(number as u128 + 1);
        let participant =
            |(number, (party, held)): (usize, (&undertone_api::job::dp_sgd::Party, &u64))| ManifestParticipant {
                dataset: party.dataset,
                dataset_name: format!("part {number} of the public data"),
                lineage: LineageId(id(number)),
                organization: OrganizationId(id(number)),
                organization_name: String::new(),
                worker: WorkerId(id(number)),
                purpose: DatasetUse::Participate,
                units: *held,
                charge: None,
            };
        let participants = spec.participants.iter().zip(&self.held).enumerate().map(participant).collect();
        Manifest {
            job: JobId(Uuid::nil()),
            consortium: ConsortiumId(Uuid::nil()),
            title: "rehearsal".to_owned(),
            proposed_by: String::new(),
            participants,
            spec: AnySpec::DpSgd(spec),
            model: None,
            limits: None,
            issued_at: OffsetDateTime::UNIX_EPOCH,
        }
    }
}
