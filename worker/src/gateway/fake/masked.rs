//! A group of secure aggregation at the fake server: the honest server of the protocol, and two other sites, which answer
//! at once. The site under test is site 0.

use std::convert::Infallible;

use ed25519_dalek::SigningKey;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use tonic::Status;
use undertone_api::problem::{Code, Problem};
use undertone_proto::v1::masked_step_request::Step;
use undertone_proto::{to_status, v1};
use undertone_secure_aggregation::journal::{RoundJournal, RoundRecord};
use undertone_secure_aggregation::message::{Advertisement, MaskedVector, SealedShares};
use undertone_secure_aggregation::roster::{AcceptedRoster, GroupPolicy, Roster};
use undertone_secure_aggregation::round::RoundContext;
use undertone_secure_aggregation::server::{AdvertisementPhase, MaskPhase, RevealPhase, SharePhase, SignaturePhase};
use undertone_secure_aggregation::site::SiteRound;
use undertone_secure_aggregation::site_set::SiteSet;

use crate::fixture::peer_key;

/// The vector of another site: the same number in each coordinate.
pub(crate) const fn peer_value(site: u8) -> i32 {
    1000 * site as i32
}

/// The way in which the server misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum GroupFault {
    /// It is honest.
    #[default]
    None,
    /// Site 2 drops out after it has shared.
    Dropout,
    /// The list of advertisements lacks a site that the smallest group needs.
    ShrunkList,
    /// The survivors are fewer than the smallest group.
    ShrunkSurvivors,
    /// The list of another round.
    ReplayedList,
    /// The round closes before the vector.
    Closed,
    /// It is restored before it takes the vector.
    LostVector,
    /// It is restored before it closes the survivors, and shows another set.
    OtherSurvivors,
    /// The same, and it has closed the set when the site's signature on the former one arrives.
    RejectedSignature,
    /// It is restored before it takes the shares that open the sum.
    LostShares,
    /// It is restored before it closes the round.
    LostRound,
}

#[derive(Default)]
struct MemoryJournal(Option<RoundRecord>);

impl RoundJournal for MemoryJournal {
    type Error = Infallible;

    fn load(&mut self, _: &[u8; 32]) -> Result<Option<RoundRecord>, Infallible> {
        Ok(self.0.clone())
    }

    fn store(&mut self, _: &[u8; 32], record: &RoundRecord) -> Result<(), Infallible> {
        self.0 = Some(record.clone());
        Ok(())
    }
}

type PeerRound = SiteRound<'static, MemoryJournal>;

enum Phase {
    Advertise(AdvertisementPhase<'static>),
    Share(SharePhase<'static>),
    Mask(MaskPhase<'static>),
    Sign(SignaturePhase<'static>),
    Reveal(RevealPhase<'static>),
    Opened,
}

/// One round of a group of three sites.
pub(crate) struct FakeGroup {
    fault: GroupFault,
    phase: Phase,
    length: usize,
    /// Sites 1 and 2.
    peers: Vec<PeerRound>,
    /// The messages of the peers for another round.
    replayed: Vec<Advertisement>,
    /// The answers to the steps, for repetitions.
    answer: v1::MaskedStepReply,
    /// The messages of the site under test, in order of arrival.
    pub(crate) messages: Vec<Step>,
    /// The rounds in which the site takes no further part, with the number of the reason.
    pub(crate) refusals: Vec<(u32, i32)>,
    /// The opened sum.
    pub(crate) sum: Option<Vec<i32>>,
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn enter(accepted: &'static AcceptedRoster, key: &'static SigningKey, context: RoundContext) -> PeerRound {
    let mut rng = ChaCha20Rng::seed_from_u64(accepted.index().into());
    SiteRound::enter(accepted, key, context, MemoryJournal::default(), &mut rng).expect("a new round")
}

impl FakeGroup {
    /// Makes the round of `context`; `other` is another round of the same group.
    pub(crate) fn new(roster: &Roster, context: RoundContext, other: RoundContext, fault: GroupFault) -> Self {
        let roster = leak(roster.clone());
        let mut peers = Vec::new();
        let mut replayed = Vec::new();
        for site in 1..=2 {
            let key = leak(peer_key(site));
            let accepted = roster.clone().accept(&key.verifying_key(), GroupPolicy { least_honest: 1 }, |_| true);
            let accepted = leak(accepted.expect("a member"));
            peers.push(enter(accepted, key, context));
            replayed.push(enter(accepted, key, other).advertisement());
        }
        let phase = Phase::Advertise(AdvertisementPhase::new(roster, context));
        let (answer, length) = (v1::MaskedStepReply { ready: true, ..Default::default() }, context.length());
        let messages = Vec::new();
        let refusals = Vec::new();
        Self { fault, phase, length, peers, replayed, answer, messages, refusals, sum: None }
    }

    /// Makes the server misbehave from now on.
    pub(crate) const fn set_fault(&mut self, fault: GroupFault) {
        self.fault = fault;
    }

    /// Takes a step of the site under test; `vector` are the bytes that it has submitted.
    pub(super) fn step(
        &mut self,
        round: u32,
        step: Step,
        vector: Option<&[u8]>,
    ) -> Result<v1::MaskedStepReply, Status> {
        self.messages.push(step.clone());
        if let Step::Refuse(conflict) = step {
            self.refusals.push((round, conflict));
            return Ok(self.answer.clone());
        }
        if let Some(answer) = self.restore(&step) {
            return answer;
        }
        if self.fault == GroupFault::Closed && matches!(step, Step::Share(_)) {
            return Err(to_status(&Problem::new(Code::RoundClosed, "the round goes on without this site")));
        }
        let is_first = self.advance(step, vector).map_err(|error| Status::invalid_argument(error.to_string()))?;
        if is_first {
            self.misbehave();
        }
        Ok(self.answer.clone())
    }

    /// Returns the answer of a server that was restored, once: it lacks its last steps.
    fn restore(&mut self, step: &Step) -> Option<Result<v1::MaskedStepReply, Status>> {
        let refusal = |code| Some(Err(to_status(&Problem::new(code, "this server was restored"))));
        let answer = match (self.fault, step) {
            (GroupFault::LostVector, Step::Survivors(_)) | (GroupFault::OtherSurvivors, Step::Sign(_)) => {
                refusal(Code::NotReady)
            }
            (GroupFault::RejectedSignature, Step::Sign(_)) => refusal(Code::ValidationFailed),
            (GroupFault::LostShares, Step::Reveal(_)) => Some(Ok(self.answer.clone())),
            (GroupFault::LostRound, Step::Advertise(_)) if self.refusals.is_empty() => refusal(Code::NotReady),
            (GroupFault::LostRound, Step::Advertise(_)) => refusal(Code::RoundClosed),
            _ => None,
        };
        if answer.is_some() && self.fault != GroupFault::LostRound {
            if matches!(self.fault, GroupFault::OtherSurvivors | GroupFault::RejectedSignature) {
                self.answer.survivors = 0b011;
            }
            self.fault = GroupFault::None;
        }
        answer
    }

    /// Advances by one step; returns whether it is new.
    fn advance(&mut self, step: Step, vector: Option<&[u8]>) -> Result<bool, Box<dyn std::error::Error>> {
        let peers = &mut self.peers;
        let phase = std::mem::replace(&mut self.phase, Phase::Opened);
        self.phase = match (phase, step) {
            (Phase::Advertise(mut phase), Step::Advertise(own)) => {
                phase.receive(own.try_into()?)?;
                for peer in peers {
                    phase.receive(peer.advertisement())?;
                }
                let phase = phase.close()?;
                let list = phase.advertisements().as_slice().to_vec();
                self.answer.advertisements = list.into_iter().map(Into::into).collect();
                Phase::Share(phase)
            }
            (Phase::Share(mut phase), Step::Share(own)) => {
                let own = own.shares.into_iter().map(SealedShares::try_from).collect::<Result<_, _>>()?;
                phase.receive(0, own)?;
                let list = phase.advertisements().as_slice().to_vec();
                for (site, peer) in (1..).zip(peers) {
                    phase.receive(site, peer.share(list.clone())?)?;
                }
                let phase = phase.close()?;
                self.answer.shares = phase.shares_for(0).into_iter().map(Into::into).collect();
                Phase::Mask(phase)
            }
            (Phase::Mask(mut phase), Step::Survivors(_)) => {
                let bytes = vector.ok_or("the vector is missing")?.to_vec();
                phase.receive(&MaskedVector { site: 0, members: phase.members(), bytes })?;
                let senders = if self.fault == GroupFault::Dropout { 1 } else { 2 };
                for (site, peer) in (1..).zip(peers).take(senders) {
                    let vector = vec![peer_value(site); self.length];
                    let masked = peer.mask(phase.shares_for(site), &vector)?;
                    phase.receive(&masked)?;
                }
                let phase = phase.close()?;
                self.answer.survivors = phase.survivors().to_bits();
                Phase::Sign(phase)
            }
            (Phase::Sign(mut phase), Step::Sign(own)) => {
                phase.receive(own.try_into()?)?;
                let survivors = phase.survivors();
                for (_, peer) in (1..).zip(peers).filter(|(site, _)| survivors.contains(*site)) {
                    phase.receive(peer.sign(survivors)?)?;
                }
                let phase = phase.close()?;
                self.answer.signatures = phase.signatures().iter().cloned().map(Into::into).collect();
                Phase::Reveal(phase)
            }
            (Phase::Reveal(mut phase), Step::Reveal(own)) => {
                phase.receive(own.try_into()?)?;
                let survivors = SiteSet::from_bits(self.answer.survivors);
                let signatures = phase.signatures().to_vec();
                for (_, peer) in (1..).zip(peers).filter(|(site, _)| survivors.contains(*site)) {
                    phase.receive(peer.reveal(&signatures)?)?;
                }
                self.sum = Some(phase.open()?);
                Phase::Opened
            }
            (phase, _) => {
                self.phase = phase;
                return Ok(false);
            }
        };
        Ok(true)
    }

    /// Changes the honest answer.
    fn misbehave(&mut self) {
        let list = &mut self.answer.advertisements;
        match (self.fault, &self.phase) {
            (GroupFault::ShrunkList, Phase::Share(_)) => list.truncate(1),
            (GroupFault::ReplayedList, Phase::Share(_)) => {
                list.truncate(1);
                list.extend(self.replayed.iter().cloned().map(Into::into));
            }
            (GroupFault::ShrunkSurvivors, Phase::Sign(_)) => self.answer.survivors = 1,
            _ => {}
        }
    }

    /// Returns the average: the opened sum itself, as numbers of 4 bytes.
    pub(super) fn average(&self) -> Option<Vec<u8>> {
        self.sum.as_ref().map(|sum| sum.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect())
    }
}
