//! The roles of a rehearsal: parts of the public data in place of a spec's participants.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use undertone_api::dataset::SizeClass;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::dp_sgd::{Spec, TestSet};
use undertone_api::job::{DatasetUse, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use uuid::Uuid;

use super::error::TuneError;
use super::noise;
use super::public_data::PublicData;
use super::search::TuneSearch;
use super::setting::TuneSetting;
use super::split::{self, SplitShares};

/// The test set of a rehearsal.
const DEVELOPMENT: &str = "development";
/// The dataset of the test set; no real id is all ones.
const DEVELOPMENT_ID: DatasetId = DatasetId(Uuid::max());

/// The roles and their data.
pub(super) struct RoleAssignment<'a> {
    search: &'a TuneSearch,
    data: HashMap<DatasetId, PathBuf>,
    /// The real numbers of units of each participant, the lead first.
    stated_units: Vec<u64>,
    /// The numbers of units in their roles.
    role_units: Vec<u64>,
    classes: u32,
}

/// A job to be rehearsed.
pub(super) struct RehearsedJob {
    pub(super) manifest: Manifest,
    pub(super) weights: Vec<f64>,
}

impl<'a> RoleAssignment<'a> {
    /// Splits the public data.
    ///
    /// # Errors
    /// [`TuneError`] when they are too few, or the disk refuses.
    pub(super) fn assign(search: &'a TuneSearch, data: &PublicData, work: &Path) -> Result<Self, TuneError> {
        let TuneSearch { spec, units, development, warm, seed, .. } = search;
        let shares = SplitShares { development: *development, warm: *warm, parties: units.clone() };
        let parts = split::split(data, spec.unit, &shares, *seed, &work.join("data"))?;
        let lead = SizeClass::from_count(data.count_units(spec.unit)).0;
        let stated_units = std::iter::once(lead).chain(units.iter().copied()).collect();
        let role_units = parts.participants.iter().map(|(_, units)| *units).collect();
        let parties = spec.participants.iter().map(|party| party.dataset);
        let mut places: HashMap<_, _> = parties.zip(parts.participants.into_iter().map(|(place, _)| place)).collect();
        places.insert(DEVELOPMENT_ID, parts.development);
        Ok(Self { search, data: places, stated_units, role_units, classes: data.classes() })
    }

    /// Returns the paths of the data by dataset.
    pub(super) const fn data(&self) -> &HashMap<DatasetId, PathBuf> {
        &self.data
    }

    /// Returns the units in the role of each participant, the lead first.
    pub(super) fn role_units(&self) -> Vec<u64> {
        self.role_units.clone()
    }

    /// Returns the spec that would be proposed for a setting.
    ///
    /// # Errors
    /// [`TuneError::Spec`] when no noise reaches the goal.
    pub(super) fn spec_with(&self, setting: &TuneSetting) -> Result<Spec, TuneError> {
        let mut spec = self.search.spec.clone();
        setting.apply(&mut spec);
        if let Some(goal) = self.search.goal {
            noise::calibrate_noise(&mut spec, goal)?;
        }
        Ok(spec)
    }

    /// Returns the private arm of a spec to propose, in these roles, measured and stored every `every` rounds.
    pub(super) fn private_job(&self, proposal: &Spec, every: u32) -> RehearsedJob {
        let parties = proposal.participants.iter().zip(&self.stated_units);
        let weights = parties.map(|(party, stated)| proposal.weight(party, *stated)).collect();
        let mut spec = self.strip_spec(proposal);
        spec.checkpoint_every = every;
        if let Some(rounds) = spec.private.as_mut() {
            rounds.evaluate_every = every;
        }
        let units = self.stated_units.iter().zip(&self.role_units);
        for (party, (stated, held)) in spec.participants.iter_mut().zip(units) {
            let z = party.noise.map(|noise| noise.noise_multiplier);
            let (rate, z) = noise::scale_to_rehearsal(party.sampling_rate, z, *stated, *held);
            party.sampling_rate = rate;
            if let (Some(noise), Some(z)) = (party.noise.as_mut(), z) {
                noise.noise_multiplier = z;
            }
        }
        RehearsedJob { manifest: self.manifest(spec), weights }
    }

    /// Returns the warm start alone.
    pub(super) fn warm_start_job(&self) -> RehearsedJob {
        let mut spec = self.strip_spec(&self.search.spec);
        spec.private = None;
        spec.participants.truncate(1);
        RehearsedJob { manifest: self.manifest(spec), weights: vec![1.0] }
    }

    /// Returns a spec without the parts that are not rehearsed.
    fn strip_spec(&self, spec: &Spec) -> Spec {
        let mut spec = spec.clone();
        spec.open = None;
        spec.audit = None;
        spec.selection = None;
        spec.model.classes.get_or_insert(self.classes);
        spec.tests = vec![TestSet { name: DEVELOPMENT.to_owned(), dataset: DEVELOPMENT_ID }];
        spec
    }

    /// Makes the manifest of an imaginary server. It is unsigned and never leaves this process.
    fn manifest(&self, spec: Spec) -> Manifest {
        let id = |number: usize| Uuid::from_u128(number as u128 + 1);
        let participant =
            |(number, (party, units)): (usize, (&undertone_api::job::dp_sgd::Party, &u64))| ManifestParticipant {
                dataset: party.dataset,
                dataset_name: format!("part {number} of the public data"),
                lineage: LineageId(id(number)),
                organization: OrganizationId(id(number)),
                organization_name: String::new(),
                worker: WorkerId(id(number)),
                purpose: DatasetUse::Participate,
                units: *units,
                charge: None,
                site_key: None,
            };
        let participants = spec.participants.iter().zip(&self.role_units).enumerate().map(participant).collect();
        Manifest {
            job: JobId(Uuid::nil()),
            consortium: ConsortiumId(Uuid::nil()),
            title: "rehearsal".to_owned(),
            proposed_by: String::new(),
            participants,
            spec: AnySpec::DpSgd(spec),
            model: None,
            initial_model: None,
            limits: None,
            proposal: None,
            issued_at: OffsetDateTime::UNIX_EPOCH,
        }
    }
}
