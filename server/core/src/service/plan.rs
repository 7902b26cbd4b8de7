//! Plans: the cost of a job for each owner, the remaining budgets, the number of affordable rounds, and alternatives
//! that fit. Nothing is changed. The figures come from `undertone_api::plan`, which the planner in the browser calls as
//! well. This module supplies the balances of the database, and every offer passes the ledger's own check.

mod rehearsal;

use std::collections::BTreeSet;
use std::sync::Arc;

use undertone_api::dataset::Dataset;
use undertone_api::job::{Charge, NewJob, Spec};
use undertone_api::plan::{
    self, AccountBalances, AccountKey, AffordableRounds, CombinedCost, NewPlan, Plan, PlanParty,
};
use undertone_privacy::ledger::Overlap;
use undertone_privacy::{Delta, pld};

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::service::ledger::{self, ChargeRequest, account};
use crate::service::model::initial::{self, ResolvedProposal};
use crate::service::{consortium, dataset, job};

pub use rehearsal::rehearsals;

/// Returns the plan of a job.
///
/// # Errors
/// 404 and 403 as usual; `rate_limited` or `unavailable` when too many computations wait. Violations of the job itself
/// are in the plan.
pub async fn plan(ctx: &Ctx, actor: &Actor, new: &NewPlan) -> Result<Plan, Error> {
    policy::check(actor, Operation::PlanJob, Place::Consortium(new.consortium))?;
    let owner = WorkOwner::from(actor);
    // Reads of a flood of plans would occupy the connections of the database, so they wait for the turn too.
    let turn = ctx.compute().admit(owner).await?;
    let datasets = dataset::in_consortium(ctx.db.read(), new.consortium).await?;
    let resolved = initial::resolve(ctx, actor, new.consortium, new.job.clone(), &datasets).await?;
    let ResolvedProposal { job, violations: unusable, .. } = resolved;
    let mut violations = job::violations(&job, &datasets);
    violations.extend(unusable);
    let job = if violations.is_empty() { state_dimension(job, &datasets) } else { job };
    let balances = balances(ctx, &job.spec, &datasets).await?;
    let rule =
        consortium::in_force(ctx.db.read(), [new.consortium.0]).await?.remove(&new.consortium.0).unwrap_or_default();
    let input = Arc::new(PlanInput { job, datasets, balances });
    let priced = Arc::clone(&input);
    let PlanFigures { mut parties, buys, together } =
        turn.run("pricing a plan", move || priced.figures(rule.overlap)).await?;
    // An invalid job is not worth a transform.
    if violations.is_empty() {
        tighten(ctx, owner, &mut parties).await?;
    }
    let refusals = ledger::check(ctx.db.read(), &asks(&input.job.spec, &input.datasets)).await?;
    let mut offers = Vec::new();
    if !refusals.is_empty() {
        let refused = Arc::clone(&input);
        let candidates = move || plan::nearest(&refused.job, &refused.datasets, &refused.balances);
        for offer in ctx.compute().run(owner, "looking for a plan that fits", candidates).await? {
            // The balances are copies that may be outdated; the ledger decides.
            if ledger::check(ctx.db.read(), &asks(&offer.job.spec, &input.datasets)).await?.is_empty() {
                offers.push(offer);
            }
        }
    }
    let admitted = violations.is_empty() && refusals.is_empty();
    // A caller may be permitted to plan and not to read jobs.
    let rehearsals = if policy::allows(actor, Operation::ReadJob, Place::Consortium(new.consortium)) {
        rehearsal::find(ctx, new.consortium, &input.job.spec, &input.datasets).await?
    } else {
        Vec::new()
    };
    Ok(Plan { admitted, violations, parties, refusals, buys, offers, together, rehearsals })
}

/// Returns the present cost of a job for one dataset, computed for `owner`; `None` when it is not charged.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn party(
    ctx: &Ctx,
    owner: WorkOwner,
    spec: &Spec,
    datasets: &[Dataset],
    dataset: &Dataset,
) -> Result<Option<PlanParty>, Error> {
    let Some(charge) = spec.cost(dataset) else { return Ok(None) };
    let balances = balances(ctx, spec, datasets).await?;
    let (spec, datasets, dataset) = (spec.clone(), datasets.to_vec(), dataset.clone());
    let price = move || {
        let priced = plan::outlook(&spec, &datasets, &balances);
        PlanParty::from_charge(&dataset, charge, &balances, priced.as_ref())
    };
    Ok(Some(ctx.compute().run(owner, "pricing a job for a dataset", price).await?))
}

/// The input of a plan.
struct PlanInput {
    job: NewJob,
    datasets: Vec<Dataset>,
    balances: AccountBalances,
}

/// The figures of a plan that need no database.
struct PlanFigures {
    parties: Vec<PlanParty>,
    buys: Option<AffordableRounds>,
    together: Option<CombinedCost>,
}

impl PlanInput {
    fn figures(&self, overlap: Overlap) -> PlanFigures {
        let Self { job, datasets, balances } = self;
        let priced = plan::outlook(&job.spec, datasets, balances);
        let charges = charges(&job.spec, datasets);
        let together = CombinedCost::combine(overlap, &charges, balances);
        let parties = charges.into_iter();
        let parties = parties
            .map(|(dataset, charge)| PlanParty::from_charge(dataset, charge, balances, priced.as_ref()))
            .collect();
        PlanFigures { parties, buys: priced.as_ref().and_then(AffordableRounds::from_plan), together }
    }
}

/// Returns a valid job under masks with its dimension, on which its price depends. Other jobs are unchanged.
fn state_dimension(job: NewJob, datasets: &[Dataset]) -> NewJob {
    let is_masked = matches!(&job.spec, Spec::DpSgd(spec) if spec.masks().is_some());
    if is_masked { NewJob { spec: job.spec.settle(datasets), ..job } } else { job }
}

/// Returns every charged dataset of a job, with its charge.
fn charges<'a>(spec: &Spec, datasets: &'a [Dataset]) -> Vec<(&'a Dataset, Charge)> {
    let used = spec.datasets();
    let matches = used.iter().filter_map(|(id, _)| datasets.iter().find(|dataset| dataset.id == *id));
    matches.filter_map(|dataset| Some((dataset, spec.cost(dataset)?))).collect()
}

fn asks(spec: &Spec, datasets: &[Dataset]) -> Vec<ChargeRequest> {
    let ask = |(dataset, charge): (&Dataset, Charge)| ChargeRequest {
        dataset: dataset.id,
        dataset_name: dataset.name.clone(),
        organization: dataset.organization,
        lineage: dataset.lineage,
        charge,
    };
    charges(spec, datasets).into_iter().map(ask).collect()
}

/// Returns the balances of all accounts of the lineages that a job charges.
async fn balances(ctx: &Ctx, spec: &Spec, datasets: &[Dataset]) -> Result<AccountBalances, Error> {
    let asks = asks(spec, datasets);
    let lineages: BTreeSet<_> = asks.iter().map(|ask| ask.lineage.0).collect();
    let mut balances = AccountBalances::default();
    for row in account::of_lineages(ctx.db.read(), lineages.into_iter().collect()).await? {
        let (organization, lineage) = (row.organization_id.into(), row.lineage_id.into());
        if asks.iter().any(|ask| (ask.organization, ask.lineage) == (organization, lineage)) {
            let (unit, adjacency) = (row.unit()?, row.adjacency()?);
            balances.add(AccountKey::new(organization, lineage, unit, adjacency), row.balance()?);
        }
    }
    Ok(balances)
}

/// Sets every party's ε of its charge alone from the privacy-loss distribution: once for all parties with the same
/// charge, and from the cache for a known charge.
async fn tighten(ctx: &Ctx, owner: WorkOwner, parties: &mut [PlanParty]) -> Result<(), Error> {
    for party in parties {
        let Some(delta) = party.delta else { continue };
        let charge = party.charge.clone();
        let compute = ctx.compute().run(owner, "computing a tight epsilon", move || tight(&charge, delta));
        party.tight_epsilon = ctx.compute().tight_epsilons.get_or_compute(&(&party.charge, delta), compute).await?;
    }
    Ok(())
}

/// Returns ε at δ of a charge whose parameters are fixed before its first release, rounded up; `None` when it is
/// infinite or has no known distribution.
fn tight(charge: &Charge, delta: f64) -> Option<f64> {
    let plan =
        pld::Plan::of(&charge.event.clone().times(charge.event.count_charges(charge.releases)), charge.adjacency);
    plan.epsilon(Delta::new(delta).ok()?).ok()?.map(f64::from)
}
