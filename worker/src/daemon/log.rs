//! The site's events of a part for the job's log at the server: numbers and fixed words only, and none if its policy
//! sets `logs = "none"`. The worker's own log stays here.
//!
//! Logging never delays or fails a run: events are queued and sent by a separate task, and events that the server
//! refuses are dropped. An event is logged only if the server observes the same fact anyway, or if it does not depend
//! on the data; see `undertone_api::job::log`. To add an event: a variant of `SiteEvent`, and a call of
//! [`PartLog::say`] at its place.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, Notify};
use undertone_api::job::Spec;
use undertone_api::job::log::{Fault, MOST_EVENTS, Phase, SiteEvent, list_series};
use undertone_api::signed::{Manifest, Signed};
use undertone_proto::v1;

use super::Site;
use super::lease::Lease;
use crate::gateway::GatewayError;
use crate::site::jobs::RunOutcome;
use crate::site::ledger::LedgerError;
use crate::site::policy::LogDisclosure;

/// The highest number of pending events; the oldest are dropped first.
pub(crate) const MOST_WAITING: usize = 300;
/// The longest wait of a part's end for its last events.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The pause before pending events are sent again.
const AGAIN: Duration = Duration::from_secs(5);

/// The log of one part.
#[derive(Clone)]
pub(super) struct PartLog(Option<Arc<Inner>>);

struct Inner {
    site: Arc<Site>,
    lease: Arc<Lease>,
    series: Vec<String>,
    waiting: Mutex<Waiting>,
    /// Held while events are sent, so that no event is sent twice concurrently.
    turn: Turn<()>,
    bell: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<v1::LogEvent>,
    last: u64,
    /// Whether the newest event is a fault, sent or not.
    ends_in_fault: bool,
}

impl Waiting {
    /// Adds an event; drops the oldest above the limit.
    fn push(&mut self, event: v1::LogEvent) {
        self.ends_in_fault = matches!(event.event, Some(v1::log_event::Event::Fault(_)));
        self.events.push_back(event);
        while self.events.len() > MOST_WAITING {
            self.events.pop_front();
        }
    }
}

impl PartLog {
    /// Returns the log of a part under a work lease, as its manifest describes it.
    pub(super) fn of(site: &Arc<Site>, lease: &Arc<Lease>, manifest: &Signed) -> Self {
        // The signature was checked before; an unreadable manifest has no log.
        serde_json::from_str::<Manifest>(&manifest.payload)
            .map_or(Self(None), |manifest| Self::new(site, lease, &manifest.spec))
    }

    fn new(site: &Arc<Site>, lease: &Arc<Lease>, spec: &Spec) -> Self {
        // Greater than every number of an earlier process, while the clock does not go back.
        let last = u64::try_from((site.clock)().unix_timestamp()).unwrap_or(0).saturating_mul(1_000_000);
        Self(Some(Arc::new(Inner {
            site: Arc::clone(site),
            lease: Arc::clone(lease),
            series: list_series(spec),
            waiting: Mutex::new(Waiting { last, ..Waiting::default() }),
            turn: Turn::new(()),
            bell: Notify::new(),
        })))
    }

    /// Returns a log that discards all events.
    pub(super) const fn silent() -> Self {
        Self(None)
    }

    /// Logs an event, if the policy allows it.
    pub(super) fn say(&self, event: SiteEvent) {
        let Some(inner) = &self.0 else { return };
        // The current file decides; an unreadable policy allows nothing.
        if !inner.site.policy().is_ok_and(|policy| policy.logs() == LogDisclosure::States) {
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

    /// Logs the phase of the part.
    pub(super) fn phase(&self, phase: Phase) {
        self.say(SiteEvent::Phase { phase });
    }

    /// Logs the fault that ended the part.
    pub(super) fn fault(&self, fault: Fault) {
        self.say(SiteEvent::Fault { fault });
    }

    /// Returns whether the newest event is a fault.
    fn is_faulty(&self) -> bool {
        let Some(inner) = &self.0 else { return false };
        inner.waiting.lock().unwrap_or_else(PoisonError::into_inner).ends_in_fault
    }

    /// Logs the end of the part, unless the log ends in its fault.
    pub(super) fn ends(&self, how: &Result<Option<RunOutcome>, LedgerError>) {
        match how {
            Ok(Some(RunOutcome::Done { .. })) => self.phase(Phase::Done),
            Ok(Some(RunOutcome::Stopped { .. })) => self.phase(Phase::Ended),
            Ok(None) if !self.is_faulty() => self.phase(Phase::PutDown),
            Ok(None | Some(RunOutcome::GaveUp { .. })) => {}
            Err(error) => match fault_of(&chain(error)) {
                Fault::DiskFull => self.fault(Fault::DiskFull),
                _ => self.fault(Fault::DiskFails),
            },
        }
    }

    /// Logs an event about a round of a series, by its name; ignores series that the job does not have.
    pub(super) fn round(&self, series: &str, event: impl FnOnce(u32) -> SiteEvent) {
        let Some(inner) = &self.0 else { return };
        if let Some(place) = inner.series.iter().position(|name| name == series) {
            self.say(event(place as u32));
        }
    }

    /// Sends events until it is dropped.
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

    /// Sends the remaining events, if the server accepts them soon.
    pub(super) async fn last_words(&self) {
        let Some(inner) = &self.0 else { return };
        if !matches!(tokio::time::timeout(LAST_WORDS, inner.send()).await, Ok(Ok(()))) {
            tracing::debug!("the last words of a part were not taken");
        }
    }
}

impl Inner {
    /// Sends pending events, oldest first. Permanently refused events are dropped.
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

/// Returns an error with all its causes, for classification.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).fold(String::new(), |mut all, error| {
        let _ = write!(all, "{error}; ");
        all
    })
}

/// Classifies the reason of a failure, to the extent that others may know it.
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
    fn sent_fault_is_still_the_end_of_the_log() {
        let mut waiting = Waiting::default();
        let event = Some(v1::log_event::Event::Fault(v1::LogFault::DiskFull as i32));
        waiting.push(v1::LogEvent { sequence: 1, event, ..v1::LogEvent::default() });
        waiting.events.clear();
        assert!(waiting.ends_in_fault);
        waiting.push(v1::LogEvent { sequence: 2, ..v1::LogEvent::default() });
        assert!(!waiting.ends_in_fault);
    }

    #[test]
    fn a_full_disk_is_told_and_nothing_else_of_the_reason() {
        let full = std::io::Error::from_raw_os_error(28).to_string();
        assert_eq!(fault_of(&format!("writing /data/patient-7.wav: {full}")), Fault::DiskFull);
        assert_eq!(fault_of("database or disk is full"), Fault::DiskFull);
        assert_eq!(fault_of("utterance 17 of patient-7.wav has no label"), Fault::Failed);
    }
}
