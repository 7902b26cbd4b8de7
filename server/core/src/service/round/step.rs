//! The steps of a site in a masked round: its message, and the wait for the other sites.

use std::time::Duration;

use undertone_api::id::WorkerId;
use undertone_api::job::MOST_MEMBERS;
use undertone_secure_aggregation::site_set::SiteIndex;

use super::masked::{self, MaskedInput, MaskedMessage, MaskedRound, invalid};
use super::mean::{LONGEST_WAIT, LOOK_AGAIN};
use super::{close, contributes};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::lease;

/// The header of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepHeader {
    /// Fencing token.
    pub lease: String,
    /// The series.
    pub series: String,
    /// The round, from 1.
    pub round: u32,
    /// The longest wait for the other sites, seconds.
    pub wait_seconds: u32,
}

/// Takes a site's message, and waits for the input of its next step; `None` when other sites are still missing. A
/// repetition changes nothing.
///
/// # Errors
/// `validation_failed` when the dataset is no member of a group, or the message is false; `already_exists` when the site
/// has sent another one; `not_ready` when the round or the step has not begun, or this server lacks an earlier step of the
/// site; `round_closed` when the round continues without this site; `lease_lost`.
pub async fn masked_step(
    ctx: &Ctx,
    worker: WorkerId,
    header: &StepHeader,
    message: &MaskedMessage,
) -> Result<Option<MaskedInput>, Error> {
    let wait = Duration::from_secs(u64::from(header.wait_seconds.min(LONGEST_WAIT)));
    let end = tokio::time::Instant::now() + wait;
    let (held, row) = lease::at_work(ctx.db.read(), worker, &header.lease).await?;
    let planned = contributes(&row, &held, &header.series);
    let site = planned.as_ref().and_then(|planned| planned.series.masked.as_ref()?.index(held.dataset));
    let (Some(planned), Some(site)) = (planned, site) else {
        return Err(invalid("series", "this dataset is no member of a group of this series"));
    };
    if !(1..=planned.series.rounds).contains(&header.round) {
        return Err(invalid("round", &format!("the series has rounds 1 to {}", planned.series.rounds)));
    }
    check_message(site, message)?;
    lease::extend(ctx, &held, &header.lease).await?;
    let round = MaskedRound::new(&row, planned, header.round)?;
    if let MaskedMessage::Refuse(conflict) = message {
        Box::pin(masked::refuse(ctx, (&held, &header.lease), &round, site, *conflict)).await?;
        return Ok(Some(MaskedInput::Over));
    }
    let mut waiter = ctx.changes().subscribe_to_job(held.job);
    if Box::pin(masked::receive(ctx, (&held, &header.lease), &round, site, message)).await? {
        ctx.changes().notify_job(held.job);
    }
    if matches!(message, MaskedMessage::Reveal(_)) {
        close::if_due(ctx, held.job, &header.series, header.round).await?;
        return Ok(Some(MaskedInput::Over));
    }
    loop {
        lease::at_work(ctx.db.read(), worker, &header.lease).await?;
        lease::extend(ctx, &held, &header.lease).await?;
        if Box::pin(masked::close_phases(ctx, held.job, &header.series, header.round)).await? {
            ctx.changes().notify_job(held.job);
        }
        if let Some(input) = Box::pin(round.next_input(ctx, site, message)).await? {
            return Ok(Some(input));
        }
        let remaining = end.saturating_duration_since(tokio::time::Instant::now());
        if remaining.is_zero() {
            return Ok(None);
        }
        tokio::select! {
            () = waiter.wait(remaining.min(LOOK_AGAIN)) => {}
            () = ctx.shutdown.cancelled() => return Ok(None),
        }
    }
}

/// Checks that a message has the calling site's index, and no more parts than a group has members.
fn check_message(site: SiteIndex, message: &MaskedMessage) -> Result<(), Error> {
    let (author, parts) = match message {
        MaskedMessage::Advertise(advertisement) => (advertisement.site, 0),
        MaskedMessage::Share(shares) => {
            (shares.iter().map(|sealed| sealed.from).find(|from| *from != site).unwrap_or(site), shares.len())
        }
        MaskedMessage::Survivors | MaskedMessage::Refuse(_) => (site, 0),
        MaskedMessage::Sign(signature) => (signature.site, 0),
        MaskedMessage::Reveal(reveal) => (reveal.site, reveal.seeds.len().saturating_add(reveal.keys.len())),
    };
    if author != site {
        return Err(invalid("step", &format!("the message of site {author} came from site {site}")));
    }
    if parts > MOST_MEMBERS {
        return Err(invalid("step", &format!("a message has at most {MOST_MEMBERS} shares, not {parts}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
