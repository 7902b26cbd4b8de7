//! One part of a job at a site, advanced one step at a time in the order of the daemon and of a run, with a possible
//! crash between any two steps and inside each.

use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::dp_sgd::{Arm, ArmResult, Report};
use undertone_api::job::{Report as AnyReport, Spec};
use undertone_api::problem::Code;
use undertone_api::signed::Signed;
use undertone_server_core::service::finish::PartOutcome as Told;
use undertone_worker::daemon::{self, PartSession, WorkExamination};
use undertone_worker::dp::clip::{Clip, ClippedSum};
use undertone_worker::dp::randomness::{Purpose, Randomness};
use undertone_worker::dp::release::Outgoing;
use undertone_worker::dp::sampler::Sampler;
use undertone_worker::fault;
use undertone_worker::gateway::OfferedWork;
use undertone_worker::run::{RoundProgress, RunError};
use undertone_worker::site::clearance::Clearance;
use undertone_worker::site::jobs::RunOutcome;

use super::super::broken::{BrokenRule, draw_again};
use super::super::message::{CallOutcome, ServerAnswer, WorkerCall};
use super::super::network::{Place, SimulatedNetwork};
use super::super::{Failed, StopReason};
use super::{SiteProcess, WorkerProcess, transient};

/// The length of a vector: enough for distinct vectors.
const LENGTH: usize = 4;
/// The series of every job.
const SERIES: &str = "private";
/// The file name of a run's checkpoint in its folder.
const CHECKPOINT: &str = "checkpoint";

/// The progress of a part.
pub(super) enum PartStage {
    /// The offer has arrived.
    Look,
    /// The progress of the next round must be checked.
    Round,
    /// The vector is requested and must be made.
    Clear,
    /// The vector is in memory only, and not paid.
    Pay(Outgoing),
    /// The vector is on disk and paid; its payment must be countersigned.
    Countersign,
    /// The server has countersigned the payment.
    Send,
    /// The vector has arrived, or the round does not need it.
    Average,
    /// The part has ended; that must be recorded.
    Close(RunOutcome),
    /// The end is recorded and must be reported.
    Tell(RunOutcome),
}

pub(super) struct PartProgress {
    pub(super) work: OfferedWork,
    pub(super) stage: PartStage,
    pub(super) session: Option<PartSession>,
    pub(super) done: u32,
}

impl SiteProcess {
    /// Advances one part by a step.
    pub(in crate::simulation) async fn advance(&mut self, network: &mut SimulatedNetwork) -> Result<bool, StopReason> {
        if !self.compare(network).await? {
            return Ok(self.life.is_some());
        }
        let Some(life) = self.life.as_mut() else { return Ok(false) };
        let Some(which) = network.dice.index(life.parts.len()) else { return Ok(false) };
        let Some(place) = life.parts.keys().nth(which).copied() else { return Ok(false) };
        let Some(mut part) = life.parts.remove(&place) else { return Ok(false) };
        network.trace.note(format!("{}: part {which}, round {}, ", self.name, part.done + 1));
        if Box::pin(self.step(network, place.0, place.1, &mut part)).await?
            && let Some(life) = self.life.as_mut()
        {
            life.parts.insert(place, part);
        }
        Ok(true)
    }

    /// Runs one step; returns false when the part is no longer active.
    async fn step(
        &mut self,
        network: &mut SimulatedNetwork,
        job: JobId,
        dataset: DatasetId,
        part: &mut PartProgress,
    ) -> Result<bool, StopReason> {
        let round = part.done + 1;
        match std::mem::replace(&mut part.stage, PartStage::Look) {
            PartStage::Look => {
                let looked = self.live(|life| look(life, part, job))?;
                match self.note_outcome(network, "look", looked) {
                    Some(Some(stage)) => part.stage = stage,
                    _ => return Ok(false),
                }
            }
            PartStage::Round => {
                let Some(session) = &part.session else { return Ok(false) };
                let past = self.live(|life| session.past(&life.site, SERIES, round))?;
                match past {
                    None => return Ok(false),
                    Some(Err(error)) => part.stage = gives_up(network, &error),
                    Some(Ok(RoundProgress::Accepted | RoundProgress::Lost)) => part.stage = PartStage::Average,
                    Some(Ok(RoundProgress::Stored)) => part.stage = PartStage::Countersign,
                    Some(Ok(RoundProgress::Untouched)) => {
                        let request =
                            WorkerCall::Average { lease: part.work.lease.clone(), series: SERIES.to_owned(), round };
                        match network.carry(self.worker, request).await? {
                            CallOutcome::Said(ServerAnswer::Closed(true)) => Self::next(part, round)?,
                            CallOutcome::Said(ServerAnswer::Closed(false)) => part.stage = PartStage::Clear,
                            heard => return self.no(network, part, heard, PartStage::Round).await,
                        }
                    }
                }
            }
            PartStage::Clear => {
                if self.broken == Some(BrokenRule::SendBeforeCommit)
                    && self.send_unpaid(network, part, job, dataset, round)?
                {
                    return Ok(false);
                }
                let Some(session) = part.session.as_mut() else { return Ok(false) };
                let released = self.live(|life| release(life, session, round))?;
                match released {
                    None => return Ok(false),
                    Some(Ok(vector)) => part.stage = PartStage::Pay(vector),
                    Some(Err(error)) => part.stage = gives_up(network, &error),
                }
            }
            PartStage::Pay(vector) => {
                let Some(session) = part.session.as_mut() else { return Ok(false) };
                let paid = self.live(|life| session.pay_vector(&life.site, SERIES, round, &vector))?;
                match paid {
                    None => return Ok(false),
                    Some(Ok(())) => part.stage = PartStage::Countersign,
                    Some(Err(error)) => part.stage = gives_up(network, &error),
                }
            }
            PartStage::Countersign => return self.countersign(network, part, round).await,
            PartStage::Send => return self.send(network, part, job, dataset, round).await,
            PartStage::Average => {
                let request = WorkerCall::Average { lease: part.work.lease.clone(), series: SERIES.to_owned(), round };
                match network.carry(self.worker, request).await? {
                    CallOutcome::Said(ServerAnswer::Closed(true)) => Self::next(part, round)?,
                    CallOutcome::Said(ServerAnswer::Closed(false)) => part.stage = PartStage::Average,
                    heard => return self.no(network, part, heard, PartStage::Average).await,
                }
            }
            PartStage::Close(outcome) => {
                let closed = self.live(|life| daemon::close_part(&life.site, job, dataset, &outcome))?;
                if self
                    .note_outcome(network, "close", closed.map(|done| done.map_err(|error| error.to_string())))
                    .is_none()
                {
                    return Ok(false);
                }
                part.stage = PartStage::Tell(outcome);
            }
            PartStage::Tell(outcome) => {
                let lease = part.work.lease.clone();
                match self.finish(network, job, dataset, lease, &outcome).await? {
                    Some(Code::LeaseLost) | None => return Ok(false),
                    Some(code) if transient(code) => part.stage = PartStage::Tell(outcome),
                    // A rejected result ends the part, as in the daemon.
                    Some(_) => part.stage = PartStage::Tell(RunOutcome::GaveUp { reason: "not taken".to_owned() }),
                }
            }
        }
        Ok(true)
    }

    /// Processes the average of a round: the next one begins, or the run is done.
    fn next(part: &mut PartProgress, round: u32) -> Result<(), StopReason> {
        let Some(session) = &part.session else { return Ok(()) };
        part.done = round;
        let spec = session.examined().manifest.spec.clone();
        let Spec::DpSgd(spec) = spec else { panic!("it is of another kind") };
        let rounds = session.examined().rounds(SERIES).unwrap_or(0);
        if round.is_multiple_of(spec.checkpoint_every) || round == rounds {
            std::fs::write(session.folder().join(CHECKPOINT), round.to_string()).map_err(Failed::from)?;
        }
        part.stage = if round < rounds {
            PartStage::Round
        } else {
            let leads = spec.participants.first().is_some_and(|first| first.dataset == session.examined().dataset.id);
            PartStage::Close(RunOutcome::Done {
                report: if leads { report(round) } else { String::new() },
                audit: None,
            })
        };
        Ok(())
    }

    /// Requests the server's countersignature of a round's payment.
    async fn countersign(
        &mut self,
        network: &mut SimulatedNetwork,
        part: &mut PartProgress,
        round: u32,
    ) -> Result<bool, StopReason> {
        let Some(session) = &part.session else { return Ok(false) };
        let request = self.live(|life| {
            let request = session.charge(&life.site, SERIES, round);
            fault::point(fault::BEFORE_COUNTERSIGN);
            request
        })?;
        let request = match request {
            None => return Ok(false),
            Some(Ok(Some(request))) => request,
            Some(Ok(None)) => {
                part.stage = PartStage::Send;
                return Ok(true);
            }
            Some(Err(error)) => {
                part.stage = gives_up(network, &error);
                return Ok(true);
            }
        };
        let message = WorkerCall::Countersign { lease: part.work.lease.clone(), receipts: request.receipts.clone() };
        match network.carry(self.worker, message).await? {
            CallOutcome::Said(ServerAnswer::Signed(answer)) => {
                let noted = self.live(|life| {
                    let noted = session.store_countersignatures(&life.site, &request, &answer);
                    fault::point(fault::AFTER_COUNTERSIGN);
                    noted
                })?;
                match noted {
                    None => return Ok(false),
                    Some(Ok(())) => part.stage = PartStage::Send,
                    Some(Err(error)) => part.stage = gives_up(network, &error),
                }
                Ok(true)
            }
            heard => self.no(network, part, heard, PartStage::Countersign).await,
        }
    }

    /// Sends the stored vector of a round.
    async fn send(
        &mut self,
        network: &mut SimulatedNetwork,
        part: &mut PartProgress,
        job: JobId,
        dataset: DatasetId,
        round: u32,
    ) -> Result<bool, StopReason> {
        let Some(session) = &part.session else { return Ok(false) };
        let letter = self.live(|life| {
            let letter = session.submission(&life.site, SERIES, round);
            fault::point(fault::BEFORE_SEND);
            letter
        })?;
        let mut letter = match letter {
            None => return Ok(false),
            Some(Ok(letter)) => letter,
            Some(Err(error)) => {
                part.stage = gives_up(network, &error);
                return Ok(true);
            }
        };
        if self.broken == Some(BrokenRule::FreshNoiseForOnePayment) {
            draw_again(&mut letter, &mut network.dice);
        }
        if session.examined().local.visibility == Visibility::Private {
            let place: Place = (job, dataset, SERIES.to_owned(), round);
            let paid = self.books.payments()?;
            network.see(&place, &letter.parcel.digest, &paid).map_err(StopReason::Wrong)?;
            let receipt = letter.receipts.last().map(Signed::digest).unwrap_or_default();
            network.see_receipt(&receipt, &letter.parcel.digest).map_err(StopReason::Wrong)?;
        }
        let lease = part.work.lease.clone();
        let message = WorkerCall::Submit { lease, series: SERIES.to_owned(), round, letter: letter.clone() };
        match network.carry(self.worker, message).await? {
            CallOutcome::Said(_) | CallOutcome::No(Code::RoundClosed, _) => {
                let noted = self.live(|life| {
                    fault::point(fault::AFTER_SEND);
                    session.mark_received(&life.site, SERIES, round, &letter)
                })?;
                match noted {
                    None => Ok(false),
                    Some(Ok(())) => {
                        part.stage = PartStage::Average;
                        Ok(true)
                    }
                    Some(Err(error)) => {
                        part.stage = gives_up(network, &error);
                        Ok(true)
                    }
                }
            }
            heard => self.no(network, part, heard, PartStage::Send).await,
        }
    }

    /// Sends the vector before it is paid, for a site that breaks the rule.
    fn send_unpaid(
        &mut self,
        network: &mut SimulatedNetwork,
        part: &PartProgress,
        job: JobId,
        dataset: DatasetId,
        round: u32,
    ) -> Result<bool, StopReason> {
        let private =
            part.session.as_ref().is_some_and(|session| session.examined().local.visibility == Visibility::Private);
        if private {
            let paid = self.books.payments()?;
            network.see(&(job, dataset, SERIES.to_owned(), round), "unpaid", &paid).map_err(StopReason::Wrong)?;
        }
        Ok(private)
    }

    /// Handles a missing or negative answer: waits, stops or gives up, as the daemon does. Returns false when the part
    /// is dropped.
    async fn no(
        &mut self,
        network: &mut SimulatedNetwork,
        part: &mut PartProgress,
        heard: CallOutcome,
        stage: PartStage,
    ) -> Result<bool, StopReason> {
        match heard {
            CallOutcome::Said(_) | CallOutcome::Nothing => part.stage = stage,
            CallOutcome::No(code, _) if transient(code) => part.stage = stage,
            CallOutcome::No(Code::LeaseLost, _) => {
                let lease = part.work.lease.clone();
                match network.carry(self.worker, WorkerCall::Renew { lease }).await? {
                    CallOutcome::Said(ServerAnswer::GoesOn(false, reason)) => {
                        part.stage = PartStage::Close(RunOutcome::Stopped { reason });
                    }
                    CallOutcome::No(Code::LeaseLost, _) => return Ok(false),
                    _ => part.stage = stage,
                }
            }
            CallOutcome::No(_, reason) => {
                network.trace.aside(&reason);
                part.stage = PartStage::Close(RunOutcome::GaveUp { reason });
            }
        }
        Ok(true)
    }

    /// Reports the end of a part. Returns the code of the server's rejection, `Unavailable` without an answer, `None`
    /// on success.
    pub(super) async fn finish(
        &mut self,
        network: &mut SimulatedNetwork,
        job: JobId,
        dataset: DatasetId,
        lease: String,
        outcome: &RunOutcome,
    ) -> Result<Option<Code>, StopReason> {
        let receipts = self.live(|life| daemon::final_receipts(&life.site).map_err(|error| error.to_string()))?;
        let Some((numbers, receipts)) = self.note_outcome(network, "closing", receipts) else { return Ok(None) };
        let report = match outcome {
            RunOutcome::Done { report, .. } if report.is_empty() => Told::Done(None),
            RunOutcome::Done { report, .. } => Told::Done(Some(serde_json::from_str(report).map_err(Failed::from)?)),
            RunOutcome::GaveUp { reason } | RunOutcome::Stopped { reason } => Told::GaveUp(reason.clone()),
        };
        match network.carry(self.worker, WorkerCall::Finish { lease, outcome: report, receipts }).await? {
            CallOutcome::Said(_) => {
                let noted = self.live(|life| {
                    daemon::acknowledge_end(&life.site, job, dataset, &numbers).map_err(|error| error.to_string())
                })?;
                self.note_outcome(network, "told", noted);
                Ok(None)
            }
            CallOutcome::No(code, _) => Ok(Some(code)),
            CallOutcome::Nothing => Ok(Some(Code::Unavailable)),
        }
    }
}

/// Examines offered work, and takes it up. Returns `None` when it is not for this site.
fn look(life: &WorkerProcess, part: &mut PartProgress, job: JobId) -> Result<Option<PartStage>, String> {
    let (site, work) = (&life.site, &part.work);
    let lease = work.lease.clone();
    let message = |error: &dyn std::fmt::Display| error.to_string();
    Ok(match daemon::examine_work(site, work, job).map_err(|error| message(&error))? {
        WorkExamination::Foreign(_) | WorkExamination::Waiting(_) => None,
        WorkExamination::Ended(outcome) => Some(PartStage::Close(outcome)),
        WorkExamination::Refused(reason) => Some(PartStage::Close(
            daemon::refuse_work(site, work, job, &lease, reason).map_err(|error| message(&error))?,
        )),
        WorkExamination::Ready(examined) => {
            match daemon::begin_part(site, work, &examined, &lease).map_err(|error| message(&error))? {
                Some(outcome) => Some(PartStage::Close(outcome)),
                None => match PartSession::new(site, *examined) {
                    Ok(session) => {
                        let checkpoint = std::fs::read_to_string(session.folder().join(CHECKPOINT));
                        let done = checkpoint.ok().and_then(|text| text.parse().ok()).unwrap_or(0);
                        let rounds = session.examined().rounds(SERIES).unwrap_or(0);
                        // The last round's average is fetched again: it costs nothing and leads to the end.
                        part.done = if done >= rounds { rounds.saturating_sub(1) } else { done };
                        part.session = Some(session);
                        Some(PartStage::Round)
                    }
                    Err(error) => Some(PartStage::Close(failed(&error))),
                },
            }
        }
    })
}

/// Makes a vector, as a run does.
fn release(life: &WorkerProcess, session: &mut PartSession, round: u32) -> Result<Outgoing, RunError> {
    let refused = |error: &dyn std::fmt::Display| RunError::refused(error.to_string());
    let Spec::DpSgd(spec) = session.examined().manifest.spec.clone() else {
        return Err(RunError::failed("the simulated sites train"));
    };
    let own = session.examined().dataset.id;
    let clearance = session.clear(&life.site, SERIES, round)?;
    let noise = spec.party(own).copied().and_then(|party| Some((party.noise?, party.sampling_rate)));
    match (clearance, noise) {
        (Clearance::Public(published), _) => {
            Outgoing::exact(vec![round as f32; LENGTH], Clearance::Public(published)).map_err(|error| refused(&error))
        }
        (granted @ Clearance::Granted(_), Some((noise, rate))) => {
            let clip = Clip::new(noise.clip, noise.noise_multiplier).map_err(|error| refused(&error))?;
            let sum = ClippedSum::begin(&Sampler::new(48, rate).draw_fresh(), clip, LENGTH);
            let release =
                sum.release(6.0, granted, &Randomness::from_os(Purpose::Noise)).map_err(|error| refused(&error))?;
            Ok(release.into())
        }
        (Clearance::Granted(_), None) => Err(RunError::failed("granted, and there is no noise to add")),
    }
}

/// Gives the part up after a failed run, as the daemon does.
fn gives_up(network: &mut SimulatedNetwork, error: &RunError) -> PartStage {
    network.trace.more("gives up");
    network.trace.aside(&error.to_string());
    PartStage::Close(failed(error))
}

fn failed(error: &RunError) -> RunOutcome {
    RunOutcome::GaveUp { reason: error.to_string() }
}

/// Returns the lead's report.
fn report(rounds: u32) -> String {
    let arms = vec![ArmResult { arm: Arm::Private, rounds, seconds: 0.0, tests: Vec::new() }];
    serde_json::to_string(&AnyReport::DpSgd(Report { arms, parameters: LENGTH as u64, ..Report::default() }))
        .unwrap_or_default()
}
