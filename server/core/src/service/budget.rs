//! Budgets: the lifetime limits that stewards set on a dataset's accounts, and the use of each limit.

pub(crate) mod usage;

use sea_orm::{ActiveModelTrait as _, IntoActiveModel as _};
use serde_json::json;
use undertone_api::budget::{Account, AccountStanding, BudgetRefusal, ExceededPart, NewBudget, SideDelta};
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::plan::AccountKey;
use undertone_api::problem::{Code, Problem, Violation};
use undertone_privacy::Adjacency;
use undertone_privacy::curve::Curve;
use undertone_privacy::ledger::{Balance, Budget, FilterKind, LedgerError};
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::to_json;
use crate::model::{account, budget, dataset as dataset_row};
use crate::service::approval;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::dataset;
use crate::service::ledger::account::{self as accounts, OpenAccount};
use crate::service::log;
use crate::service::version::ExpectedVersion;

/// The largest ε that can be set.
const MOST_EPSILON: f64 = 10_000.0;
/// The largest δ that can be set.
const MOST_DELTA: f64 = 0.01;

/// Sets or changes a dataset's lifetime limit for one unit. The limit cannot be lower than the spent and reserved sum.
///
/// # Errors
/// `validation_failed` when a number is out of range or could never admit a release, or the filter would change after a
/// reservation; `budget_exceeded` when more is spent and reserved than the new limit permits.
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
    let key = AccountKey::new(dataset.organization, dataset.lineage, new.unit, Adjacency::ZeroOut);
    let row = ctx
        .db
        .write("set budget", async |tx| {
            let mut now = usage::load_accounts(tx, vec![dataset.lineage]).await?;
            expected.check(&now.remove(&(dataset.organization, dataset.lineage)).unwrap_or_default())?;
            let mut account = accounts::open(ctx, tx, key).await?;
            let limits = limits(&account, &new)?;
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
                    "filter": limits.grid().filter(),
                }),
            };
            audit_log::record(ctx, tx, act).await?;
            // Stewards approved jobs in view of the previous limit.
            approval::revoke_answers(ctx, tx, dataset.organization, dataset.lineage).await?;
            account.save(tx).await
        })
        .await?;
    ctx.changes().notify();
    usage::to_account(&row)
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

/// Returns the limits in the ledger's type. The filter is chosen with the first limit, and is permanent once a job was
/// reserved. The grid of orders is chosen again while nothing is charged.
fn limits(account: &OpenAccount, new: &NewBudget) -> Result<Budget, Error> {
    let balance = &account.balance;
    let present = balance.budget().map(|budget| budget.grid().filter());
    let filter = new.filter.or(present).unwrap_or_default();
    if let Some(present) = present.filter(|present| account.has_entries() && *present != filter) {
        return Err(Error::validation(vec![Violation::new("filter", filter_is_fixed(present, filter))]));
    }
    let untouched = balance.spent().is_zero() && balance.reserved().is_zero();
    let grid = match balance.budget() {
        Some(budget) if !untouched => budget.grid(),
        _ => filter.grid(new.epsilon),
    };
    Budget::new(new.epsilon, new.delta, grid)
        .map_err(|error| Error::validation(vec![Violation::new("epsilon", error.to_string())]))
}

/// Explains why an account keeps its filter, and the remedy.
fn filter_is_fixed(present: FilterKind, requested: FilterKind) -> String {
    let (present, requested) = (present.word(), requested.word());
    format!(
        "the account has admitted jobs by the filter `{present}` and keeps it for life: leave the field out or set `{present}`; \
         for `{requested}`, register the next dataset as a new lineage and choose it with the first limit"
    )
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
