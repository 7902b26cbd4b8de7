//! The network between sites and server: it loses, repeats, delays and reorders messages, and inspects their content.

use std::collections::{BTreeMap, BTreeSet};

use undertone_api::id::{DatasetId, JobId, WorkerId};

use super::Failed;
use super::audit::site::SitePayments;
use super::dice::ScheduleRng;
use super::message::{CallOutcome, WorkerCall};
use super::server::SimulatedServer;
use super::trace::StepTrace;

/// Failure rates, in percent of the messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureRates {
    /// Messages that do not arrive while the sender waits; half of them arrive later.
    lost: u64,
    /// Messages that arrive, while their answer is lost.
    unanswered: u64,
    /// Messages that arrive, and once more later.
    repeated: u64,
    /// Vectors that arrive completely, and are processed later.
    halfway: u64,
}

impl FailureRates {
    pub(super) const BAD: Self = Self { lost: 8, unanswered: 8, repeated: 10, halfway: 6 };
    pub(super) const FINE: Self = Self { lost: 0, unanswered: 0, repeated: 0, halfway: 0 };
}

/// A vector's place: its job, dataset, series and round.
pub(super) type Place = (JobId, DatasetId, String, u32);

/// The network, and the servers at its end.
pub(super) struct SimulatedNetwork {
    pub(super) servers: Vec<SimulatedServer>,
    pub(super) dice: ScheduleRng,
    pub(super) trace: StepTrace,
    pub(super) weather: FailureRates,
    /// Messages in transit after their senders stopped waiting.
    stray: Vec<(WorkerId, WorkerCall)>,
    /// Digests of the private vectors sent on the wire, by place.
    wire: BTreeMap<Place, BTreeSet<String>>,
    /// The digest of the private vector sent for each receipt, by the receipt's digest.
    bought: BTreeMap<String, String>,
}

impl SimulatedNetwork {
    pub(super) const fn new(servers: Vec<SimulatedServer>, dice: ScheduleRng, trace: StepTrace) -> Self {
        Self {
            servers,
            dice,
            trace,
            weather: FailureRates::BAD,
            stray: Vec::new(),
            wire: BTreeMap::new(),
            bought: BTreeMap::new(),
        }
    }

    /// Returns the server that receives a message: any of them, running or not, because a worker cannot choose.
    pub(super) fn somewhere(&mut self) -> usize {
        self.dice.below(self.servers.len() as u64) as usize
    }

    /// Delivers a message, and perhaps its answer.
    pub(super) async fn carry(&mut self, worker: WorkerId, message: WorkerCall) -> Result<CallOutcome, Failed> {
        let fate = self.dice.below(100);
        let weather = self.weather;
        let mut bound = weather.lost;
        if fate < bound {
            if self.dice.percent(50) {
                self.stray.push((worker, message));
            }
            self.trace.more("lost");
            return Ok(CallOutcome::Nothing);
        }
        let server = self.somewhere();
        bound += weather.halfway;
        if fate < bound && matches!(message, WorkerCall::Submit { .. }) {
            self.servers[server].receive(worker, message).await?;
            self.trace.more("halfway");
            return Ok(CallOutcome::Nothing);
        }
        bound += weather.repeated;
        if fate < bound {
            self.stray.push((worker, message.clone()));
        }
        let outcome = self.servers[server].serve(worker, message).await?;
        self.trace.more(&outcome.word());
        if (bound..bound + weather.unanswered).contains(&fate) {
            self.trace.more("its answer is lost");
            return Ok(CallOutcome::Nothing);
        }
        Ok(outcome)
    }

    /// Delivers a message or vector after its sender stopped waiting. Returns false when there is none.
    pub(super) async fn late(&mut self) -> Result<bool, Failed> {
        let server = self.somewhere();
        if let Some(outcome) = self.servers[server].decide_late().await? {
            self.trace.note(format!("a vector is decided about late: {}", outcome.word()));
            return Ok(true);
        }
        let Some(which) = self.dice.index(self.stray.len()) else { return Ok(false) };
        let (worker, message) = self.stray.swap_remove(which);
        let name = message.word();
        let outcome = self.servers[server].serve(worker, message).await?;
        self.trace.note(format!("late, {name}: {}", outcome.word()));
        Ok(true)
    }

    /// Drops the messages in transit, and stops all failures.
    pub(super) fn calm(&mut self) {
        self.stray.clear();
        self.weather = FailureRates::FINE;
    }

    /// Drops a worker's messages when its machine is restored: no message lives that long.
    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.stray.retain(|(sender, _)| *sender != worker);
        self.servers.iter_mut().for_each(SimulatedServer::drop_arriving);
    }

    /// Checks the receipt by which a private vector leaves: it pays for one set of bytes.
    pub(super) fn see_receipt(&mut self, receipt: &str, digest: &str) -> Result<(), String> {
        let first = self.bought.entry(receipt.to_owned()).or_insert_with(|| digest.to_owned());
        if first == digest { Ok(()) } else { Err("one receipt has bought two different vectors".to_owned()) }
    }

    /// Checks a private vector that leaves a site: it must be paid on the site's disk, and its place must not have more
    /// distinct vectors than payments.
    pub(super) fn see(&mut self, place: &Place, digest: &str, paid: &SitePayments) -> Result<(), String> {
        let payments = paid.attempts(place);
        if payments == 0 {
            return Err(format!(
                "a vector of {}/{} left its site and nothing on the site's disk paid for it",
                place.2, place.3
            ));
        }
        let seen = self.wire.entry(place.clone()).or_default();
        seen.insert(digest.to_owned());
        if seen.len() as u64 > payments {
            return Err(format!(
                "{} different vectors of {}/{} were on the wire, for {payments} payments",
                seen.len(),
                place.2,
                place.3
            ));
        }
        Ok(())
    }
}
