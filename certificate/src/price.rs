//! The figures of a certificate, computed from its other content: by the server when it is made, and again during
//! verification. Pure.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;
use undertone_api::dataset::{Dataset, SizeClass};
use undertone_api::id::{JobId, LineageId, OrganizationId};
use undertone_api::job::Charge;
use undertone_api::signed::Certificate;
use undertone_api::signed::certificate::{
    CertificateParty, CertifiedFigure, CombinedFigure, LineageSum, ModelLineage, PartyCharges, ReleaseMechanism,
    UnitSampling,
};
use undertone_privacy::curve::{Curve, CurveError};
use undertone_privacy::ledger::across;
use undertone_privacy::mechanism::{self, PriceError};
use undertone_privacy::pld::Plan;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, OrderGrid, PrivacyUnit, UnitError, convert};

/// The reason why a figure cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The event has no price.
    #[error(transparent)]
    Price(#[from] PriceError),
    /// A number is out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// Curves do not add.
    #[error(transparent)]
    Curve(#[from] CurveError),
}

/// Returns the mechanism of each release. The event's noise is relative to the clip, which is the sensitivity by
/// construction.
pub fn mechanism(charge: &Charge, clip: Option<f64>) -> ReleaseMechanism {
    let multiplier = match charge.event.innermost() {
        Event::Gaussian { noise_multiplier } | Event::PoissonSampledGaussian { noise_multiplier, .. } => {
            Some(noise_multiplier.get())
        }
        Event::PoissonSampledDistributedDiscreteGaussian { noise, .. } => {
            Some(noise.noise.get() * f64::from(noise.contributors.get()).sqrt() / noise.clip.get())
        }
        _ => None,
    };
    let changes = if charge.adjacency == Adjacency::ReplaceOne { 2.0 } else { 1.0 };
    ReleaseMechanism {
        event: charge.event.clone(),
        sampling: UnitSampling::from_event(&charge.event),
        clip,
        sensitivity: clip.map(|clip| clip * changes),
        noise: clip.zip(multiplier).map(|(clip, z)| clip * z),
    }
}

/// Returns the facts about a dataset that determine its use in a job.
pub fn to_dataset(party: &CertificateParty) -> Dataset {
    Dataset {
        id: party.dataset,
        lineage: party.lineage,
        organization: party.organization,
        organization_name: party.organization_name.clone(),
        worker: party.worker,
        name: party.dataset_name.clone(),
        visibility: party.visibility,
        content: undertone_api::dataset::DatasetContent::Speech,
        inputs: 0,
        classes: 0,
        records: SizeClass(party.units),
        speakers: SizeClass(party.units),
        test_records: 0,
        seconds: None,
        users: None,
        table: None,
        units: undertone_api::dataset::usual_units(),
        approval: None,
        accounts: Vec::new(),
        created_at: OffsetDateTime::UNIX_EPOCH,
    }
}

/// Returns the certificate with every figure recomputed from its releases.
///
/// # Errors
/// [`FigureError`] when an event has no price or a number is out of range.
pub fn compute_figures(mut certificate: Certificate) -> Result<Certificate, FigureError> {
    for charged in certificate.parties.iter_mut().filter_map(|party| party.charged.as_mut()) {
        let delta = charged.account.delta.map(Delta::new).transpose()?;
        charged.renyi = delta.map(|delta| renyi(charged, delta)).transpose()?;
        charged.tight = delta.and_then(|delta| tight(charged, delta));
        charged.insider = delta.map(|delta| insider(charged, delta)).transpose()?.flatten();
        let (adjacency, counted) = (charged.adjacency, charged.releases.counted);
        for other in &mut charged.others {
            let delta = other.account.delta.map(Delta::new).transpose()?;
            let one = mechanism::curve(&other.event, adjacency, &OrderGrid::reporting())?.times(counted);
            let figure =
                |delta: Delta| CertifiedFigure::renyi(convert::epsilon(&one, delta).map(Epsilon::get), delta.get());
            other.renyi = delta.map(figure);
        }
    }
    certificate.together = together(&certificate)?;
    if certificate.initial_model.is_some() {
        let sums = lineage_sums(&certificate)?;
        certificate.initial_model = certificate.initial_model.map(|model| ModelLineage { sums, ..model });
    }
    Ok(certificate)
}

/// Returns the cost of all jobs from which the job's models follow, by account: the sum of their Rényi curves.
///
/// # Errors
/// [`FigureError`] when an event has no price or a number is out of range.
pub fn lineage_sums(certificate: &Certificate) -> Result<Vec<LineageSum>, FigureError> {
    let mut accounts: BTreeMap<(OrganizationId, LineageId, PrivacyUnit, Adjacency), AccountSum> = BTreeMap::new();
    for (job, charge) in certificate.lineage_charges() {
        let one = mechanism::curve(&charge.event, charge.adjacency, &OrderGrid::reporting())?.times(charge.releases);
        let key = (charge.organization, charge.lineage, charge.unit, charge.adjacency);
        if let Some(sum) = accounts.get_mut(&key) {
            sum.curve = sum.curve.add(&one)?;
            sum.jobs.insert(job);
            sum.datasets.insert(charge.dataset_name);
            sum.delta = [sum.delta, charge.delta].into_iter().flatten().reduce(f64::min);
        } else {
            let sum = AccountSum {
                owner: charge.organization_name,
                datasets: BTreeSet::from([charge.dataset_name]),
                jobs: BTreeSet::from([job]),
                curve: one,
                delta: charge.delta,
            };
            accounts.insert(key, sum);
        }
    }
    let sum = |((organization, lineage, unit, adjacency), sum): (_, AccountSum)| {
        let delta = sum.delta.map(Delta::new).transpose()?;
        let figure =
            |delta: Delta| CertifiedFigure::renyi(convert::epsilon(&sum.curve, delta).map(Epsilon::get), delta.get());
        Ok(LineageSum {
            organization,
            organization_name: sum.owner.clone(),
            lineage,
            dataset_names: sum.datasets.iter().cloned().collect(),
            unit,
            adjacency,
            jobs: sum.jobs.len() as u64,
            figure: delta.map(figure),
        })
    };
    accounts.into_iter().map(sum).collect()
}

/// The charges of several jobs to one account.
struct AccountSum {
    owner: String,
    datasets: BTreeSet<String>,
    jobs: BTreeSet<JobId>,
    curve: Curve,
    delta: Option<f64>,
}

/// Returns the Rényi curve of the counted releases on the fine grid of reports.
fn curve(charged: &PartyCharges) -> Result<Curve, PriceError> {
    let one = mechanism::curve(&charged.mechanism.event, charged.adjacency, &OrderGrid::reporting())?;
    Ok(one.times(charged.releases.counted))
}

fn renyi(charged: &PartyCharges, delta: Delta) -> Result<CertifiedFigure, PriceError> {
    let epsilon = convert::epsilon(&curve(charged)?, delta).map(Epsilon::get);
    Ok(CertifiedFigure::renyi(epsilon, delta.get()))
}

/// Returns the number against the server with all other sites; `None` for releases without masks.
fn insider(charged: &PartyCharges, delta: Delta) -> Result<Option<CertifiedFigure>, PriceError> {
    let Some(event) = charged.mechanism.event.to_insider() else { return Ok(None) };
    let one = mechanism::curve(&event, charged.adjacency, &OrderGrid::reporting())?;
    let epsilon = convert::epsilon(&one.times(charged.releases.counted), delta).map(Epsilon::get);
    Ok(Some(CertifiedFigure::renyi(epsilon, delta.get())))
}

/// Returns the tight number; `None` where no distribution is known or none fits on a grid: then only the Rényi number
/// is stated.
fn tight(charged: &PartyCharges, delta: Delta) -> Option<CertifiedFigure> {
    let mut plan = Plan::new();
    plan.add(&charged.mechanism.event, charged.adjacency, charged.releases.counted);
    let epsilon = plan.epsilon(delta).ok()?.map(Epsilon::get);
    Some(CertifiedFigure::tight(epsilon, delta.get()))
}

/// Returns the consortium's figures, for each unit and adjacency. Two datasets of one organization may always contain
/// the same person.
fn together(certificate: &Certificate) -> Result<Vec<CombinedFigure>, FigureError> {
    let mut kinds: BTreeMap<(PrivacyUnit, Adjacency), Vec<(OrganizationId, &PartyCharges)>> = BTreeMap::new();
    for party in &certificate.parties {
        if let Some(charged) = &party.charged {
            kinds.entry((charged.unit, charged.adjacency)).or_default().push((party.organization, charged));
        }
    }
    let rule = certificate.overlap.overlap;
    let of = |((unit, adjacency), parts): (_, Vec<(OrganizationId, &PartyCharges)>)| {
        let mut curves: BTreeMap<OrganizationId, Curve> = BTreeMap::new();
        let mut least: Option<f64> = None;
        for (organization, charged) in &parts {
            let more = curve(charged)?;
            let sum = match curves.get(organization) {
                Some(before) => before.add(&more)?,
                None => more,
            };
            curves.insert(*organization, sum);
            least = [least, charged.account.delta].into_iter().flatten().reduce(f64::min);
        }
        let losses: Vec<Curve> = curves.values().cloned().collect();
        let figure = match least.map(Delta::new).transpose()? {
            Some(delta) => Some(CertifiedFigure::renyi(across(rule, &losses, delta)?.map(Epsilon::get), delta.get())),
            None => None,
        };
        Ok(CombinedFigure {
            unit,
            adjacency,
            organizations: curves.into_keys().collect(),
            most: rule.most(losses.len()) as u64,
            figure,
            in_the_clear: parts.iter().map(|(_, charged)| charged.releases.in_the_clear).sum(),
        })
    };
    kinds.into_iter().map(of).collect()
}
