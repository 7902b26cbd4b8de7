//! The acceptance of a site's message.

use sea_orm::{EntityTrait as _, IntoActiveModel as _};
use undertone_api::problem::Code;
use undertone_secure_aggregation::server::AdvertisementPhase;
use undertone_secure_aggregation::site_set::SiteIndex;

use super::super::{find, opened};
use super::phase::{MaskedRows, begin, to_text};
use super::{MaskedMessage, MaskedRound, refused};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::masked_message::{self, MaskedStep};
use crate::rule::job::load_job;
use crate::service::lease::{self, ActiveLease};

/// Returns the step and the text of a message; `None` for a question or a refusal, which has none.
fn stored_form(message: &MaskedMessage) -> Result<Option<(MaskedStep, String)>, Error> {
    Ok(Some(match message {
        MaskedMessage::Advertise(advertisement) => (MaskedStep::Advertise, to_text(advertisement)?),
        MaskedMessage::Share(shares) => (MaskedStep::Share, to_text(shares)?),
        MaskedMessage::Survivors | MaskedMessage::Refuse(_) => return Ok(None),
        MaskedMessage::Sign(signature) => (MaskedStep::Sign, to_text(signature)?),
        MaskedMessage::Reveal(reveal) => (MaskedStep::Reveal, to_text(reveal)?),
    }))
}

/// Stores a site's message, if it is new and valid; returns whether it was new.
pub(in crate::service::round) async fn receive(
    ctx: &Ctx,
    (held, token): (&ActiveLease, &str),
    of: &MaskedRound,
    site: SiteIndex,
    message: &MaskedMessage,
) -> Result<bool, Error> {
    let Some((step, body)) = stored_form(message)? else { return Ok(false) };
    // Repeated calls wait for other sites, not for the writer.
    if let Some(rows) = MaskedRows::load(ctx.db.read(), of).await?
        && is_stored(&rows, step, site, &body)?
    {
        return Ok(false);
    }
    ctx.db
        .write("take masked message", async |tx| {
            lease::still_at_work(tx, held, token).await?;
            let Some(rows) = rows_for(ctx, tx, of, message).await? else { return Ok(false) };
            if is_stored(&rows, step, site, &body)? {
                return Ok(false);
            }
            check(&rows, of, site, message)?;
            let row = masked_message::Model {
                job_id: of.job.0,
                series: of.planned.series.name.clone(),
                round: of.number as i32,
                step: step.into(),
                site: site.into(),
                body: body.clone(),
                received_at: ctx.now(),
            };
            masked_message::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
            Ok(true)
        })
        .await
}

/// Returns whether exactly this message is stored.
fn is_stored(rows: &MaskedRows, step: MaskedStep, site: SiteIndex, body: &str) -> Result<bool, Error> {
    match rows.message(step, site) {
        None => Ok(false),
        Some(former) if former == body => Ok(true),
        Some(_) => Err(Error::problem(Code::AlreadyExists, "this site has sent another message of this step before")),
    }
}

/// Returns the rows of the round, and opens it with its first advertisement. `None` when the round is closed and the
/// message is the last one of a site, which changes nothing any more.
///
/// # Errors
/// `not_ready` when the round is not open yet, or the site has to advertise first; `round_closed`.
pub(super) async fn rows_for(
    ctx: &Ctx,
    tx: &Tx,
    of: &MaskedRound,
    message: &MaskedMessage,
) -> Result<Option<MaskedRows>, Error> {
    let not_ready = |what: String| Error::problem(Code::NotReady, what);
    let row = load_job(tx, of.job).await?;
    let series = &of.planned.series.name;
    let open = match message {
        MaskedMessage::Advertise(_) => opened(ctx, tx, &row, &of.planned, of.number).await?,
        _ => find(tx, &row, series, of.number).await?,
    };
    let Some(open) = open else {
        return Err(not_ready(format!("round {} of `{series}` is not open yet", of.number)));
    };
    if open.closed_at.is_some() {
        let is_last = matches!(message, MaskedMessage::Reveal(_) | MaskedMessage::Refuse(_));
        return if is_last { Ok(None) } else { Err(of.closed()) };
    }
    if let Some(rows) = MaskedRows::load(tx, of).await? {
        return Ok(Some(rows));
    }
    // The rows of a restored round may be lost.
    if !matches!(message, MaskedMessage::Advertise(_) | MaskedMessage::Refuse(_)) {
        return Err(not_ready("a site advertises first".to_owned()));
    }
    begin(tx, &open).await?;
    MaskedRows::load(tx, of).await
}

/// Checks a new message against the present phase.
fn check(rows: &MaskedRows, of: &MaskedRound, site: SiteIndex, message: &MaskedMessage) -> Result<(), Error> {
    let not_ready = |what: &str| Err(Error::problem(Code::NotReady, what));
    match message {
        MaskedMessage::Advertise(advertisement) => {
            if rows.listed().is_some() {
                return Err(of.closed());
            }
            AdvertisementPhase::new(&of.roster, of.context).receive(advertisement.clone()).map_err(refused)
        }
        MaskedMessage::Share(shares) => {
            let Some(listed) = rows.listed() else { return not_ready("the list of advertisements is not closed") };
            if rows.members().is_some() || !listed.contains(site) {
                return Err(of.closed());
            }
            rows.share_phase(of)?.receive(site, shares.clone()).map_err(refused)
        }
        MaskedMessage::Survivors | MaskedMessage::Refuse(_) => Ok(()),
        MaskedMessage::Sign(signature) => {
            let Some(survivors) = rows.survivors() else { return not_ready("the set of survivors is not closed") };
            if !survivors.contains(site) {
                return Err(of.closed());
            }
            rows.signature_phase(of)?.receive(signature.clone()).map_err(refused)
        }
        MaskedMessage::Reveal(reveal) => {
            let signatures = rows.signatures()?;
            if rows.survivors().is_none() || !of.roster.is_group(signatures.len()) {
                return not_ready("the signatures of enough survivors are not there");
            }
            let mut phase = rows.signature_phase(of)?;
            for signature in signatures {
                phase.receive(signature).map_err(refused)?;
            }
            phase.close().map_err(refused)?.receive(reveal.clone()).map_err(refused)
        }
    }
}
