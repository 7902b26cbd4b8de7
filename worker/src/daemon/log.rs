//! The site's events of a part for the job's log at the server: numbers and fixed words only, and none if its policy
//! sets `logs = "none"`. The worker's own log stays here.
//!
//! Logging never delays or fails a run: events are queued and sent by a separate task, and events that the server
//! refuses are dropped. An event is logged only if the server observes the same fact anyway, or if it does not depend
//! on the data; see `undertone_api::job::log`. To add an event: a variant of `SiteEvent`, and a call of
//! [`PartLog::record`] at its place.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Notify};
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
const FLUSH: Duration = Duration::from_secs(2);
/// The pause before pending events are sent again.
const AGAIN: Duration = Duration::from_secs(5);

/// The log of one part.
#[derive(Clone)]
pub(super) struct PartLog(Option<Arc<LogQueue>>);

struct LogQueue {
    site: Arc<Site>,
    lease: Arc<Lease>,
    series: Vec<String>,
    pending: Mutex<PendingEvents>,
    /// Held while events are sent, so that no event is sent twice concurrently.
    send_lock: AsyncMutex<()>,
    change: Notify,
}

#[derive(Default)]
struct PendingEvents {
    events: VecDeque<v1::LogEvent>,
    last: u64,
    /// Whether the newest event is a fault, sent or not.
    ends_in_fault: bool,
}

impl PendingEvents {
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
    pub(super) fn for_manifest(site: &Arc<Site>, lease: &Arc<Lease>, manifest: &Signed) -> Self {
        // The signature was checked before; an unreadable manifest has no log.
        serde_json::from_str::<Manifest>(&manifest.payload)
            .map_or(Self(None), |manifest| Self::new(site, lease, &manifest.spec))
    }

    fn new(site: &Arc<Site>, lease: &Arc<Lease>, spec: &Spec) -> Self {
        // Greater than every number of an earlier process, while the clock does not go back.
        let last = u64::try_from((site.clock)().unix_timestamp()).unwrap_or(0).saturating_mul(1_000_000);
        Self(Some(Arc::new(LogQueue {
            site: Arc::clone(site),
            lease: Arc::clone(lease),
            series: list_series(spec),
            pending: Mutex::new(PendingEvents { last, ..PendingEvents::default() }),
            send_lock: AsyncMutex::new(()),
            change: Notify::new(),
        })))
    }

    /// Returns a log that discards all events.
    pub(super) const fn silent() -> Self {
        Self(None)
    }

    /// Logs an event, if the policy allows it.
    pub(super) fn record(&self, event: SiteEvent) {
        let Some(queue) = &self.0 else { return };
        // The current file decides; an unreadable policy allows nothing.
        if !queue.site.policy().is_ok_and(|policy| policy.logs() == LogDisclosure::States) {
            return;
        }
        let mut pending = queue.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.last += 1;
        let event = v1::LogEvent {
            sequence: pending.last,
            at_unix: (queue.site.clock)().unix_timestamp(),
            event: Some(event.into()),
        };
        pending.push(event);
        drop(pending);
        queue.change.notify_one();
    }

    /// Logs the phase of the part.
    pub(super) fn record_phase(&self, phase: Phase) {
        self.record(SiteEvent::Phase { phase });
    }

    /// Logs the fault that ended the part.
    pub(super) fn record_fault(&self, fault: Fault) {
        self.record(SiteEvent::Fault { fault });
    }

    /// Returns whether the newest event is a fault.
    fn is_faulty(&self) -> bool {
        let Some(queue) = &self.0 else { return false };
        queue.pending.lock().unwrap_or_else(PoisonError::into_inner).ends_in_fault
    }

    /// Logs the end of the part, unless the log ends in its fault.
    pub(super) fn record_end(&self, outcome: &Result<Option<RunOutcome>, LedgerError>) {
        match outcome {
            Ok(Some(RunOutcome::Done { .. })) => self.record_phase(Phase::Done),
            Ok(Some(RunOutcome::Stopped { .. })) => self.record_phase(Phase::Ended),
            Ok(None) if !self.is_faulty() => self.record_phase(Phase::PutDown),
            Ok(None | Some(RunOutcome::GaveUp { .. })) => {}
            Err(error) => match classify_fault(&format_chain(error)) {
                Fault::DiskFull => self.record_fault(Fault::DiskFull),
                _ => self.record_fault(Fault::DiskFails),
            },
        }
    }

    /// Logs an event about a round of a series, by its name; ignores series that the job does not have.
    pub(super) fn record_round(&self, series: &str, event: impl FnOnce(u32) -> SiteEvent) {
        let Some(queue) = &self.0 else { return };
        if let Some(index) = queue.series.iter().position(|name| name == series) {
            self.record(event(index as u32));
        }
    }

    /// Sends events until it is dropped.
    pub(super) async fn send_events(&self) {
        let Some(queue) = &self.0 else { return std::future::pending().await };
        loop {
            queue.change.notified().await;
            while let Err(error) = queue.send().await {
                tracing::debug!(error = %error, "cannot send the log events of a part");
                if !error.is_transient() {
                    break;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Sends the remaining events, if the server accepts them soon.
    pub(super) async fn flush(&self) {
        let Some(queue) = &self.0 else { return };
        if !matches!(tokio::time::timeout(FLUSH, queue.send()).await, Ok(Ok(()))) {
            tracing::debug!("the server did not accept the last log events of a part");
        }
    }
}

impl LogQueue {
    /// Sends pending events, oldest first. Permanently refused events are dropped.
    async fn send(&self) -> Result<(), GatewayError> {
        let _guard = self.send_lock.lock().await;
        loop {
            let batch: Vec<v1::LogEvent> = {
                let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                pending.events.iter().take(MOST_EVENTS).copied().collect()
            };
            let Some(last) = batch.last().map(|event| event.sequence) else { return Ok(()) };
            let result = self.site.gateway.log(&self.lease.token(), (self.site.clock)().unix_timestamp(), &batch).await;
            if result.as_ref().is_err_and(GatewayError::is_transient) {
                return result;
            }
            self.pending.lock().unwrap_or_else(PoisonError::into_inner).events.retain(|event| event.sequence > last);
            result?;
        }
    }
}

/// Returns an error with all its causes, for classification.
fn format_chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).fold(String::new(), |mut all, error| {
        let _ = write!(all, "{error}; ");
        all
    })
}

/// Classifies the reason of a failure, to the extent that others may know it.
pub(super) fn classify_fault(reason: &str) -> Fault {
    let full = ["No space left on device", "database or disk is full", "disk quota exceeded", "Disk quota exceeded"];
    if full.iter().any(|words| reason.contains(words)) { Fault::DiskFull } else { Fault::Failed }
}

#[cfg(test)]
mod tests {
    use undertone_api::job::log::Fault;
    use undertone_proto::v1;

    use super::{MOST_WAITING, PendingEvents, classify_fault};

    #[test]
    fn oldest_event_is_dropped_above_the_limit() {
        let mut pending = PendingEvents::default();
        let push =
            |pending: &mut PendingEvents, sequence| pending.push(v1::LogEvent { sequence, ..v1::LogEvent::default() });
        (1..=MOST_WAITING as u64).for_each(|sequence| push(&mut pending, sequence));
        let oldest = |pending: &PendingEvents| pending.events.front().map(|event| event.sequence);
        assert_eq!((pending.events.len(), oldest(&pending)), (MOST_WAITING, Some(1)));
        push(&mut pending, MOST_WAITING as u64 + 1);
        assert_eq!((pending.events.len(), oldest(&pending)), (MOST_WAITING, Some(2)));
    }

    #[test]
    fn last_fault_stays_the_end_of_a_sent_log() {
        let mut pending = PendingEvents::default();
        let event = Some(v1::log_event::Event::Fault(v1::LogFault::DiskFull as i32));
        pending.push(v1::LogEvent { sequence: 1, event, ..v1::LogEvent::default() });
        pending.events.clear();
        assert!(pending.ends_in_fault);
        pending.push(v1::LogEvent { sequence: 2, ..v1::LogEvent::default() });
        assert!(!pending.ends_in_fault);
    }

    #[test]
    fn only_a_full_disk_is_classified() {
        let full = std::io::Error::from_raw_os_error(28).to_string();
        assert_eq!(classify_fault(&format!("writing /data/patient-7.wav: {full}")), Fault::DiskFull);
        assert_eq!(classify_fault("database or disk is full"), Fault::DiskFull);
        assert_eq!(classify_fault("utterance 17 of patient-7.wav has no label"), Fault::Failed);
    }
}
