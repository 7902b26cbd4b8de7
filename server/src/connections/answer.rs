//! The responses of HTTP/2, of which a connection carries many: an unread one is reset, and the others continue.
//!
//! The socket does not show that a client keeps its window closed: hyper then stops polling the body for its next
//! frame. So each stream records the time when it returned a frame until it is polled again. Its executor drops the
//! stream if that takes too long.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::{Instant, Sleep, sleep_until};

use super::state::RequestGuard;
use undertone_server_core::metrics::{Limit, Metrics};

tokio::task_local! {
    /// The progress of the current task's stream.
    static PROGRESS: Arc<StreamProgress>;
}

/// The time since which the client has not taken a returned frame.
#[derive(Debug, Default)]
struct StreamProgress(Mutex<Option<Instant>>);

impl StreamProgress {
    fn hand_out(&self) {
        *self.lock() = Some(Instant::now());
    }

    fn take_back(&self) {
        *self.lock() = None;
    }

    fn delivery_start(&self) -> Option<Instant> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the streams of one HTTP/2 connection.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    pub(super) patience: Duration,
    pub(super) metrics: Metrics,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let progress = Arc::<StreamProgress>::default();
        let stream = PROGRESS.scope(Arc::clone(&progress), async move {
            let _ = stream.await;
        });
        tokio::spawn(BoundedStream {
            stream: Box::pin(stream),
            progress,
            patience: self.patience,
            metrics: self.metrics.clone(),
            deadline: Box::pin(sleep_until(Instant::now())),
        });
    }
}

/// A stream that ends if its client leaves it unread. Dropping it resets it.
struct BoundedStream<F> {
    stream: Pin<Box<F>>,
    progress: Arc<StreamProgress>,
    patience: Duration,
    metrics: Metrics,
    deadline: Pin<Box<Sleep>>,
}

impl<F: Future<Output = ()>> Future for BoundedStream<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let Some(start) = self.progress.delivery_start() else { return Poll::Pending };
        let due = start + self.patience;
        if self.deadline.deadline() != due {
            self.deadline.as_mut().reset(due);
        }
        if self.deadline.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.metrics.reach(Limit::UnreadAnswer);
        Poll::Ready(())
    }
}

/// The body of a response: keeps the request counted until it ends, and records its progress.
pub(super) struct AnswerBody {
    inner: Body,
    progress: Option<Arc<StreamProgress>>,
    guard: Arc<RequestGuard>,
}

impl AnswerBody {
    /// Wraps the body of a response before it is sent.
    pub(super) fn new(inner: Body, guard: Arc<RequestGuard>) -> Self {
        // HTTP/1 has no task per stream: there the socket shows whether the client reads.
        let progress = PROGRESS.try_with(Arc::clone).ok();
        let answer = Self { inner, progress, guard };
        answer.hand_out();
        answer
    }

    fn hand_out(&self) {
        self.guard.hand_out();
        if let Some(progress) = &self.progress {
            progress.hand_out();
        }
    }

    fn take_back(&self) {
        self.guard.take_back();
        if let Some(progress) = &self.progress {
            progress.take_back();
        }
    }
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.take_back();
        let frame = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(_)) = &frame {
            self.hand_out();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
