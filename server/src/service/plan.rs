//! Plans: what a job would cost each owner, what would be left, and what would fit instead. Nothing is changed.

use undertone_api::dataset::Dataset;
use undertone_api::job::Charge;
use undertone_api::plan::{NewPlan, Plan, PlanParty};
use undertone_privacy::Event;
use undertone_privacy::calibrate::noise_for;
use undertone_privacy::ledger::{Balance, Reservation, ReservationId};

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::code::from_json;
use crate::service::ledger::account::{self as accounts, Key};
use crate::service::ledger::{self, Ask};
use crate::service::{dataset, job};

/// What a job would come to.
///
/// # Errors
/// 404 and 403 as usual; what is wrong with the job itself is in the plan.
pub async fn plan(ctx: &Ctx, actor: &Actor, new: &NewPlan) -> Result<Plan, Error> {
    policy::check(actor, Operation::PlanJob, Place::Consortium(new.consortium))?;
    let datasets = dataset::in_consortium(ctx.db.read(), new.consortium).await?;
    let violations = job::violations(&new.job, &datasets);
    let (mut asks, mut parties) = (Vec::new(), Vec::new());
    for (id, _) in new.job.spec.datasets() {
        let Some(dataset) = datasets.iter().find(|dataset| dataset.id == id) else { continue };
        let Some(charge) = new.job.spec.cost(dataset) else { continue };
        parties.push(party(ctx, dataset, &charge).await?);
        asks.push(Ask {
            dataset: id,
            dataset_name: dataset.name.clone(),
            organization: dataset.organization,
            lineage: dataset.lineage,
            charge,
        });
    }
    let refusals = ledger::check(ctx.db.read(), &asks).await?;
    Ok(Plan { admitted: violations.is_empty() && refusals.is_empty(), violations, parties, refusals })
}

async fn party(ctx: &Ctx, dataset: &Dataset, charge: &Charge) -> Result<PlanParty, Error> {
    let key = Key {
        organization: dataset.organization,
        lineage: dataset.lineage,
        unit: charge.unit,
        adjacency: charge.adjacency,
    };
    let row = accounts::find(ctx.db.read(), key).await?;
    let balance: Balance = match row {
        Some(row) => from_json(&row.balance)?,
        None => Balance::new(None),
    };
    let summary = balance.summary();
    let delta = summary.delta.map(f64::from);
    let would_be = would_be(&balance, charge);
    let headroom = balance.headroom();
    Ok(PlanParty {
        dataset: dataset.id,
        dataset_name: dataset.name.clone(),
        charge: charge.clone(),
        limit: summary.limit.map(f64::from),
        delta,
        epsilon: delta.and_then(|delta| ledger::epsilon_alone(charge, charge.releases, delta)),
        would_be,
        left: summary.limit.zip(would_be).map(|(limit, would_be)| (limit.get() - would_be).next_down()),
        releases_that_fit: balance.price(&charge.event, charge.adjacency).map_or(0, |cost| headroom.releases(&cost)),
        least_noise: match charge.event {
            Event::PoissonSampledGaussian { sampling_rate, .. } => {
                noise_for(&headroom, sampling_rate, charge.releases, charge.adjacency).ok().map(f64::from)
            }
            _ => None,
        },
    })
}

/// ε of spent, reserved and asked together, by the account's own gauge.
fn would_be(balance: &Balance, charge: &Charge) -> Option<f64> {
    let cost = balance.price(&charge.event, charge.adjacency).ok()?;
    let parts = [
        Reservation::from_parts(ReservationId(0), balance.spent().clone(), 1, 1, false).ok()?,
        Reservation::from_parts(ReservationId(1), balance.reserved().clone(), 1, 1, false).ok()?,
        Reservation::from_parts(ReservationId(2), cost, charge.releases, charge.releases, false).ok()?,
    ];
    let summary = Balance::rebuilt(Some(*balance.budget()?), &parts).ok()?.summary();
    summary.spent_epsilon.is_finite().then_some(summary.spent_epsilon)
}
