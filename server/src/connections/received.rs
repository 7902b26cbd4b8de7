//! The body of a request while it arrives: counts its bytes against a budget, and records its completion.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::ConnectionLimits;
use super::state::RequestGuard;
use super::turn::RequestTurn;
use undertone_server_core::exchange::budget::{ByteBudget, ByteCharge};
use undertone_server_core::metrics::{Limit, Metrics};

/// The bytes of request bodies in memory at one listener.
#[derive(Debug, Clone)]
pub(super) struct ReceivedBytes {
    strangers: Arc<ByteBudget<IpAddr>>,
    recognized: Arc<ByteBudget<IpAddr>>,
    /// False for gRPC, whose streams exceed any budget; there single messages are counted.
    is_counted: bool,
    metrics: Metrics,
}

impl ReceivedBytes {
    pub(super) fn new(limits: &ConnectionLimits, metrics: Metrics) -> Self {
        let strangers = ByteBudget::new(limits.stranger_bytes.0, limits.stranger_bytes.1);
        let recognized = ByteBudget::new(limits.recognized_bytes.0, limits.recognized_bytes.1);
        Self { strangers, recognized, is_counted: !limits.is_http2_only, metrics }
    }

    /// Wraps the body of a request of `guard`, which ends its turn whenever it has to wait for the client.
    pub(super) fn receive(&self, body: Incoming, guard: Arc<RequestGuard>, turn: Arc<RequestTurn>) -> ReceivedBody {
        if body.is_end_stream() {
            guard.complete();
        }
        let network = guard.connection().network;
        ReceivedBody {
            inner: body,
            as_stranger: self.strangers.begin(network),
            as_recognized: self.recognized.begin(network),
            is_counted: self.is_counted,
            metrics: self.metrics.clone(),
            guard,
            turn,
        }
    }
}

/// A reason why a body was aborted.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    /// Too many bytes are in memory.
    #[error("too many request bytes in transit: try again in a moment")]
    TooMany,
}

/// The body of a request. Its bytes are charged until it is dropped.
pub(super) struct ReceivedBody {
    inner: Incoming,
    as_stranger: ByteCharge<IpAddr>,
    as_recognized: ByteCharge<IpAddr>,
    is_counted: bool,
    metrics: Metrics,
    guard: Arc<RequestGuard>,
    turn: Arc<RequestTurn>,
}

impl ReceivedBody {
    /// Charges bytes to the budget of strangers or of recognized callers, by the caller's current state.
    fn charge(&mut self, bytes: usize) -> Result<(), ReceiveError> {
        let is_recognized = self.guard.connection().is_recognized();
        let charge = if is_recognized { &mut self.as_recognized } else { &mut self.as_stranger };
        if !self.is_counted || charge.add(bytes) {
            return Ok(());
        }
        self.guard.refuse_bytes();
        self.metrics.reach(Limit::RequestBytes);
        Err(ReceiveError::TooMany)
    }
}

impl http_body::Body for ReceivedBody {
    type Data = Bytes;
    type Error = ReceiveError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReceiveError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) else {
            self.turn.end();
            return Poll::Pending;
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let charge = self.charge(bytes);
                if self.inner.is_end_stream() {
                    self.guard.complete();
                }
                Some(charge.map(|()| frame))
            }
            Some(Err(error)) => Some(Err(error.into())),
            None => {
                self.guard.complete();
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
