//! Budgets: the lifetime limits that stewards set on a dataset's accounts, and the use of each limit.

use std::collections::{HashMap, HashSet};

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use serde_json::json;
use undertone_api::budget::{
    Account, AccountStanding, BudgetRefusal, ExceededPart, NewBudget, SideDelta, UncoveredReleases,
};
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId, LineageId, OrganizationId};
use undertone_api::problem::{Code, Problem, Violation};
use undertone_privacy::curve::Curve;
use undertone_privacy::ledger::{Balance, Budget, GridKind, LedgerError};
use undertone_privacy::{Adjacency, PrivacyUnit};
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::approval;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::dataset;
use crate::service::entity::column::to_json;
use crate::service::entity::{account, budget, dataset as dataset_row, reservation};
use crate::service::ledger::account::{self as accounts, LedgerAccountKey};
use crate::service::log;
use crate::service::version::ExpectedVersion;

/// The largest ε that can be set.
const MOST_EPSILON: f64 = 10_000.0;
/// The largest δ that can be set.
const MOST_DELTA: f64 = 0.01;

/// Sets or changes a dataset's lifetime limit for one unit. The limit cannot be lower than the spent and reserved sum.
///
/// # Errors
/// `validation_failed` when a number is out of range or could never admit a release, `budget_exceeded` when more is
/// spent and reserved than the new limit permits.
pub async fn set(ctx: &Ctx, actor: &Actor, id: DatasetId, new: NewBudget) -> Result<Account, Error> {
    set_if(ctx, actor, id, new, &ExpectedVersion::Anything).await
}

/// Sets or changes a limit as [`set`] does, if the dataset's accounts have the version that the caller expects.
///
/// # Errors
/// As [`set`]; `precondition_failed` when they have another version.
pub async fn set_if(
    ctx: &Ctx,
    actor: &Actor,
    id: DatasetId,
    new: NewBudget,
    expected: &ExpectedVersion,
) -> Result<Account, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    policy::check(actor, Operation::SetBudget, Place::Organization(dataset.organization))?;
    let violations = violations(&new);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let key = LedgerAccountKey::new(dataset.organization, dataset.lineage, new.unit, Adjacency::ZeroOut);
    let row = ctx
        .db
        .write("set budget", async |tx| {
            let mut now = of_lineages(tx, vec![dataset.lineage]).await?;
            expected.check(&now.remove(&(dataset.organization, dataset.lineage)).unwrap_or_default())?;
            let mut account = accounts::open(ctx, tx, key).await?;
            let limits = limits(&account.balance, &new)?;
            let mut after = account.balance.clone();
            after.set_budget(limits).map_err(|error| Error::internal("setting a budget", error))?;
            if !holds(&after) {
                return Err(budget_too_low(&account.balance, &after, &new, &dataset));
            }
            account.balance = after;
            let began = account.begin(tx).await?;
            let set = budget::Model {
                id: ctx.id::<Uuid>(),
                account_id: account.id(),
                epsilon: new.epsilon.get(),
                delta: new.delta.get(),
                limits: to_json(&limits)?,
                set_by: actor.id().0,
                set_at: ctx.now(),
            };
            let leaves: Vec<_> = began.into_iter().chain([log::leaf::of_limit(&set)]).collect();
            set.into_active_model().insert(tx).await?;
            log::append(ctx, tx, &leaves).await?;
            let act = NewAuditEntry {
                by: AuditAuthor::from(actor),
                what: AuditAction::BudgetSet,
                place: Place::Organization(dataset.organization),
                subject: Some(("dataset", id.to_string())),
                detail: json!({
                    "name": dataset.name,
                    "unit": new.unit,
                    "epsilon": new.epsilon.get(),
                    "delta": new.delta.get(),
                }),
            };
            audit_log::record(ctx, tx, act).await?;
            // Stewards approved jobs in view of the previous limit.
            approval::revoke_answers(ctx, tx, dataset.organization, dataset.lineage).await?;
            account.save(tx).await
        })
        .await?;
    ctx.changes().notify();
    to_account(&row)
}

/// Returns the accounts of lineages, for display. An account that only records exact releases of its owner has a limit
/// of 0.
pub(crate) async fn of_lineages(
    connection: &impl ConnectionTrait,
    lineages: Vec<LineageId>,
) -> Result<HashMap<(OrganizationId, LineageId), Vec<Account>>, Error> {
    let mut all: HashMap<_, Vec<Account>> = HashMap::new();
    let rows = accounts::of_lineages(connection, lineages.into_iter().map(|lineage| lineage.0).collect()).await?;
    let mut uncovered = count_uncovered(connection, &rows).await?;
    for row in rows {
        let account = Account { uncovered: uncovered.remove(&row.id).unwrap_or_default(), ..to_account(&row)? };
        all.entry((row.organization_id.into(), row.lineage_id.into())).or_default().push(account);
    }
    Ok(all)
}

/// Returns the releases that each account does not cover: those of jobs on another account of the same lineage that
/// were not charged to it.
async fn count_uncovered(
    connection: &impl ConnectionTrait,
    rows: &[account::Model],
) -> Result<HashMap<Uuid, Vec<UncoveredReleases>>, Error> {
    let beside = |row: &&account::Model, other: &account::Model| {
        row.id != other.id && (row.organization_id, row.lineage_id) == (other.organization_id, other.lineage_id)
    };
    let several: Vec<_> = rows.iter().filter(|row| rows.iter().any(|other| beside(row, other))).collect();
    let mut all: HashMap<Uuid, Vec<UncoveredReleases>> = HashMap::new();
    if several.is_empty() {
        return Ok(all);
    }
    let reserved = reservation::Entity::find()
        .filter(reservation::Column::AccountId.is_in(several.iter().map(|row| row.id)))
        .all(connection)
        .await?;
    let reserved_keys: HashSet<_> = reserved.iter().map(|row| (row.account_id, row.job_id, row.dataset_id)).collect();
    for part in reserved.iter().filter(|part| part.own && !part.in_the_clear && part.committed > 0) {
        let Some(own) = several.iter().find(|row| row.id == part.account_id) else { continue };
        let unit: PrivacyUnit = own.unit()?;
        for row in several.iter().filter(|row| beside(row, own)) {
            if reserved_keys.contains(&(row.id, part.job_id, part.dataset_id)) {
                continue;
            }
            let (known, releases) = (all.entry(row.id).or_default(), part.committed as u64);
            match known.iter_mut().find(|known| known.unit == unit) {
                Some(known) => (known.jobs, known.releases) = (known.jobs + 1, known.releases + releases),
                None => known.push(UncoveredReleases { unit, jobs: 1, releases }),
            }
        }
    }
    Ok(all)
}

/// Returns the full balances of a dataset's accounts, for planning in the browser. The ledger decides by the same
/// balances.
///
/// # Errors
/// 404 when the caller may not know the dataset.
pub async fn balances(ctx: &Ctx, actor: &Actor, id: DatasetId) -> Result<Vec<AccountStanding>, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    let rows = accounts::of_lineages(ctx.db.read(), vec![dataset.lineage.0]).await?;
    rows.iter().filter(|row| row.organization_id == dataset.organization.0).map(standing).collect()
}

/// Returns the full balances of the accounts of some of a consortium's datasets, as [`balances`] does for one, in the
/// order of `ids`.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn standings(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    ids: &[DatasetId],
) -> Result<Vec<(DatasetId, Vec<AccountStanding>)>, Error> {
    policy::check(actor, Operation::ReadDataset, Place::Consortium(consortium))?;
    let datasets = dataset::rows(ctx.db.read(), consortium).await?;
    let datasets: Vec<&dataset_row::Model> =
        ids.iter().filter_map(|id| datasets.iter().find(|row| row.id == id.0)).collect();
    let rows = accounts::of_lineages(ctx.db.read(), datasets.iter().map(|row| row.lineage_id).collect()).await?;
    let mut all = Vec::with_capacity(datasets.len());
    for dataset in datasets {
        let is_own = |row: &&account::Model| {
            (row.organization_id, row.lineage_id) == (dataset.organization_id, dataset.lineage_id)
        };
        let own = rows.iter().filter(is_own).map(standing).collect::<Result<Vec<_>, _>>()?;
        all.push((dataset.id.into(), own));
    }
    Ok(all)
}

fn standing(row: &account::Model) -> Result<AccountStanding, Error> {
    Ok(AccountStanding { unit: row.unit()?, adjacency: row.adjacency()?, balance: row.balance()? })
}

/// Converts an account for display.
fn to_account(row: &account::Model) -> Result<Account, Error> {
    let balance: Balance = row.balance()?;
    let summary = balance.summary();
    let none = |error| Error::internal("showing an account without a budget", error);
    Ok(Account {
        id: row.id.into(),
        unit: row.unit()?,
        adjacency: row.adjacency()?,
        epsilon: summary.limit.map_or_else(|| 0.0.try_into().map_err(none), Ok)?,
        delta: summary.delta.map_or_else(|| 0.0.try_into().map_err(none), Ok)?,
        spent: summary.spent_epsilon,
        committed: summary.committed_epsilon,
        spent_fraction: summary.spent_fraction,
        reserved_fraction: summary.reserved_fraction,
        released_in_the_clear: row.in_the_clear as u64,
        uncovered: Vec::new(),
    })
}

fn violations(new: &NewBudget) -> Vec<Violation> {
    let mut violations = Vec::new();
    let (epsilon, delta) = (new.epsilon.get(), new.delta.get());
    if !(epsilon > 0.0 && epsilon <= MOST_EPSILON) {
        violations.push(Violation::new("epsilon", format!("greater than 0 and at most {MOST_EPSILON}, not {epsilon}")));
    }
    if !(delta > 0.0 && delta <= MOST_DELTA) {
        violations.push(Violation::new("delta", format!("greater than 0 and at most {MOST_DELTA}, not {delta}")));
    }
    violations
}

/// Returns the limits in the ledger's type. The grid of orders is chosen for the first limit, and again only while
/// nothing is charged; later it is permanent.
fn limits(balance: &Balance, new: &NewBudget) -> Result<Budget, Error> {
    let untouched = balance.spent().is_zero() && balance.reserved().is_zero();
    let grid = match balance.budget() {
        Some(budget) if !untouched => budget.grid(),
        _ => GridKind::for_epsilon(new.epsilon),
    };
    Budget::new(new.epsilon, new.delta, grid)
        .map_err(|error| Error::validation(vec![Violation::new("epsilon", error.to_string())]))
}

/// Returns whether the spent and reserved sum lies within the budget.
fn holds(balance: &Balance) -> bool {
    !matches!(balance.check(&Curve::zero(balance.grid()), 1), Err(LedgerError::Refused(_)))
        && exceeded_side(balance).is_none()
        && balance.budget().is_some()
}

/// Returns the figures of the share of δ for releases with a δ of their own, if more than that share is spent and
/// reserved.
fn exceeded_side(balance: &Balance) -> Option<SideDelta> {
    let (limit, committed) = (balance.budget()?.side_delta().get(), balance.summary().side_delta);
    (committed > limit).then_some(SideDelta { limit, committed, asked: 0.0 })
}

/// Returns the refusal of a limit that would turn `balance` into `after`.
fn budget_too_low(balance: &Balance, after: &Balance, new: &NewBudget, dataset: &Dataset) -> Error {
    let summary = balance.summary();
    let side_delta = exceeded_side(after);
    let detail = match side_delta {
        Some(SideDelta { limit, committed, .. }) => format!(
            "{committed:e} of δ is spent or reserved already by releases with a δ of their own, and this limit keeps {limit:e} \
             for them: choose a larger δ"
        ),
        None => format!(
            "ε {:.4} at δ {:e} is spent or reserved already: a limit can be raised, or lowered to that",
            summary.committed_epsilon,
            summary.delta.map_or(0.0, f64::from)
        ),
    };
    let refusal = BudgetRefusal {
        dataset: dataset.id,
        dataset_name: dataset.name.clone(),
        unit: new.unit,
        limit: new.epsilon.get(),
        delta: new.delta.get(),
        spent: summary.committed_epsilon,
        asked: None,
        would_be: None,
        releases_that_fit: 0,
        reason: None,
        exceeded: Some(if side_delta.is_some() { ExceededPart::SideDelta } else { ExceededPart::Epsilon }),
        side_delta,
    };
    Problem { refusals: vec![refusal], ..Problem::new(Code::BudgetExceeded, detail) }.into()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use undertone_api::problem::Code;

    use super::{balances, standings};
    use crate::service::world::TestConsortium;
    use crate::testing::on_both;

    on_both! {
        async fn the_balances_of_several_datasets_are_those_of_each(app: &TestApp) {
            let world = TestConsortium::new(&app.ctx, 3, 8.0).await;
            world.queued(1).await;
            let (reader, other) = (&world.sites[1].steward, TestConsortium::new(&app.ctx, 1, 8.0).await);
            let ids = [3, 1, 0].map(|site: usize| world.sites[site].dataset);
            let requested_ids: Vec<_> = ids.into_iter().chain([other.sites[1].dataset]).collect();
            let rows = standings(&app.ctx, reader, world.consortium, &requested_ids).await.unwrap();
            assert_eq!(rows.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids, "the last is of another consortium");
            for (id, accounts) in rows {
                assert_eq!(accounts, balances(&app.ctx, reader, id).await.unwrap());
            }
            let hidden = standings(&app.ctx, &other.sites[1].steward, world.consortium, &ids).await.unwrap_err();
            assert_eq!(hidden.code(), Code::NotFound);
        }
    }
}
