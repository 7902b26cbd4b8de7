//! What the site says of a part, for the job's log at the server: numbers and closed words only, and nothing at all where
//! its policy says `logs = "none"`. The worker's own log stays here.
//!
//! Saying something never holds a run up and never fails it: it is queued, a carrier beside the run sends it, and what the
//! server does not take is forgotten. It is said only when the server sees the same thing happen anyway, or when it does not
//! depend on the data; see `undertone_api::job::log`. To say something more: a variant of `SiteEvent`, and [`PartLog::say`]
//! where it happens.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, Notify};
use undertone_api::job::Spec;
use undertone_api::job::log::{Fault, MOST_EVENTS, Phase, SiteEvent, series_of};
use undertone_api::signed::{Manifest, Signed};
use undertone_proto::v1;

use super::Site;
use super::lease::Lease;
use crate::gateway::GatewayError;
use crate::site::jobs::Outcome;
use crate::site::ledger::LedgerError;
use crate::site::policy::Logs;

/// Most events that wait to be sent; the oldest go first.
pub(crate) const MOST_WAITING: usize = 300;
/// How long the end of a part waits for its last words.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a carrier waits before it sends again what was not taken.
const AGAIN: Duration = Duration::from_secs(5);

/// The log of one part.
#[derive(Clone)]
pub(super) struct PartLog(Option<Arc<Inner>>);

struct Inner {
    site: Arc<Site>,
    lease: Arc<Lease>,
    series: Vec<String>,
    waiting: Mutex<Waiting>,
    /// Held while something is sent, so that nothing is sent twice at once.
    turn: Turn<()>,
    bell: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<v1::LogEvent>,
    last: u64,
}

impl Waiting {
    /// One more waits; when they are too many, the oldest goes.
    fn push(&mut self, event: v1::LogEvent) {
        self.events.push_back(event);
        while self.events.len() > MOST_WAITING {
            self.events.pop_front();
        }
    }
}

impl PartLog {
    /// The log of a part under a lease of work that its manifest describes.
    pub(super) fn of(site: &Arc<Site>, lease: &Arc<Lease>, manifest: &Signed) -> Self {
        // Whose document it is was asked before; one that cannot be read is spoken of to nobody.
        serde_json::from_str::<Manifest>(&manifest.payload)
            .map_or(Self(None), |manifest| Self::new(site, lease, &manifest.spec))
    }

    fn new(site: &Arc<Site>, lease: &Arc<Lease>, spec: &Spec) -> Self {
        // Greater than every number of an earlier life, as long as the clock goes forwards.
        let last = u64::try_from((site.clock)().unix_timestamp()).unwrap_or(0).saturating_mul(1_000_000);
        Self(Some(Arc::new(Inner {
            site: Arc::clone(site),
            lease: Arc::clone(lease),
            series: series_of(spec),
            waiting: Mutex::new(Waiting { events: VecDeque::new(), last }),
            turn: Turn::new(()),
            bell: Notify::new(),
        })))
    }

    /// Of a part that says nothing.
    pub(super) const fn silent() -> Self {
        Self(None)
    }

    /// Says something, where the policy lets it out.
    pub(super) fn say(&self, event: SiteEvent) {
        let Some(inner) = &self.0 else { return };
        // The file as it stands now; one that cannot be read lets nothing out.
        if !inner.site.policy().is_ok_and(|policy| policy.logs() == Logs::States) {
            return;
        }
        let mut waiting = inner.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.last += 1;
        let said = v1::LogEvent {
            sequence: waiting.last,
            at_unix: (inner.site.clock)().unix_timestamp(),
            event: Some(event.into()),
        };
        waiting.push(said);
        drop(waiting);
        inner.bell.notify_one();
    }

    /// Says where the part is.
    pub(super) fn phase(&self, phase: Phase) {
        self.say(SiteEvent::Phase { phase });
    }

    /// Says why the part came to nothing.
    pub(super) fn fault(&self, fault: Fault) {
        self.say(SiteEvent::Fault { fault });
    }

    /// Whether the last word was of a fault.
    fn is_faulty(&self) -> bool {
        let last = self.0.as_ref().and_then(|inner| {
            let waiting = inner.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.events.back().and_then(|event| event.event)
        });
        matches!(last, Some(v1::log_event::Event::Fault(_)))
    }

    /// Says how the part ended, unless its fault was told.
    pub(super) fn ends(&self, how: &Result<Option<Outcome>, LedgerError>) {
        match how {
            Ok(Some(Outcome::Done { .. })) => self.phase(Phase::Done),
            Ok(Some(Outcome::Stopped { .. })) => self.phase(Phase::Ended),
            Ok(None) if !self.is_faulty() => self.phase(Phase::PutDown),
            Ok(None | Some(Outcome::GaveUp { .. })) => {}
            Err(error) => match fault_of(&chain(error)) {
                Fault::DiskFull => self.fault(Fault::DiskFull),
                _ => self.fault(Fault::DiskFails),
            },
        }
    }

    /// Says something about a round of a series, by its name; nothing of a series that the job does not have.
    pub(super) fn round(&self, series: &str, event: impl FnOnce(u32) -> SiteEvent) {
        let Some(inner) = &self.0 else { return };
        if let Some(place) = inner.series.iter().position(|name| name == series) {
            self.say(event(place as u32));
        }
    }

    /// Sends what is said until it is dropped.
    pub(super) async fn carry(&self) {
        let Some(inner) = &self.0 else { return std::future::pending().await };
        loop {
            inner.bell.notified().await;
            while let Err(error) = inner.send().await {
                tracing::debug!(error = %error, "the server does not take the log of a part just now");
                if !error.is_transient() {
                    break;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Sends what is left, if the server takes it soon.
    pub(super) async fn last_words(&self) {
        let Some(inner) = &self.0 else { return };
        if !matches!(tokio::time::timeout(LAST_WORDS, inner.send()).await, Ok(Ok(()))) {
            tracing::debug!("the last words of a part were not taken");
        }
    }
}

impl Inner {
    /// Sends what waits, oldest first. What the server refuses for good is forgotten.
    async fn send(&self) -> Result<(), GatewayError> {
        let _turn = self.turn.lock().await;
        loop {
            let batch: Vec<v1::LogEvent> = {
                let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.events.iter().take(MOST_EVENTS).copied().collect()
            };
            let Some(last) = batch.last().map(|event| event.sequence) else { return Ok(()) };
            let sent = self.site.gateway.log(&self.lease.token(), (self.site.clock)().unix_timestamp(), &batch).await;
            if sent.as_ref().is_err_and(GatewayError::is_transient) {
                return sent;
            }
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).events.retain(|event| event.sequence > last);
            sent?;
        }
    }
}

/// An error with all its causes, for finding out which kind it is.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).fold(String::new(), |mut all, error| {
        let _ = write!(all, "{error}; ");
        all
    })
}

/// What others may know of why something failed.
pub(super) fn fault_of(reason: &str) -> Fault {
    let full = ["No space left on device", "database or disk is full", "disk quota exceeded", "Disk quota exceeded"];
    if full.iter().any(|words| reason.contains(words)) { Fault::DiskFull } else { Fault::Failed }
}

#[cfg(test)]
mod tests {
    use undertone_api::job::log::Fault;
    use undertone_proto::v1;

    use super::{MOST_WAITING, Waiting, fault_of};

    #[test]
    fn three_hundred_events_wait_and_then_the_oldest_goes() {
        let mut waiting = Waiting::default();
        let push = |waiting: &mut Waiting, sequence| waiting.push(v1::LogEvent { sequence, ..v1::LogEvent::default() });
        (1..=MOST_WAITING as u64).for_each(|sequence| push(&mut waiting, sequence));
        let oldest = |waiting: &Waiting| waiting.events.front().map(|event| event.sequence);
        assert_eq!((waiting.events.len(), oldest(&waiting)), (MOST_WAITING, Some(1)));
        push(&mut waiting, MOST_WAITING as u64 + 1);
        assert_eq!((waiting.events.len(), oldest(&waiting)), (MOST_WAITING, Some(2)));
    }

    #[test]
    fn a_full_disk_is_told_and_nothing_else_of_the_reason() {
        let full = std::io::Error::from_raw_os_error(28).to_string();
        assert_eq!(fault_of(&format!("writing /data/patient-7.wav: {full}")), Fault::DiskFull);
        assert_eq!(fault_of("database or disk is full"), Fault::DiskFull);
        assert_eq!(fault_of("utterance 17 of patient-7.wav has no label"), Fault::Failed);
    }
}
