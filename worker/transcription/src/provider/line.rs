//! The connection to one provider, with its limits: concurrent requests, requests a minute, length of a sound, and attempts.
//!
//! Transient failures are retried: no connection, no answer in time, 408, 429, 5xx. `Retry-After` is honoured, and delays every
//! request to this provider. All other failures are final. A retry sends the same bytes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pace::RequestPace;
use super::{SpeechProvider, UnreadableAnswer};
use crate::outbound::outgoing::OutgoingSound;
use crate::piece::Recognition;
use crate::wav;
use crate::web::{self, WebAddress, WebError};
use undertone_worker_site::clock::Clock;

/// Largest accepted answer, in bytes: 1 MiB.
pub const LARGEST: usize = 1 << 20;
/// Accepted number of words in any sound; [`DENSEST`] adds more for each second: fast talkers say six.
pub const FEWEST: f64 = 20.0;
/// Further accepted words for each second.
pub const DENSEST: f64 = 30.0;
/// Longest accepted word, in bytes.
pub const LONGEST_WORD: usize = 400;
/// The first pause before another attempt; each pause is twice the last.
const FIRST: Duration = Duration::from_millis(200);
/// Longest pause that the line makes by itself.
pub const LONGEST: Duration = Duration::from_secs(30);
/// Longest pause at the request of a provider.
pub const ASKED: Duration = Duration::from_mins(10);

/// Limits of the requests to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineBounds {
    /// Requests at a time, at least 1.
    pub concurrency: u32,
    /// Requests a minute, at least 1.
    pub requests_per_minute: u32,
    /// Attempts for one sound, at least 1.
    pub attempts: u32,
    /// Time limit of one answer.
    pub limit: Duration,
    /// Longest sound, in seconds.
    pub longest: u32,
}

/// Reasons that a sound was not transcribed. No error holds any part of the sound, the answer or the key.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The sound is too long for the provider.
    #[error("a sound of {seconds:.1} s: the provider takes at most {longest} s (longest_seconds)")]
    TooLong {
        /// Length in seconds.
        seconds: f64,
        /// The bound.
        longest: u32,
    },
    /// The provider refuses the key.
    #[error("the provider refuses the key (status {0}): check key_file or key_variable")]
    Key(u16),
    /// The provider refuses the request.
    #[error("the provider refuses the request (status {0}): check protocol, url, model and language")]
    Refused(u16),
    /// The provider is busy or broken.
    #[error("the provider is busy or failed (status {0})")]
    Busy(u16),
    /// The connection failed, or the answer did not arrive in time.
    #[error("the provider does not answer")]
    Web(#[from] WebError),
    /// The answer has another form.
    #[error(transparent)]
    Illegible(#[from] UnreadableAnswer),
    /// The answer cannot be a transcript of the sound.
    #[error(
        "the answer has more words, or longer ones, than {0:.1} s of speech can hold: check the provider's service"
    )]
    Implausible(f64),
    /// All attempts failed.
    #[error("not answered in {attempts} attempts")]
    Exhausted {
        /// Number of attempts.
        attempts: u32,
        /// The last failure.
        #[source]
        last: Box<Self>,
    },
}

impl LineError {
    /// Returns whether another attempt may succeed.
    const fn is_transient(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Web(WebError::Unreachable(_) | WebError::Late(_)))
    }
}

/// The connection to one provider, shared by all its senders.
pub struct ProviderLine {
    recipient: String,
    provider: Box<dyn SpeechProvider>,
    http: reqwest::Client,
    bounds: LineBounds,
    places: Semaphore,
    pace: Mutex<RequestPace>,
    first: Duration,
    clock: Clock,
}

/// Prints the recipient and the limits.
impl std::fmt::Debug for ProviderLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { recipient, bounds, .. } = self;
        write!(f, "ProviderLine({recipient}, {bounds:?})")
    }
}

impl ProviderLine {
    /// Creates the line to the `provider` at `address`. The clock is used only for dates in `Retry-After`.
    ///
    /// # Errors
    /// [`WebError`] when this machine cannot make connections.
    pub fn new(
        name: &str,
        provider: Box<dyn SpeechProvider>,
        address: &WebAddress,
        bounds: LineBounds,
        clock: Clock,
    ) -> Result<Self, WebError> {
        Ok(Self {
            recipient: format!("{name} at {address}"),
            provider,
            http: web::client(address, bounds.limit)?,
            bounds,
            places: Semaphore::new(bounds.concurrency as usize),
            pace: Mutex::new(RequestPace::new(bounds.requests_per_minute)),
            first: FIRST,
            clock,
        })
    }

    /// Returns the line without its own pauses; pauses that the provider requests remain.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn without_pauses(self) -> Self {
        Self { first: Duration::ZERO, ..self }
    }

    /// Returns the recipient: the site's name for the provider, and its address. A batch that was charged for one recipient is
    /// never sent to another.
    pub fn recipient(&self) -> &str {
        &self.recipient
    }

    /// Returns the number of concurrent requests.
    pub const fn concurrency(&self) -> u32 {
        self.bounds.concurrency
    }

    /// Sends a sound and returns its words; `None` when `stop` is cancelled first.
    ///
    /// # Errors
    /// [`LineError`] that another attempt cannot mend, or [`LineError::Exhausted`].
    pub async fn transcribe(
        &self,
        sound: &OutgoingSound,
        stop: &CancellationToken,
    ) -> Option<Result<Recognition, LineError>> {
        stop.run_until_cancelled(self.transcribe_with_retries(sound)).await
    }

    async fn transcribe_with_retries(&self, sound: &OutgoingSound) -> Result<Recognition, LineError> {
        let seconds = wav::seconds(sound.wav());
        if seconds > f64::from(self.bounds.longest) {
            return Err(LineError::TooLong { seconds, longest: self.bounds.longest });
        }
        let attempts = self.bounds.attempts;
        let mut attempt = 0;
        let answer = (|| self.ask(sound, seconds))
            .retry(backoff(self.first, attempts))
            .when(|error: &LineError| error.is_transient())
            .notify(|error: &LineError, pause: Duration| {
                attempt += 1;
                tracing::warn!(provider = self.recipient, attempt, pause_ms = pause.as_millis() as u64, error = %error, "retrying a request to a provider");
            })
            .await;
        match answer {
            Err(error) if error.is_transient() => Err(LineError::Exhausted { attempts, last: Box::new(error) }),
            settled => settled,
        }
    }

    /// Makes one attempt. It holds its permit only while the attempt lasts.
    async fn ask(&self, sound: &OutgoingSound, seconds: f64) -> Result<Recognition, LineError> {
        // The semaphore is never closed. If it were, the limit would be gone and the request would still be sent.
        let _place = self.places.acquire().await.ok();
        let begin = self.pace().place(Instant::now());
        tokio::time::sleep_until(begin).await;
        let request = self.provider.request(&self.http, sound.wav()).map_err(WebError::from)?;
        let response = request.send().await.map_err(WebError::from)?;
        match response.status() {
            status if status.is_success() => {
                let answer = web::body(response, LARGEST).await?;
                check_times(self.provider.parse_answer(&answer, seconds)?, seconds)
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(LineError::Key(response.status().as_u16())),
            status if is_busy(status) => {
                if let Some(wait) = retry_after(response.headers(), (self.clock)()) {
                    self.pace().hold(Instant::now() + wait.min(ASKED));
                }
                Err(LineError::Busy(status.as_u16()))
            }
            status => Err(LineError::Refused(status.as_u16())),
        }
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, RequestPace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that an answer about `seconds` of sound is plausible: answers are stored on disk, for every sound.
fn check_times(recognition: Recognition, seconds: f64) -> Result<Recognition, LineError> {
    let many = recognition.words.len() as f64 > FEWEST + DENSEST * seconds;
    let long = recognition.words.iter().any(|word| word.text.len() > LONGEST_WORD);
    if many || long { Err(LineError::Implausible(seconds)) } else { Ok(recognition) }
}

fn is_busy(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT
}

/// Returns the pauses between attempts: at first `first`, then doubled, up to [`LONGEST`], and each shortened by up to
/// half at random. The jitter adds up to the whole delay, so the delays are half as long.
fn backoff(first: Duration, attempts: u32) -> ExponentialBuilder {
    ExponentialBuilder::new()
        .with_jitter()
        .with_min_delay(first / 2)
        .with_max_delay(LONGEST / 2)
        .with_max_times(attempts.saturating_sub(1) as usize)
}

/// Returns the pause that a provider requests: seconds, or a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap, now: OffsetDateTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = OffsetDateTime::from(httpdate::parse_http_date(text).ok()?);
    Some((at - now).try_into().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests;
