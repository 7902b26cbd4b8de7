//! The body of a call while it arrives: it is split into messages by their heads. Each message has a maximum size and a
//! time to arrive, and its bytes are charged to a budget.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use undertone_api::problem::{Code, Problem};
use undertone_proto::to_retry_status;

use super::message_limits::{MESSAGE_RATE, MessageSender};
use undertone_server_core::exchange::budget::ByteCharge;
use undertone_server_core::metrics::{Limit, Metrics};

/// Bytes before each message: a flag, and the length (gRPC over HTTP/2, "Length-Prefixed-Message").
const HEAD: usize = 5;
/// The time after which a caller may retry if the budget is exhausted.
const LATER: Duration = Duration::from_secs(1);

/// The charged bytes of a call, shared by its body and the reader of its message.
#[derive(Clone)]
pub(super) struct SharedCharge(Arc<Mutex<ByteCharge<MessageSender>>>);

impl SharedCharge {
    pub(super) fn new(charge: ByteCharge<MessageSender>) -> Self {
        Self(Arc::new(Mutex::new(charge)))
    }

    fn add(&self, bytes: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(bytes)
    }

    fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).release();
    }
}

/// Charges received bytes to the budget, and fails if it has no room for them.
fn charge_bytes(charge: &SharedCharge, metrics: &Metrics, bytes: usize) -> Result<(), Status> {
    if charge.add(bytes) {
        return Ok(());
    }
    metrics.reach(Limit::MessageBytes);
    let detail = "too many message bytes in transit: send the message again in a moment";
    Err(to_retry_status(&Problem::new(Code::Unavailable, detail), LATER))
}

/// The position of a body in its messages.
#[derive(Debug, PartialEq, Eq)]
enum FramePosition {
    /// In the head of a message, with the number of received bytes.
    Head([u8; HEAD], usize),
    /// In a message, with the number of missing bytes.
    Message(usize),
}

/// A body with limits on its messages.
pub(super) struct MeteredBody {
    inner: Body,
    charge: SharedCharge,
    largest: usize,
    time: Duration,
    /// Whether each message is processed when the next begins.
    is_streaming: bool,
    metrics: Metrics,
    place: FramePosition,
    /// The remaining time for the current message, which counts while the server waits for it.
    left: Duration,
    waiting_since: Option<Instant>,
    deadline: Pin<Box<Sleep>>,
}

impl MeteredBody {
    pub(super) fn new(
        inner: Body,
        charge: SharedCharge,
        largest: usize,
        time: Duration,
        is_streaming: bool,
        metrics: Metrics,
    ) -> Self {
        let deadline = Box::pin(sleep_until(Instant::now() + time));
        let place = FramePosition::Head([0; HEAD], 0);
        Self { inner, charge, largest, time, is_streaming, metrics, place, left: time, waiting_since: None, deadline }
    }

    /// Follows the messages through the next bytes.
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        charge_bytes(&self.charge, &self.metrics, bytes.len())?;
        while !bytes.is_empty() {
            match &mut self.place {
                FramePosition::Head(head, have) => {
                    if *have == 0 && self.is_streaming {
                        // The previous message was read.
                        self.charge.release();
                        charge_bytes(&self.charge, &self.metrics, bytes.len())?;
                    }
                    let (now, later) = bytes.split_at(bytes.len().min(HEAD - *have));
                    head[*have..*have + now.len()].copy_from_slice(now);
                    *have += now.len();
                    bytes = later;
                    if *have == HEAD {
                        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                        self.begin_message(length)?;
                    }
                }
                FramePosition::Message(missing) => {
                    let (now, later) = bytes.split_at(bytes.len().min(*missing));
                    *missing -= now.len();
                    bytes = later;
                    if *missing == 0 {
                        self.end_message();
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_message(&mut self, length: usize) -> Result<(), Status> {
        if length > self.largest {
            self.metrics.reach(Limit::MessageSize);
            return Err(Status::out_of_range(format!(
                "a message of {length} bytes exceeds the limit of {} bytes for this caller: sign in, or send less",
                self.largest
            )));
        }
        self.left += Duration::from_secs((length / MESSAGE_RATE) as u64);
        self.place = FramePosition::Message(length);
        if length == 0 {
            self.end_message();
        }
        Ok(())
    }

    fn end_message(&mut self) {
        self.place = FramePosition::Head([0; HEAD], 0);
        self.left = self.time;
    }

    /// Counts the time while the server waits for bytes, and fails if none remains.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        if self.waiting_since.is_none() {
            let now = Instant::now();
            self.waiting_since = Some(now);
            self.deadline.as_mut().reset(now + self.left);
        }
        if self.deadline.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.metrics.reach(Limit::MessageTime);
        Poll::Ready(Status::deadline_exceeded("the message did not arrive in time: send it again"))
    }

    fn end_wait(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }
}

impl http_body::Body for MeteredBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) else {
            return self.wait(context).map(|status| Some(Err(status)));
        };
        self.end_wait();
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                let charge = frame.data_ref().map_or(Ok(()), |bytes| self.take(bytes));
                Some(charge.map(|()| frame))
            }
            Some(Err(error)) => Some(Err(Status::from_error(error.into()))),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::{Body, Bytes};
    use futures::{StreamExt as _, stream};
    use tokio::time::Instant;
    use tonic::{Code, Status};
    use undertone_api::id::WorkerId;
    use uuid::Uuid;

    use super::{MeteredBody, SharedCharge};
    use crate::grpc::message_limits::{MESSAGE_RATE, MessageSender};
    use undertone_server_core::exchange::budget::ByteBudget;
    use undertone_server_core::metrics::{Metrics, Transactions};

    const TIME: Duration = Duration::from_mins(1);

    /// Returns a message with its head.
    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend((length as u32).to_be_bytes());
        bytes.resize(5 + length, 7);
        bytes
    }

    /// Reads a body to its end or its error.
    async fn read(
        pieces: Vec<Vec<u8>>,
        then_silent: bool,
        largest: usize,
        budget: usize,
        streaming: bool,
    ) -> Result<usize, Status> {
        let pieces =
            stream::iter(pieces.into_iter().map(|piece| Ok::<_, std::convert::Infallible>(Bytes::from(piece))));
        let body =
            if then_silent { Body::from_stream(pieces.chain(stream::pending())) } else { Body::from_stream(pieces) };
        let sender = MessageSender::Worker(WorkerId(Uuid::nil()));
        let charge = SharedCharge::new(ByteBudget::new(budget, budget).begin(sender));
        let metrics = Metrics::new(Transactions::default());
        let mut body = MeteredBody::new(body, charge, largest, TIME, streaming, metrics);
        let mut bytes = 0;
        loop {
            let frame =
                std::future::poll_fn(|context| http_body::Body::poll_frame(std::pin::Pin::new(&mut body), context));
            match frame.await {
                None => return Ok(bytes),
                Some(frame) => bytes += frame?.data_ref().map_or(0, Bytes::len),
            }
        }
    }

    #[tokio::test]
    async fn message_over_its_size_fails_by_its_head_alone() {
        let head = message(101)[..5].to_vec();
        let refused = read(vec![head], true, 100, 1000, false).await.expect_err("it announces too much");
        assert_eq!(refused.code(), Code::OutOfRange);
        assert_eq!(read(vec![message(100)], false, 100, 1000, false).await.expect("it fits"), 105);
    }

    #[tokio::test]
    async fn heads_are_found_wherever_the_bytes_are_cut() {
        let bytes = [message(3), message(0), message(9)].concat();
        for cut in 1..bytes.len() {
            let pieces = bytes.chunks(cut).map(<[u8]>::to_vec).collect();
            assert_eq!(read(pieces, false, 9, 1000, true).await.expect("all fit"), bytes.len());
            let pieces = bytes.chunks(cut).map(<[u8]>::to_vec).collect();
            assert!(read(pieces, false, 8, 1000, true).await.is_err(), "the last does not");
        }
    }

    #[tokio::test]
    async fn bytes_over_the_budget_are_refused_until_later() {
        let refused = read(vec![message(100)], false, 100, 104, false).await.expect_err("five more than there are");
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(undertone_proto::retry_delay(&refused).is_some());
    }

    #[tokio::test]
    async fn streamed_messages_are_charged_one_at_a_time() {
        let pieces = || (0..10).map(|_| message(100)).collect();
        read(pieces(), false, 100, 210, true).await.expect("each is done with when the next begins");
        assert!(read(pieces(), false, 100, 210, false).await.is_err(), "of one call that is read whole all are held");
    }

    #[tokio::test(start_paused = true)]
    async fn message_that_does_not_arrive_fails_in_time() {
        let began = Instant::now();
        let half = message(10 * MESSAGE_RATE)[..50].to_vec();
        let refused = read(vec![half], true, 100 * MESSAGE_RATE, 1 << 30, false).await.expect_err("half of it");
        assert_eq!(refused.code(), Code::DeadlineExceeded);
        assert_eq!(began.elapsed().as_secs(), TIME.as_secs() + 10, "a large one has longer");
    }

    #[tokio::test(start_paused = true)]
    async fn each_streamed_message_has_its_own_time() {
        let began = Instant::now();
        let slow = stream::iter(0..5).then(|_| async {
            tokio::time::sleep(TIME * 9 / 10).await;
            Ok::<_, std::convert::Infallible>(Bytes::from(message(10)))
        });
        let sender = MessageSender::Worker(WorkerId(Uuid::nil()));
        let charge = SharedCharge::new(ByteBudget::new(1000, 1000).begin(sender));
        let metrics = Metrics::new(Transactions::default());
        let mut body = MeteredBody::new(Body::from_stream(slow), charge, 100, TIME, true, metrics);
        for _ in 0..5 {
            let frame =
                std::future::poll_fn(|context| http_body::Body::poll_frame(std::pin::Pin::new(&mut body), context));
            frame.await.expect("another").expect("in time");
        }
        assert!(began.elapsed() > TIME * 4);
    }
}
