//! Sends a sealed batch to one provider, until it is answered, given up or stopped.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use tokio_util::sync::CancellationToken;

use super::error::OutboundError;
use super::sealed::SealedSounds;
use crate::provider::line::{LineError, ProviderLine};
use undertone_worker_site::clearance::DepartureProof;
use undertone_worker_site::fault;

/// Number of consecutive unanswered sounds after which the provider counts as unreachable and the rest is not sent.
pub const GIVE_UP: u32 = 10;

/// Progress of one provider's part of a batch.
#[derive(Debug)]
pub struct DeliveryResult {
    /// Sounds answered during this call.
    pub answered: u32,
    /// Sounds without an answer. Their pieces keep the offline words, or are sent again later.
    pub left: u32,
    /// The last failure; `None` when nothing failed or the delivery was stopped.
    pub problem: Option<LineError>,
}

/// Sends the sounds that `provider` has not answered, in the batch's order, as many at a time as `line` allows. Each answer is
/// written to disk as soon as it arrives. After `stop` or a crash, a later call continues with the rest.
///
/// # Errors
/// [`OutboundError::Unpaid`] when the permission is for another batch; [`OutboundError::Recipient`] when the line leads to
/// another recognizer than the charged one; [`OutboundError::Damaged`] when a sound differs from the charged one;
/// [`OutboundError::Line`] when the provider refuses the site's key.
pub async fn deliver(
    sealed: &Arc<SealedSounds>,
    provider: u32,
    line: &ProviderLine,
    stop: &CancellationToken,
    departure: &DepartureProof,
) -> Result<DeliveryResult, OutboundError> {
    if !departure.covers(sealed.digest(), sealed.event().is_some()) {
        return Err(OutboundError::Unpaid);
    }
    let now = line.recipient();
    match sealed.recipients().get(provider as usize) {
        Some(recipient) if recipient == now => {}
        other => {
            let sealed = other.cloned().unwrap_or_else(|| "no recognizer".to_owned());
            return Err(OutboundError::Recipient { provider, sealed, now: now.to_owned() });
        }
    }
    let unanswered = sealed.unanswered(provider);
    let all = unanswered.len() as u32;
    let sending = stream::iter(unanswered).map(|place| send(sealed, provider, place, line, stop));
    let mut sending = sending.buffer_unordered(line.concurrency() as usize);
    let (mut answered, mut in_a_row, mut problem) = (0, 0, None);
    while let Some(outcome) = sending.next().await {
        match outcome? {
            SendOutcome::Answered => {
                answered += 1;
                in_a_row = 0;
            }
            SendOutcome::Stopped => break,
            SendOutcome::Unanswered(source @ LineError::Key(_)) => {
                return Err(OutboundError::Line { recipient: now.to_owned(), source });
            }
            SendOutcome::Unanswered(error) => {
                problem = Some(error);
                in_a_row += 1;
                if in_a_row == GIVE_UP {
                    break;
                }
            }
        }
    }
    Ok(DeliveryResult { answered, left: all - answered, problem })
}

enum SendOutcome {
    Answered,
    Unanswered(LineError),
    Stopped,
}

async fn send(
    sealed: &Arc<SealedSounds>,
    provider: u32,
    place: u32,
    line: &ProviderLine,
    stop: &CancellationToken,
) -> Result<SendOutcome, OutboundError> {
    if stop.is_cancelled() {
        return Ok(SendOutcome::Stopped);
    }
    let sound = on_disk(sealed, move |sealed| sealed.outgoing(provider, place)).await?;
    fault::point(fault::BEFORE_SEND);
    match line.transcribe(&sound, stop).await {
        None => Ok(SendOutcome::Stopped),
        Some(Err(error)) => Ok(SendOutcome::Unanswered(error)),
        Some(Ok(recognition)) => {
            fault::point(fault::AFTER_SEND);
            on_disk(sealed, move |sealed| sealed.note_answer(provider, place, recognition)).await?;
            Ok(SendOutcome::Answered)
        }
    }
}

/// Runs `work` on a thread that may block on the disk.
async fn on_disk<T: Send + 'static>(
    sealed: &Arc<SealedSounds>,
    work: impl FnOnce(&SealedSounds) -> Result<T, OutboundError> + Send + 'static,
) -> Result<T, OutboundError> {
    let sealed = Arc::clone(sealed);
    tokio::task::spawn_blocking(move || work(&sealed)).await.map_err(|_| OutboundError::Thread)?
}
