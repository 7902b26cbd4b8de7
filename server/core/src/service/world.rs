//! A test fixture: a consortium of one public and several private organizations, with a steward each, budgets, and
//! sites that sign like real ones.

#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

pub mod finished;
pub mod people;
pub mod poll;

use std::collections::{BTreeMap, BTreeSet};

use ed25519_dalek::SigningKey;
use object_store::ObjectStoreExt as _;
use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use sha2::{Digest as _, Sha256};
use undertone_api::budget::NewBudget;
use undertone_api::dataset::{DatasetRegistration, SizeClass, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId, JobId, LineageId, MemberId, OrganizationId, SessionId, WorkerId};
use undertone_api::job::PartyTerms;
use undertone_api::job::dp_sgd::{
    self, AcousticModel, AverageWeights, Noise, Optimizer, Party, Rounds, TestSet, WarmStart,
};
use undertone_api::job::{Charge, Job, NewJob, Spec};
use undertone_api::member::{Member, Role, RoleGrant, RoleScope};
use undertone_api::signed::{Manifest, Receipt, Signed, SiteDecision};
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};

use crate::auth::{Actor, Means};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::JsonColumn;
use crate::model::{consortium, job, membership, organization, participant, role, worker};
use crate::rule::job::load_job;
use crate::service::ledger::frozen::freeze_lineage;
use crate::service::offer::{OfferRequest, WorkOffer};
use crate::service::round::{VectorHeader, begin};
use crate::service::{approval, budget, dataset, job as jobs, offer};

/// The clip of its jobs.
pub const CLIP: f64 = 1e6;

/// A site: its worker, its dataset, its key and its chain of receipts.
pub struct TestSite {
    pub steward: Actor,
    pub worker: WorkerId,
    pub dataset: DatasetId,
    pub lineage: LineageId,
    pub key: SigningKey,
    pub sequence: u64,
    pub head: String,
}

/// A consortium.
pub struct TestConsortium {
    pub ctx: Ctx,
    pub consortium: ConsortiumId,
    /// The public one first.
    pub sites: Vec<TestSite>,
    /// A public test set at the first site.
    pub test: DatasetId,
}

impl TestConsortium {
    /// Makes a public site and `private` private ones, each with ε `epsilon` at δ 1e-5 for records.
    pub async fn new(ctx: &Ctx, private: usize, epsilon: f64) -> Self {
        let consortium: ConsortiumId = ctx.id();
        let row = consortium::Model {
            id: consortium.0,
            name: format!("consortium {consortium}"),
            description: String::new(),
            created_at: ctx.now(),
        };
        ctx.db.write("test", async |tx| Ok(row.clone().into_active_model().insert(tx).await?)).await.unwrap();
        let mut sites = Vec::new();
        for number in 0..=private {
            sites.push(TestSite::new(ctx, consortium, number).await);
        }
        // As after a sign-in: stewards know the organizations of their consortium.
        let organizations: Vec<OrganizationId> =
            sites.iter().flat_map(|site: &TestSite| site.steward.organizations()).collect();
        for site in &mut sites {
            site.steward.consortia.insert(consortium, organizations.clone());
        }
        let test = register(ctx, &sites[0], "test", Visibility::Public, ctx.id()).await;
        let world = Self { ctx: ctx.clone(), consortium, sites, test };
        for site in &world.sites[1..] {
            world.set_budget(site, epsilon).await.unwrap();
        }
        world
    }

    pub async fn set_budget(&self, site: &TestSite, epsilon: f64) -> Result<undertone_api::budget::Account, Error> {
        self.set_budget_of(site, PrivacyUnit::Record, epsilon).await
    }

    pub async fn set_budget_of(
        &self,
        site: &TestSite,
        unit: PrivacyUnit,
        epsilon: f64,
    ) -> Result<undertone_api::budget::Account, Error> {
        let new =
            NewBudget { unit, epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(1e-5).unwrap(), filter: None };
        budget::set(&self.ctx, &site.steward, site.dataset, new).await
    }

    /// Returns a job of `rounds` private rounds over all sites; quorum 2, a minute for each round, no spare releases.
    /// The clip is larger than the norm of any test vector.
    pub fn spec(&self, rounds: u32) -> dp_sgd::Spec {
        let noise = Noise::flat(NoiseMultiplier::new(1.0).unwrap(), CLIP);
        let party = |(number, site): (usize, &TestSite)| Party {
            dataset: site.dataset,
            sampling_rate: SamplingRate::new(0.125).unwrap(),
            noise: (number > 0).then_some(noise),
            rounds: None,
        };
        dp_sgd::Spec {
            unit: PrivacyUnit::Record,
            // Its vectors need more than one message.
            model: AcousticModel::lstm(384, None),
            initial_model: None,
            participants: self.sites.iter().enumerate().map(party).collect(),
            open_terms: Vec::new(),
            rehearsal: None,
            tests: vec![TestSet { name: "common".to_owned(), dataset: self.test }],
            warm_start: WarmStart { epochs: 1, batch: 1, learning_rate: 0.1, seed: 1 },
            open: None,
            private: Some(rounds_of(rounds)),
            audit: None,
            selection: None,
            secure_aggregation: None,
            weights: AverageWeights::Equal,
            spare_releases: 0,
            checkpoint_every: 10,
        }
    }

    pub async fn propose(&self, spec: dp_sgd::Spec) -> Result<Job, Error> {
        let new = NewJob { title: "a job".to_owned(), spec: Spec::DpSgd(spec) };
        jobs::propose(&self.ctx, &self.sites[0].steward, self.consortium, new).await
    }

    /// Proposes a job of `rounds` rounds and has every private steward approve it.
    pub async fn queued(&self, rounds: u32) -> Job {
        let job = self.propose(self.spec(rounds)).await.unwrap();
        self.approved(job).await
    }

    /// Returns the proposal as a server signed it before zero-out adjacency existed.
    pub async fn signed_before(&self, proposed: &Job) -> Job {
        let (id, ctx) = (proposed.summary.id, &self.ctx);
        let row = job::Entity::find_by_id(id.0).one(ctx.db.read()).await.unwrap().unwrap();
        let mut manifest: Manifest = serde_json::from_str(&row.manifest).unwrap();
        for charge in manifest.participants.iter_mut().filter_map(|party| party.charge.as_mut()) {
            charge.adjacency = Adjacency::AddRemove;
        }
        let signed = Signed::new(&manifest, &ctx.signer).unwrap();
        let parts = participant::Entity::find().filter(participant::Column::JobId.eq(id.0));
        let parts = parts.all(ctx.db.read()).await.unwrap();
        ctx.db
            .write("test", async |tx| {
                let digest = signed.digest();
                let Signed { payload: manifest, signature } = signed.clone();
                let row = job::Model { manifest, signature, digest, ..row.clone() };
                row.into_active_model().reset_all().update(tx).await?;
                for part in parts.iter().filter(|part| part.charge.is_some()) {
                    let charge = part.charge.as_deref().unwrap().clone();
                    let charge = Charge { adjacency: Adjacency::AddRemove, ..charge };
                    let part = participant::Model { charge: Some(JsonColumn::new(charge)?), ..part.clone() };
                    part.into_active_model().reset_all().update(tx).await?;
                }
                Ok(())
            })
            .await
            .unwrap();
        self.job(id).await
    }

    /// Has every private steward approve a job.
    pub async fn approved(&self, mut job: Job) -> Job {
        for site in &self.sites[1..] {
            job = approval::approve(&self.ctx, &site.steward, job.summary.id, site.dataset).await.unwrap();
        }
        job
    }

    /// Returns the lease of a site that asks for work and holds none.
    pub async fn lease(&self, site: usize) -> String {
        match offer::next(&self.ctx, self.sites[site].worker, &OfferRequest::default()).await.unwrap() {
            WorkOffer::Work { lease, .. } => lease,
            other => panic!("no work: {other:?}"),
        }
    }

    /// Sends a vector for a round; private sites pay for it with a receipt of their chain.
    pub async fn submit(
        &mut self,
        job: &Job,
        site: usize,
        lease: &str,
        round: u32,
        vector: &[f32],
    ) -> Result<bool, Error> {
        let receipts = if site == 0 { Vec::new() } else { vec![self.sites[site].receipt(job, round, 1)] };
        self.submit_with(site, lease, round, vector, receipts).await
    }

    pub async fn submit_with(
        &self,
        site: usize,
        lease: &str,
        round: u32,
        vector: &[f32],
        receipts: Vec<Signed>,
    ) -> Result<bool, Error> {
        let data: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        let header = VectorHeader {
            lease: lease.to_owned(),
            series: "private".to_owned(),
            round,
            receipts,
            length: vector.len() as u64,
            digest: hex::encode(Sha256::digest(&data)),
            size: data.len() as u64,
            offset: 0,
        };
        let mut incoming = begin(&self.ctx, self.sites[site].worker, header).await?;
        incoming.write(&data).await?;
        Ok(incoming.accept(&self.ctx).await?.repeated)
    }

    /// Returns the mean of a round, if it is closed.
    pub async fn average(&self, site: usize, lease: &str, round: u32) -> Option<Vec<f32>> {
        let worker = self.sites[site].worker;
        let mean = crate::service::round::average(&self.ctx, worker, lease, "private", round, 0).await.unwrap()?;
        let data = self.ctx.store.get(&mean.object).await.unwrap().bytes().await.unwrap();
        assert_eq!(hex::encode(Sha256::digest(&data)), mean.digest);
        Some(data.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }

    pub async fn job(&self, id: JobId) -> Job {
        jobs::get(&self.ctx, &self.sites[0].steward, id).await.unwrap()
    }

    /// Registers another dataset of a site, which continues its lineage.
    pub async fn continued(&self, site: usize, name: &str) -> DatasetId {
        let site = &self.sites[site];
        register(&self.ctx, site, name, Visibility::Private, site.lineage).await
    }

    /// Returns the only account of a site's dataset.
    pub async fn account(&self, site: usize) -> undertone_api::budget::Account {
        let site = &self.sites[site];
        dataset::get(&self.ctx, &site.steward, site.dataset).await.unwrap().accounts.pop().unwrap()
    }
}

impl TestSite {
    async fn new(ctx: &Ctx, consortium: ConsortiumId, number: usize) -> Self {
        let (organization, worker): (OrganizationId, WorkerId) = (ctx.id(), ctx.id());
        let key = SigningKey::from_bytes(&ctx.random.bytes());
        let rows = (
            organization::Model {
                id: organization.0,
                name: format!("party {number} {organization}"),
                created_at: ctx.now(),
            },
            membership::Model {
                consortium_id: consortium.0,
                organization_id: organization.0,
                joined_at: ctx.now(),
                retired_at: None,
            },
            worker::Model {
                id: worker.0,
                organization_id: organization.0,
                name: "worker".to_owned(),
                public_key: hex::encode(key.verifying_key().to_bytes()),
                version: String::new(),
                kinds: JsonColumn::new(["dp_sgd", "active_learning"].map(str::to_owned).to_vec()).unwrap(),
                created_at: ctx.now(),
                last_seen_at: None,
                retired_at: None,
                replaces: None,
            },
        );
        ctx.db
            .write("test", async |tx| {
                rows.0.clone().into_active_model().insert(tx).await?;
                rows.1.clone().into_active_model().insert(tx).await?;
                rows.2.clone().into_active_model().insert(tx).await?;
                Ok(())
            })
            .await
            .unwrap();
        let head = hex::encode(Sha256::digest(b""));
        let steward = person(ctx, consortium, organization, &format!("steward {number}"));
        let lineage = ctx.id();
        let mut site = Self { steward, worker, dataset: DatasetId(uuid::Uuid::nil()), lineage, key, sequence: 0, head };
        let visibility = if number == 0 { Visibility::Public } else { Visibility::Private };
        site.dataset = register(ctx, &site, "speech", visibility, lineage).await;
        site
    }

    /// Returns the next receipt of the site's chain, for a round of a job's private series.
    pub fn receipt(&mut self, job: &Job, round: u32, attempt: u32) -> Signed {
        let event = Event::PoissonSampledGaussian {
            sampling_rate: SamplingRate::new(0.125).unwrap(),
            noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        };
        self.receipt_with(job, round, attempt, event)
    }

    /// Returns the next receipt of the site's chain for a release of `event`.
    pub fn receipt_of(&mut self, job: &Job, round: u32, event: Event) -> Signed {
        self.receipt_with(job, round, 1, event)
    }

    fn receipt_with(&mut self, job: &Job, round: u32, attempt: u32, event: Event) -> Signed {
        let part = job.participants.iter().find(|part| part.dataset == self.dataset);
        let charge = part.and_then(|part| part.charge.as_ref());
        self.sequence += 1;
        let receipt = Receipt {
            sequence: self.sequence,
            previous: self.head.clone(),
            worker: self.worker,
            dataset: self.dataset,
            lineage: self.lineage,
            job: job.summary.id,
            manifest: job.manifest.clone(),
            series: "private".to_owned(),
            round,
            attempt,
            unit: charge.map_or(PrivacyUnit::Record, |charge| charge.unit),
            adjacency: charge.map_or(Adjacency::ZeroOut, |charge| charge.adjacency),
            event,
            evaluator: EVALUATOR_VERSION.to_owned(),
            at: time::OffsetDateTime::UNIX_EPOCH,
            tick: None,
        };
        let signed = Signed::new(&receipt, &self.key).unwrap();
        self.head = signed.digest();
        signed
    }

    pub fn decision(&self, job: &Job, approve: bool, reason: &str) -> Signed {
        let decision = SiteDecision {
            manifest: job.manifest.clone(),
            job: job.summary.id,
            dataset: self.dataset,
            approve,
            reason: reason.to_owned(),
            terms: PartyTerms::default(),
            at: time::OffsetDateTime::UNIX_EPOCH,
        };
        Signed::new(&decision, &self.key).unwrap()
    }
}

/// Returns a member with every role of an organization.
fn person(ctx: &Ctx, consortium: ConsortiumId, organization: OrganizationId, name: &str) -> Actor {
    let scope = RoleScope::Organization(organization);
    let roles = [Role::OrganizationAdmin, Role::DataSteward, Role::Researcher, Role::Auditor];
    Actor {
        member: Member {
            id: ctx.id::<MemberId>(),
            name: name.to_owned(),
            email: "steward@example.org".to_owned(),
            operator: false,
            grants: roles.map(|role| RoleGrant { scope, role }).to_vec(),
            created_at: ctx.now(),
        },
        means: Means::Session(ctx.id::<SessionId>()),
        consortia: BTreeMap::from([(consortium, vec![organization])]),
        retired: BTreeSet::new(),
        is_fresh: true,
    }
}

async fn register(ctx: &Ctx, site: &TestSite, name: &str, visibility: Visibility, lineage: LineageId) -> DatasetId {
    let registration = DatasetRegistration {
        name: name.to_owned(),
        lineage,
        visibility,
        content: undertone_api::dataset::DatasetContent::Speech,
        inputs: 13,
        classes: 40,
        records: SizeClass(500),
        speakers: SizeClass(20),
        test_records: 0,
        seconds: None,
        users: None,
        table: None,
        units: undertone_api::dataset::usual_units(),
        approval: None,
    };
    dataset::register(ctx, site.worker, &registration).await.unwrap().id
}

fn rounds_of(rounds: u32) -> Rounds {
    Rounds {
        evaluate_every: 1,
        deadline_seconds: 60,
        quorum: 2,
        ..Rounds::new(rounds, Optimizer::Sgd { learning_rate: 0.1, momentum: 0.0 })
    }
}

/// Removes every role of a member.
pub async fn loses_every_role(ctx: &Ctx, member: MemberId) {
    let lose = async |tx: &crate::db::Tx| {
        Ok(role::Entity::delete_many().filter(role::Column::MemberId.eq(member.0)).exec(tx).await?)
    };
    ctx.db.write("test", lose).await.unwrap();
}

/// Returns the row of a job, with columns that no view contains.
pub async fn row(ctx: &Ctx, id: JobId) -> job::Model {
    load_job(ctx.db.read(), id).await.unwrap()
}

/// Lets an audit of a job freeze the lineage of one of its datasets.
pub async fn freeze_dataset(ctx: &Ctx, job: JobId, dataset: DatasetId, reason: &str) {
    let part = participant::Entity::find_by_id((job.0, dataset.0)).one(ctx.db.read()).await.unwrap().unwrap();
    ctx.db.write("test", async |tx| freeze_lineage(ctx, tx, &part, reason).await).await.unwrap();
}
