//! Displayed changes of other replicas.
//!
//! Each replica counts its own displayed changes in the table `change`, at most once a second for each channel, and reads
//! all counts as often. A count that grew by more than its own changes announces a change at another replica, and
//! notifies the streams of this one. So one small query a second stands for a query of each watched job and consortium.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{DbBackend, EntityTrait as _, IntoActiveModel as _};

use crate::ctx::{Ctx, DisplayedChange};
use crate::error::Error;
use crate::model::change;

/// The interval of announcements.
const EVERY: Duration = Duration::from_secs(1);

/// Exchanges changes with the other replicas every second, until the server stops. Only servers on PostgreSQL have
/// replicas.
pub async fn keep(ctx: Ctx) {
    if ctx.db.read().get_database_backend() == DbBackend::Postgres {
        exchange_changes(ctx).await;
    }
}

/// Exchanges changes on any database.
pub(crate) async fn exchange_changes(ctx: Ctx) {
    let mut exchange = ChangeExchange::default();
    loop {
        if let Err(error) = exchange.run(&ctx).await {
            // `into_problem` logs it; the next time tries again.
            let _ = error.into_problem();
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

/// The exchange of changes with the other replicas.
#[derive(Debug, Default)]
pub(crate) struct ChangeExchange {
    /// The counts that were read last; `None` before the first time.
    counts: Option<BTreeMap<i32, i64>>,
}

impl ChangeExchange {
    /// Announces the changes of this replica, and notifies its streams of those of the others.
    ///
    /// # Errors
    /// When the database fails; the changes are announced the next time then.
    async fn run(&mut self, ctx: &Ctx) -> Result<(), Error> {
        let own = ctx.changes().take_unannounced();
        if let Err(error) = announce(ctx, &own).await {
            ctx.changes().return_unannounced(&own);
            return Err(error);
        }
        let rows = change::Entity::find().all(ctx.db.read()).await?;
        let counts: BTreeMap<i32, i64> = rows.into_iter().map(|row| (row.channel, row.number)).collect();
        if let Some(before) = &self.counts {
            for (channel, count) in &counts {
                let change = DisplayedChange::from_number(*channel);
                let known = before.get(channel).copied().unwrap_or_default() + i64::from(own.contains(&change));
                if *count != known {
                    ctx.changes().display(change);
                }
            }
        }
        self.counts = Some(counts);
        Ok(())
    }
}

/// Counts changes of this replica.
async fn announce(ctx: &Ctx, changes: &[DisplayedChange]) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let next = OnConflict::column(change::Column::Channel)
        .value(change::Column::Number, Expr::col((change::Entity, change::Column::Number)).add(1))
        .to_owned();
    ctx.db
        .write_concurrent("announce changes", async |tx| {
            // In ascending order, so that no two replicas wait for each other.
            let rows =
                changes.iter().map(|change| change::Model { channel: change.number(), number: 1 }.into_active_model());
            let insert = change::Entity::insert_many(rows);
            insert.on_conflict(next.clone()).exec_without_returning(tx).await?;
            Ok(())
        })
        .await
}
