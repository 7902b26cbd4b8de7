//! The way to one provider, within its bounds: so many requests at a time, so many a minute, so long a sound, so much patience.
//!
//! What may work later is tried again: no connection, no answer in time, 408, 429, 5xx. `Retry-After` is honoured, and holds back every
//! request to this provider, not the one alone. Everything else is final. The very same bytes are tried again, never others.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pace::Pace;
use super::{Illegible, Provider};
use crate::site::clock::{self, Clock};
use crate::speech::transcribe::outbound::Outgoing;
use crate::speech::transcribe::piece::Heard;
use crate::speech::transcribe::wav;
use crate::speech::transcribe::web::{self, Address, WebError};

/// Largest answer that is read, bytes: 1 MiB.
pub(crate) const LARGEST: usize = 1 << 20;
/// Words that are believed of any sound, and so many more of each second: fast talkers say six.
pub(crate) const FEWEST: f64 = 20.0;
pub(crate) const DENSEST: f64 = 30.0;
/// The longest word that is believed, bytes.
pub(crate) const LONGEST_WORD: usize = 400;
/// The first pause before another attempt; each is twice the last.
const FIRST: Duration = Duration::from_millis(200);
/// The longest pause that is made without being asked.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);
/// The longest pause that is made for the asking.
pub(crate) const ASKED: Duration = Duration::from_mins(10);

/// Within what a provider is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Requests at a time, at least 1.
    pub concurrency: u32,
    /// Requests a minute, at least 1.
    pub requests_per_minute: u32,
    /// Attempts for one sound, at least 1.
    pub attempts: u32,
    /// How long one answer may take.
    pub limit: Duration,
    /// The longest sound, seconds.
    pub longest: u32,
}

/// Why a sound was not heard. Nothing of the sound, of an answer or of a key is in it.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Too long for the provider.
    #[error("a sound of {seconds:.1} s: the provider takes at most {longest} s (longest_seconds)")]
    TooLong {
        /// Its length.
        seconds: f64,
        /// The bound.
        longest: u32,
    },
    /// The provider does not know the site.
    #[error("the provider refuses the key (status {0}): check key_file or key_variable")]
    Key(u16),
    /// The provider does not want this.
    #[error("the provider refuses the request (status {0}): check protocol, url, model and language")]
    Refused(u16),
    /// The provider is busy or broken.
    #[error("the provider cannot answer now (status {0})")]
    Busy(u16),
    /// No connection, or no answer in time.
    #[error("the provider does not answer")]
    Web(#[from] WebError),
    /// An answer of another form.
    #[error(transparent)]
    Illegible(#[from] Illegible),
    /// An answer that cannot be.
    #[error(
        "the answer has more words, or longer ones, than anybody says in {0:.1} s: the provider is broken, or worse"
    )]
    Implausible(f64),
    /// As often as was allowed.
    #[error("not answered in {attempts} attempts")]
    Exhausted {
        /// How often.
        attempts: u32,
        /// The last time.
        #[source]
        last: Box<Self>,
    },
}

impl LineError {
    /// Whether another attempt may succeed.
    const fn is_transient(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Web(WebError::Unreachable(_) | WebError::Late(_)))
    }
}

/// The way to one provider. Shared by whoever sends to it.
pub struct Line {
    recipient: String,
    provider: Box<dyn Provider>,
    http: reqwest::Client,
    bounds: Bounds,
    places: Semaphore,
    pace: Mutex<Pace>,
    first: Duration,
    clock: Clock,
}

/// Whom it leads to, and its bounds.
impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { recipient, bounds, .. } = self;
        write!(f, "Line({recipient}, {bounds:?})")
    }
}

impl Line {
    /// The line to the `provider` at `address`; the clock is for dates in `Retry-After` alone.
    ///
    /// # Errors
    /// [`WebError`] when this machine cannot make connections.
    pub fn new(
        name: &str,
        provider: Box<dyn Provider>,
        address: &Address,
        bounds: Bounds,
        clock: Clock,
    ) -> Result<Self, WebError> {
        Ok(Self {
            recipient: format!("{name} at {address}"),
            provider,
            http: web::client(address, bounds.limit)?,
            bounds,
            places: Semaphore::new(bounds.concurrency as usize),
            pace: Mutex::new(Pace::new(bounds.requests_per_minute)),
            first: FIRST,
            clock,
        })
    }

    /// The same line without pauses of its own; those that are asked for are made.
    #[cfg(test)]
    pub(crate) fn without_pauses(self) -> Self {
        Self { first: Duration::ZERO, ..self }
    }

    /// Who is asked: what the site calls the provider, and its address. A batch that was charged for one recipient never goes to
    /// another.
    pub fn recipient(&self) -> &str {
        &self.recipient
    }

    /// Requests at a time.
    pub const fn concurrency(&self) -> u32 {
        self.bounds.concurrency
    }

    /// Has the provider hear a sound; `None` when `stop` is cancelled before it has.
    ///
    /// # Errors
    /// [`LineError`] that another attempt cannot mend, or [`LineError::Exhausted`].
    pub async fn hear(&self, sound: &Outgoing, stop: &CancellationToken) -> Option<Result<Heard, LineError>> {
        stop.run_until_cancelled(self.try_to_hear(sound)).await
    }

    async fn try_to_hear(&self, sound: &Outgoing) -> Result<Heard, LineError> {
        let seconds = wav::seconds(sound.wav());
        if seconds > f64::from(self.bounds.longest) {
            return Err(LineError::TooLong { seconds, longest: self.bounds.longest });
        }
        let mut attempt = 1;
        loop {
            let error = match self.ask(sound, seconds).await {
                Err(error) if error.is_transient() => error,
                settled => return settled,
            };
            if attempt >= self.bounds.attempts {
                return Err(LineError::Exhausted { attempts: attempt, last: Box::new(error) });
            }
            let pause = pause(self.first, attempt);
            tracing::warn!(provider = self.recipient, attempt, pause_ms = pause.as_millis() as u64, error = %error, "a provider is asked again");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// One attempt. Its place among those at a time is held for no longer than it takes.
    async fn ask(&self, sound: &Outgoing, seconds: f64) -> Result<Heard, LineError> {
        // The semaphore is never closed; were it, the bound would be gone and the request goes on.
        let _place = self.places.acquire().await.ok();
        let begin = self.pace().place(Instant::now());
        tokio::time::sleep_until(begin).await;
        let request = self.provider.request(&self.http, sound.wav()).map_err(WebError::from)?;
        let response = request.send().await.map_err(WebError::from)?;
        match response.status() {
            status if status.is_success() => {
                let answer = web::body(response, LARGEST).await?;
                believed(self.provider.heard(&answer, seconds)?, seconds)
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

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer about so many seconds, if it can be: what is answered is kept, for as many sounds as there are.
fn believed(heard: Heard, seconds: f64) -> Result<Heard, LineError> {
    let many = heard.words.len() as f64 > FEWEST + DENSEST * seconds;
    let long = heard.words.iter().any(|word| word.text.len() > LONGEST_WORD);
    if many || long { Err(LineError::Implausible(seconds)) } else { Ok(heard) }
}

fn is_busy(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT
}

/// The pause after an attempt (from 1), cut by up to half at random.
fn pause(first: Duration, attempt: u32) -> Duration {
    let whole = first.saturating_mul(1 << (attempt - 1).min(16)).min(LONGEST);
    // Without randomness the pause is whole; nothing depends on it.
    let random = clock::entropy::<4>().map_or(0.0, |bytes| f64::from(u32::from_le_bytes(bytes)) / 4_294_967_296.0);
    whole.mul_f64(1.0 - random / 2.0)
}

/// How long a provider asks to be left alone: seconds, or a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap, now: OffsetDateTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let form =
        format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");
    let at = PrimitiveDateTime::parse(text, form).ok()?.assume_utc();
    Some((at - now).try_into().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests;
