//! Sending a sealed batch to one provider, until it is answered, given up or not wanted any more.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use tokio_util::sync::CancellationToken;

use super::{OutboundError, Sealed};
use crate::fault;
use crate::site::clearance::Departure;
use crate::speech::transcribe::provider::line::{Line, LineError};

/// So many sounds without an answer, one after the other, and the rest is not tried: the provider is gone.
pub(crate) const GIVE_UP: u32 = 10;

/// How far a provider's part of a batch got.
#[derive(Debug)]
pub struct Delivered {
    /// Sounds that were answered now.
    pub answered: u32,
    /// Sounds without an answer; their pieces keep the offline words, or are sent again later.
    pub left: u32,
    /// Why the last of these has none; absent when nothing was wrong, or it was stopped.
    pub problem: Option<LineError>,
}

/// Sends what `provider` has not answered of a batch that may leave, in the batch's order, as many at a time as its `line` allows. What it answers is on disk as
/// soon as it is there; whoever stops this, by `stop` or by a crash, goes on later with the rest.
///
/// # Errors
/// [`OutboundError::Unpaid`] when the permission is for another batch, [`OutboundError::Recipient`] when the line leads elsewhere than when the batch was charged, [`OutboundError::Damaged`] when a
/// sound is not what was charged, [`OutboundError::Line`] when the provider does not know the site.
pub async fn deliver(
    sealed: &Arc<Sealed>,
    provider: u32,
    line: &Line,
    stop: &CancellationToken,
    departure: &Departure,
) -> Result<Delivered, OutboundError> {
    if !departure.covers(sealed.digest(), sealed.event().is_some()) {
        return Err(OutboundError::Unpaid);
    }
    let now = line.recipient();
    match sealed.recipients().get(provider as usize) {
        Some(recipient) if recipient == now => {}
        other => {
            let sealed = other.cloned().unwrap_or_else(|| "nobody".to_owned());
            return Err(OutboundError::Recipient { provider, sealed, now: now.to_owned() });
        }
    }
    let left = sealed.left(provider);
    let all = left.len() as u32;
    let sending = stream::iter(left).map(|place| send(sealed, provider, place, line, stop));
    let mut sending = sending.buffer_unordered(line.concurrency() as usize);
    let (mut answered, mut in_a_row, mut problem) = (0, 0, None);
    while let Some(outcome) = sending.next().await {
        match outcome? {
            Outcome::Answered => {
                answered += 1;
                in_a_row = 0;
            }
            Outcome::Stopped => break,
            Outcome::Unanswered(source @ LineError::Key(_)) => {
                return Err(OutboundError::Line { recipient: now.to_owned(), source });
            }
            Outcome::Unanswered(error) => {
                problem = Some(error);
                in_a_row += 1;
                if in_a_row == GIVE_UP {
                    break;
                }
            }
        }
    }
    Ok(Delivered { answered, left: all - answered, problem })
}

enum Outcome {
    Answered,
    Unanswered(LineError),
    Stopped,
}

async fn send(
    sealed: &Arc<Sealed>,
    provider: u32,
    place: u32,
    line: &Line,
    stop: &CancellationToken,
) -> Result<Outcome, OutboundError> {
    if stop.is_cancelled() {
        return Ok(Outcome::Stopped);
    }
    let sound = on_disk(sealed, move |sealed| sealed.outgoing(provider, place)).await?;
    fault::point(fault::BEFORE_SEND);
    match line.hear(&sound, stop).await {
        None => Ok(Outcome::Stopped),
        Some(Err(error)) => Ok(Outcome::Unanswered(error)),
        Some(Ok(heard)) => {
            fault::point(fault::AFTER_SEND);
            on_disk(sealed, move |sealed| sealed.note_answer(provider, place, heard)).await?;
            Ok(Outcome::Answered)
        }
    }
}

/// Work on the disk, on a thread that may wait for it.
async fn on_disk<T: Send + 'static>(
    sealed: &Arc<Sealed>,
    work: impl FnOnce(&Sealed) -> Result<T, OutboundError> + Send + 'static,
) -> Result<T, OutboundError> {
    let sealed = Arc::clone(sealed);
    tokio::task::spawn_blocking(move || work(&sealed)).await.map_err(|_| OutboundError::Thread)?
}
