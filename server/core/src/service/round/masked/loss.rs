//! Rounds that are lost: too few sites are left for a sum.
//!
//! A server that was restored from an older state lacks steps that its sites have taken. It may show another list of
//! advertisements, other shares or another set of survivors than before, lack a vector, or have a round open that its
//! sites have ended. A site acts on the first of each, so it refuses ([`MaskedMessage::Refuse`]) and takes no further part
//! in the round. The server does not expect it any more. When too few sites are left, the round is lost, and the job
//! fails with the reason: as in a job whose quorum cannot be reached, no later round can begin without the mean. Charges
//! stay charged.
//!
//! # A dishonest site
//!
//! The server cannot verify a refusal: a site that signs another set by itself has the same evidence as an honest one.
//! So a refusal has the effect of a dropout, and no more:
//!
//! * The messages and the vector that a site has sent stay in the round. The site only adds itself to those that send
//!   nothing more in it, which it can also do by silence.
//! * The round is lost when the other sites are fewer than the smallest group, or than the quorum needs. Then no sum can
//!   be opened without the site anyway: in silence it would keep the round open, and by giving its part up it would end
//!   the job. With more sites than that the others complete the round, at once instead of after the time of a phase.
//! * After a site has revealed its shares, its refusal changes nothing.
//!
//! # A dishonest server
//!
//! The server gains nothing from a refusal. It states one of five reasons, each a function of messages that the server
//! has sent or received. The site has signed one set, masked one vector, and paid once, before and after it.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use undertone_api::job::JobStep;
use undertone_api::job::log::{LogEvent, StepConflict};
use undertone_secure_aggregation::site_set::SiteIndex;

use super::phase::{MaskedRows, absent_sites};
use super::receive::rows_for;
use super::{MaskedMessage, MaskedRound};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{job, masked_round};
use crate::rule::job::load_job;
use crate::service::audit_log::AuditAuthor;
use crate::service::job::state;
use crate::service::lease::{self, ActiveLease};
use crate::service::{job_log, react};

/// The effect of a refusal.
enum RefusalEffect {
    /// It was known, or nothing more was needed of the site.
    Nothing,
    /// The round continues without the site.
    Continues,
    /// The round is lost, and the job has failed.
    Lost,
}

/// Records that a site takes no further part in a round. Fails the job when the round is lost by that. A repetition
/// changes nothing.
///
/// # Errors
/// `not_ready` when the round is not open yet, `lease_lost`.
pub(in crate::service::round) async fn refuse(
    ctx: &Ctx,
    (held, token): (&ActiveLease, &str),
    of: &MaskedRound,
    site: SiteIndex,
    conflict: StepConflict,
) -> Result<(), Error> {
    let effect = ctx
        .db
        .write("take masked refusal", async |tx| {
            lease::still_at_work(tx, held, token).await?;
            let rows = rows_for(ctx, tx, of, &MaskedMessage::Refuse(conflict)).await?;
            let Some(mut rows) = rows else { return Ok(RefusalEffect::Nothing) };
            if !rows.refuse(site) {
                return Ok(RefusalEffect::Nothing);
            }
            rows.to_phases().into_active_model().reset_all().update(tx).await?;
            let row = load_job(tx, of.job).await?;
            let series = &of.planned.series.name;
            let place = row.series.iter().position(|planned| planned.series.name == *series).unwrap_or_default();
            let event = LogEvent::Refused { series: place as u32, round: of.number, conflict };
            job_log::note(ctx, tx, row.id, Some(held.dataset.0), event).await?;
            if !rows.is_lost(of, absent_sites(tx, of).await?) {
                return Ok(RefusalEffect::Continues);
            }
            let reason = Some(of.loss_reason(&rows));
            Box::pin(state::step(ctx, tx, AuditAuthor::System, row, JobStep::Fail, reason)).await?;
            Ok(RefusalEffect::Lost)
        })
        .await?;
    match effect {
        RefusalEffect::Nothing => {}
        RefusalEffect::Continues => {
            of.log_refusal(held, conflict, false);
            ctx.changes().notify_job(of.job);
        }
        RefusalEffect::Lost => {
            of.log_refusal(held, conflict, true);
            react::after_job_change(ctx, of.job).await;
        }
    }
    Ok(())
}

/// Returns the reason why an open masked round of a job can never be completed; `None` when each can.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(in crate::service) async fn find_lost_round(
    connection: &impl ConnectionTrait,
    row: &job::Model,
) -> Result<Option<String>, Error> {
    let open = masked_round::Entity::find().filter(masked_round::Column::JobId.eq(row.id)).all(connection).await?;
    for phases in open {
        let planned = row.series.iter().find(|planned| planned.series.name == phases.series).cloned();
        let Some(planned) = planned.filter(|planned| planned.series.masked.is_some()) else { continue };
        let of = MaskedRound::new(row, planned, phases.round as u32)?;
        let Some(rows) = MaskedRows::load(connection, &of).await? else { continue };
        if rows.is_lost(&of, absent_sites(connection, &of).await?) {
            return Ok(Some(of.loss_reason(&rows)));
        }
    }
    Ok(None)
}

impl MaskedRound {
    /// Returns the reason of the end of a job whose round is lost.
    fn loss_reason(&self, rows: &MaskedRows) -> String {
        let (number, series, sites) = (self.number, &self.planned.series.name, self.group.datasets.len());
        let cause = match rows.refused().len() {
            0 => format!("too few of its {sites} sites are left for a sum"),
            count => format!(
                "{count} of its {sites} sites have recorded other steps than this server shows, as after a restoration of the \
                 server from an older state, and too few are left for a sum"
            ),
        };
        format!("round {number} of `{series}` is lost: {cause}. What was paid stays paid; propose the job again")
    }

    fn log_refusal(&self, held: &ActiveLease, conflict: StepConflict, is_lost: bool) {
        tracing::warn!(
            job.id = %self.job,
            dataset.id = %held.dataset,
            series = self.planned.series.name.as_str(),
            round = self.number,
            conflict = ?conflict,
            is_lost,
            "a site takes no further part in a masked round, because this server shows another state of it than before"
        );
    }
}
