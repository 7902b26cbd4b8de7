//! A consortium whose private sites are a group, with the sites' half of the protocol.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use object_store::ObjectStoreExt as _;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use sha2::{Digest as _, Sha256};
use undertone_api::job::dp_sgd::{AcousticModel, AverageWeights, Precision, SecureAggregation, Spec};
use undertone_api::job::log::StepConflict;
use undertone_api::job::{Job, MaskedGroup};
use undertone_api::signed::Manifest;
use undertone_proto::vector::{self, VectorForm};
use undertone_secure_aggregation::journal::{RoundJournal, RoundRecord};
use undertone_secure_aggregation::message::{Advertisement, Reveal, SealedShares, SurvivorSignature};
use undertone_secure_aggregation::modulus::Modulus;
use undertone_secure_aggregation::roster::{AcceptedRoster, GroupPolicy, GroupTerms, Roster};
use undertone_secure_aggregation::round::RoundContext;
use undertone_secure_aggregation::site::SiteRound;
use undertone_secure_aggregation::site_set::SiteSet;

use super::super::{StepHeader, masked_step};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum;
use crate::model::masked_message::{self, MaskedStep};
use crate::model::{masked_round, submission};
use crate::service::round::{MaskedInput, MaskedMessage, VectorHeader, average, begin};
use crate::service::world::{TestConsortium, row};

/// The records of a site, in memory.
#[derive(Clone, Default)]
pub(super) struct TestJournal(Arc<Mutex<HashMap<[u8; 32], RoundRecord>>>);

impl RoundJournal for TestJournal {
    type Error = Infallible;

    fn load(&mut self, slot: &[u8; 32]) -> Result<Option<RoundRecord>, Infallible> {
        Ok(self.0.lock().unwrap().get(slot).cloned())
    }

    fn store(&mut self, slot: &[u8; 32], record: &RoundRecord) -> Result<(), Infallible> {
        self.0.lock().unwrap().insert(*slot, record.clone());
        Ok(())
    }
}

/// A site of the group.
struct TestMember {
    lease: String,
    accepted: AcceptedRoster,
    journal: TestJournal,
    list: Vec<Advertisement>,
    shares: Vec<SealedShares>,
}

/// A group in the round `round` of a job. Site i of the group is site i + 1 of the consortium.
pub(super) struct TestGroup {
    pub(super) world: TestConsortium,
    pub(super) job: Job,
    pub(super) group: MaskedGroup,
    pub(super) context: RoundContext,
    round: u32,
    lead: String,
    members: Vec<TestMember>,
}

impl TestGroup {
    pub(super) async fn new(ctx: &Ctx, sites: usize, smallest_group: u8, colluding: u8, rounds: u32) -> Self {
        Box::pin(Self::with(ctx, sites, (smallest_group, colluding), rounds, |_| ())).await
    }

    /// Makes a job of one public lead and a group, with a quorum of 2 unless `change` sets another.
    pub(super) async fn with(
        ctx: &Ctx,
        sites: usize,
        (smallest_group, colluding): (u8, u8),
        rounds: u32,
        change: impl FnOnce(&mut Spec),
    ) -> Self {
        let world = TestConsortium::new(ctx, sites, 50.0).await;
        let mut spec = Spec {
            model: AcousticModel::lstm(1, None),
            secure_aggregation: Some(SecureAggregation::new(smallest_group, colluding)),
            weights: AverageWeights::ExpectedBatch,
            ..world.spec(rounds)
        };
        change(&mut spec);
        let job = world.propose(spec).await.unwrap();
        let job = world.approved(job).await;
        let row = row(ctx, job.summary.id).await;
        let manifest: Manifest = row.manifest().unwrap();
        let group = row.series[0].series.masked.clone().unwrap();
        let units = |id| manifest.participants.iter().find(|party| party.dataset == id).map(|party| party.units);
        let undertone_api::job::Spec::DpSgd(spec) = &manifest.spec else { panic!("another kind") };
        assert_eq!(spec.masked_group(13, units).as_ref(), Some(&group), "sites compute the same group");
        let keys: Vec<[u8; 32]> = manifest
            .participants
            .iter()
            .filter_map(|party| hex::decode(party.site_key.as_ref()?).unwrap().try_into().ok())
            .collect();
        let digest: [u8; 32] = hex::decode(&row.digest).unwrap().try_into().unwrap();
        let roster = Roster::new(digest, &keys, GroupTerms { smallest_group, colluding }).unwrap();
        let modulus = Modulus::new(group.bits).unwrap();
        let context = RoundContext::new(&roster, "private", 1, group.length, modulus).unwrap();
        let lead = world.lease(0).await;
        let mut members = Vec::new();
        for site in 0..sites {
            let key = world.sites[site + 1].key.verifying_key();
            let accepted = roster.clone().accept(&key, GroupPolicy::default(), |_| true).unwrap();
            let lease = world.lease(site + 1).await;
            let (journal, list, shares) = Default::default();
            members.push(TestMember { lease, accepted, journal, list, shares });
        }
        Self { world, job, group, context, round: 1, lead, members }
    }

    pub(super) fn begin_round(&mut self, round: u32) {
        let roster = self.members[0].accepted.roster();
        let modulus = self.context.modulus();
        self.context = RoundContext::new(roster, "private", round, self.group.length, modulus).unwrap();
        self.round = round;
    }

    /// Continues with another process of the server.
    pub(super) fn continue_on(&mut self, ctx: &Ctx) {
        self.world.ctx = ctx.clone();
    }

    /// Restores the round to a state from before its survivors were closed, without the vectors of some sites.
    pub(super) async fn restore_before_survivors(&self, lost: &[usize]) {
        let ctx = &self.world.ctx;
        let job = self.job.summary.id.0;
        let steps = [MaskedStep::Sign, MaskedStep::Reveal].map(ColumnEnum::to_text);
        let datasets: Vec<_> = lost.iter().map(|site| self.group.datasets[*site].0).collect();
        let restoration = ctx.db.write("test", async |tx| {
            masked_message::Entity::delete_many()
                .filter(masked_message::Column::JobId.eq(job))
                .filter(masked_message::Column::Step.is_in(steps.clone()))
                .exec(tx)
                .await?;
            submission::Entity::delete_many()
                .filter(submission::Column::JobId.eq(job))
                .filter(submission::Column::DatasetId.is_in(datasets.clone()))
                .exec(tx)
                .await?;
            masked_round::Entity::update_many()
                .col_expr(masked_round::Column::Survivors, Expr::value(None::<i64>))
                .filter(masked_round::Column::JobId.eq(job))
                .exec(tx)
                .await?;
            Ok(())
        });
        restoration.await.unwrap();
    }

    /// Reports that a site takes no further part in the round.
    pub(super) async fn refuse(&self, site: usize, conflict: StepConflict) {
        let refusal = MaskedMessage::Refuse(conflict);
        assert_eq!(self.step(site, &refusal).await.unwrap(), Some(MaskedInput::Over));
    }

    pub(super) fn lease(&self, site: usize) -> String {
        self.members[site].lease.clone()
    }

    /// Returns a site's half of the round, from its journal.
    pub(super) fn site(&self, site: usize) -> SiteRound<'_, TestJournal> {
        let TestMember { accepted, journal, .. } = &self.members[site];
        let mut rng = ChaCha20Rng::seed_from_u64(u64::from(self.round) << 8 | site as u64);
        SiteRound::enter(accepted, &self.world.sites[site + 1].key, self.context, journal.clone(), &mut rng).unwrap()
    }

    /// Returns the vector of a site with its noise, in steps.
    pub(super) fn vector(&self, site: usize) -> Vec<i32> {
        let word = |place: u64| (place + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 + site as u64) >> 44;
        (0..self.group.length).map(|place| word(place) as i32 - (1 << 19)).collect()
    }

    fn lead_vector(&self) -> Vec<f32> {
        (0..self.group.length).map(|place| place as f32 / 4.0 - 7.0).collect()
    }

    /// Returns the mean of the lead's vector and of these sites' vectors, without masks.
    pub(super) fn plain_mean(&self, sites: &[usize]) -> Vec<f32> {
        let vectors: Vec<Vec<i32>> = sites.iter().map(|site| self.vector(*site)).collect();
        // q·n of each party.
        let batch = 0.125 * 500.0;
        let weight = batch * sites.len() as f64;
        let worth = self.group.step / weight;
        let lead = self.lead_vector();
        (0..lead.len())
            .map(|place| {
                let sum: i32 = vectors.iter().map(|vector| vector[place]).sum();
                let own = f64::from((f64::from(sum) * worth) as f32);
                ((batch * f64::from(lead[place]) + weight * own) / (batch + weight)) as f32
            })
            .collect()
    }

    pub(super) async fn step(&self, site: usize, message: &MaskedMessage) -> Result<Option<MaskedInput>, Error> {
        let lease = self.lease(site);
        self.step_with(site, &lease, message).await
    }

    pub(super) async fn step_with(
        &self,
        site: usize,
        lease: &str,
        message: &MaskedMessage,
    ) -> Result<Option<MaskedInput>, Error> {
        let (lease, series) = (lease.to_owned(), "private".to_owned());
        let header = StepHeader { lease, series, round: self.round, wait_seconds: 0 };
        masked_step(&self.world.ctx, self.world.sites[site + 1].worker, &header, message).await
    }

    pub(super) fn advertisement(&self, site: usize) -> Advertisement {
        self.site(site).advertisement()
    }

    pub(super) async fn poll_advertisement(&self, site: usize) -> Option<MaskedInput> {
        self.step(site, &MaskedMessage::Advertise(self.advertisement(site))).await.unwrap()
    }

    pub(super) async fn send_advertisements(&self, sites: &[usize]) {
        for site in sites {
            self.poll_advertisement(*site).await;
        }
    }

    /// Sends the advertisements of the sites, and receives the list.
    pub(super) async fn advertise(&mut self, sites: &[usize]) {
        self.send_advertisements(sites).await;
        for site in sites {
            let Some(MaskedInput::Advertisements(list)) = self.poll_advertisement(*site).await else {
                panic!("the list is closed")
            };
            self.members[*site].list = list;
        }
    }

    pub(super) fn shares(&self, site: usize) -> Vec<SealedShares> {
        self.site(site).share(self.members[site].list.clone()).unwrap()
    }

    async fn poll_shares(&self, site: usize) -> Option<MaskedInput> {
        self.step(site, &MaskedMessage::Share(self.shares(site))).await.unwrap()
    }

    pub(super) async fn send_shares(&self, sites: &[usize]) {
        for site in sites {
            self.poll_shares(*site).await;
        }
    }

    /// Sends the shares of the sites, and receives those for them.
    pub(super) async fn share(&mut self, sites: &[usize]) {
        self.send_shares(sites).await;
        for site in sites {
            let Some(MaskedInput::Shares(shares)) = self.poll_shares(*site).await else { panic!("members are closed") };
            self.members[*site].shares = shares;
        }
    }

    pub(super) fn masked_vector(&self, site: usize, vector: &[i32]) -> Vec<u8> {
        self.site(site).mask(self.members[site].shares.clone(), vector).unwrap().bytes
    }

    /// Submits bytes as the vector of a site, with a receipt of its chain.
    pub(super) async fn submit_bytes(&mut self, site: usize, bytes: &[u8]) -> Result<bool, Error> {
        let party = self.job.participants.iter().find(|part| part.dataset == self.group.datasets[site]).unwrap();
        let event = party.charge.as_ref().unwrap().event.clone();
        let receipt = self.world.sites[site + 1].receipt_of(&self.job, self.round, event);
        self.submit_paid(site, bytes, vec![receipt]).await
    }

    pub(super) async fn submit_paid(
        &self,
        site: usize,
        bytes: &[u8],
        receipts: Vec<undertone_api::signed::Signed>,
    ) -> Result<bool, Error> {
        let header = VectorHeader {
            lease: self.lease(site),
            series: "private".to_owned(),
            round: self.round,
            receipts,
            length: self.group.length,
            digest: hex::encode(Sha256::digest(bytes)),
            size: bytes.len() as u64,
            offset: 0,
        };
        let ctx = &self.world.ctx;
        let mut incoming = begin(ctx, self.world.sites[site + 1].worker, header).await?;
        incoming.write(bytes).await?;
        Ok(incoming.accept(ctx).await?.repeated)
    }

    pub(super) async fn send_vectors(&mut self, sites: &[usize]) {
        for site in sites {
            let bytes = self.masked_vector(*site, &self.vector(*site));
            assert!(!self.submit_bytes(*site, &bytes).await.unwrap(), "it is new");
        }
    }

    /// Submits the vectors of the sites, which are all members.
    pub(super) async fn submit(&mut self, sites: &[usize]) {
        self.send_vectors(sites).await;
        let all: SiteSet = sites.iter().map(|site| *site as u8).collect();
        assert_eq!(self.survivors(sites[0]).await, Some(all));
    }

    /// Submits the lead's vector, without a mask.
    pub(super) async fn submit_plain(&mut self) {
        let (job, lead, vector) = (self.job.clone(), self.lead.clone(), self.lead_vector());
        self.world.submit(&job, 0, &lead, self.round, &vector).await.unwrap();
    }

    pub(super) async fn survivors(&self, site: usize) -> Option<SiteSet> {
        match self.step(site, &MaskedMessage::Survivors).await.unwrap() {
            Some(MaskedInput::Survivors(survivors)) => Some(survivors),
            _ => None,
        }
    }

    pub(super) async fn signature(&self, site: usize) -> SurvivorSignature {
        let survivors = self.survivors(site).await.unwrap();
        self.site(site).sign(survivors).unwrap()
    }

    pub(super) async fn poll_signatures(&self, site: usize) -> Option<Vec<SurvivorSignature>> {
        let signature = self.signature(site).await;
        match self.step(site, &MaskedMessage::Sign(signature)).await.unwrap() {
            Some(MaskedInput::Signatures(signatures)) => Some(signatures),
            _ => None,
        }
    }

    pub(super) async fn send_signatures(&self, sites: &[usize]) {
        for site in sites {
            self.poll_signatures(*site).await;
        }
    }

    /// Sends the signatures of the sites that are survivors.
    pub(super) async fn sign(&self, sites: &[usize]) {
        self.send_signatures(sites).await;
        assert!(self.poll_signatures(sites[0]).await.is_some());
    }

    pub(super) async fn revealed(&self, site: usize) -> Reveal {
        let signatures = self.poll_signatures(site).await.unwrap();
        self.site(site).reveal(&signatures).unwrap()
    }

    pub(super) async fn reveal(&self, sites: &[usize]) {
        for site in sites {
            let reveal = MaskedMessage::Reveal(self.revealed_or_over(*site).await);
            assert_eq!(self.step(*site, &reveal).await.unwrap(), Some(MaskedInput::Over));
        }
    }

    /// Returns a site's shares; after the round's close from the signatures of all survivors, as the site had them.
    async fn revealed_or_over(&self, site: usize) -> Reveal {
        if self.average().await.is_none() {
            return self.revealed(site).await;
        }
        let survivors = self.site(site).record().survivors().unwrap();
        let signatures: Vec<_> = survivors.iter().map(|of| self.site(of.into()).sign(survivors).unwrap()).collect();
        self.site(site).reveal(&signatures).unwrap()
    }

    /// Returns the mean for the lead, if the round is closed.
    pub(super) async fn average(&self) -> Option<Vec<f32>> {
        let (ctx, worker) = (&self.world.ctx, self.world.sites[0].worker);
        let mean = average(ctx, worker, &self.lead, "private", self.round, 0).await.unwrap()?;
        let bytes = ctx.store.get(&mean.object).await.unwrap().bytes().await.unwrap();
        let form = VectorForm::new(Precision::F32, mean.length).unwrap();
        Some(vector::read(&bytes, form).unwrap())
    }

    pub(super) fn lead_lease(&self) -> &str {
        &self.lead
    }

    pub(super) const fn round(&self) -> u32 {
        self.round
    }
}
