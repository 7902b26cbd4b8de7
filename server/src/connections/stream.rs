//! A socket with a deadline for the reader: a write that makes too little progress within its time fails.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use undertone_server_core::metrics::{Limit, Metrics};

/// Bytes that the peer must take within the time. Fewer would let a client hold a response byte by byte.
const LEAST_PROGRESS: usize = 16 << 10;

/// A stream with a deadline for writes.
pub(super) struct DeadlineStream<I> {
    inner: I,
    patience: Duration,
    metrics: Metrics,
    deadline: Pin<Box<Sleep>>,
    /// Whether a write waits for the peer.
    is_waiting: bool,
    /// Bytes that were sent since the deadline was set.
    progress: usize,
}

impl<I> DeadlineStream<I> {
    pub(super) fn new(inner: I, patience: Duration, metrics: Metrics) -> Self {
        let deadline = Box::pin(sleep_until(Instant::now() + patience));
        Self { inner, patience, metrics, deadline, is_waiting: false, progress: 0 }
    }

    /// Records the outcome of a write of `offered` bytes, and fails it if the peer has taken too little for too long.
    fn note(
        &mut self,
        context: &mut Context<'_>,
        offered: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.progress += bytes;
                if bytes == offered || self.progress >= LEAST_PROGRESS {
                    self.is_waiting = false;
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                if !self.is_waiting {
                    self.is_waiting = true;
                    self.progress = 0;
                    self.deadline.as_mut().reset(Instant::now() + self.patience);
                }
                ready!(self.deadline.as_mut().poll(context));
                self.metrics.reach(Limit::UnreadAnswer);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
            }
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for DeadlineStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for DeadlineStream<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.note(context, bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        let offered = slices.iter().map(|slice| slice.len()).sum();
        self.note(context, offered, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::{DeadlineStream, LEAST_PROGRESS};
    use undertone_server_core::metrics::{Metrics, Transactions};

    const PATIENCE: Duration = Duration::from_mins(1);

    fn stream(inner: tokio::io::DuplexStream) -> DeadlineStream<tokio::io::DuplexStream> {
        DeadlineStream::new(inner, PATIENCE, Metrics::new(Transactions::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn write_to_a_stalled_reader_fails_in_time() {
        let (here, _there) = tokio::io::duplex(1 << 10);
        let began = Instant::now();
        let error = stream(here).write_all(&[0; 4 << 10]).await.expect_err("the other end never reads");
        assert_eq!((error.kind(), began.elapsed().as_secs()), (std::io::ErrorKind::TimedOut, PATIENCE.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn byte_by_byte_reader_is_cut_off() {
        let (here, mut there) = tokio::io::duplex(1 << 10);
        let writing = tokio::spawn(async move { stream(here).write_all(&vec![0; 64 << 10]).await });
        for _ in 0..PATIENCE.as_secs() + 2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = there.read_u8().await;
        }
        assert!(writing.await.expect("no panic").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn reader_that_caught_up_has_its_whole_time_again() {
        let (here, mut there) = tokio::io::duplex(1 << 10);
        let mut stream = stream(here);
        let mut piece = vec![0; 2 << 10];
        for _ in 0..3 {
            // Twice the size of the buffer: the write waits and then continues.
            let (written, read) = tokio::join!(stream.write_all(&[0; 2 << 10]), async {
                tokio::time::sleep(PATIENCE / 2).await;
                there.read_exact(&mut piece).await
            });
            written.expect("it was read in time");
            read.expect("all was written");
            tokio::time::sleep(PATIENCE * 2).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reader_that_goes_on_is_served() {
        let (here, mut there) = tokio::io::duplex(LEAST_PROGRESS);
        let writing = tokio::spawn(async move { stream(here).write_all(&vec![0; 8 * LEAST_PROGRESS]).await });
        let mut piece = vec![0; LEAST_PROGRESS];
        for _ in 0..8 {
            tokio::time::sleep(PATIENCE / 2).await;
            there.read_exact(&mut piece).await.expect("it goes on");
        }
        writing.await.expect("no panic").expect("all was written");
    }
}
