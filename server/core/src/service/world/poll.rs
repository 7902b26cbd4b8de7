//! A job with questions: a public lead, two private sites with query logs, and annotators.

use std::collections::BTreeMap;

use serde_json::json;
use undertone_api::dataset::{Dataset, DatasetContent, DatasetRegistration, SizeClass, Visibility};
use undertone_api::id::{DatasetId, MemberId, QuestionId};
use undertone_api::job::active_learning::{self, Report as LearningReport, TRAINING};
use undertone_api::job::{Charge, Job, NewJob, Report, Spec};
use undertone_api::member::{Role, RoleGrant, RoleScope};
use undertone_api::question::{Annotation, AnnotationQueue, Answer, NewAnnotation};
use undertone_api::signed::{Receipt, Signed};
use undertone_privacy::PrivacyUnit;
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use undertone_proto::question::{AnswerLine, QuestionLine, id, read_answers, write};

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::exchange::object::digest;
use crate::service::finish::{PartOutcome, finish};
use crate::service::question::{self, PoolHeader, QuestionChoice};
use crate::service::round::{self, AcceptedSubmission, VectorHeader};
use crate::service::world::{TestConsortium, TestSite};
use crate::service::{approval, dataset, job as jobs};

pub struct QuestionJob {
    pub world: TestConsortium,
    pub job: Job,
    /// The leases of the lead, and of the two sites with questions.
    pub leases: [String; 3],
}

/// Has the lead train on its private rows, without a public test set.
fn lead_privately(spec: &mut active_learning::Spec) {
    let training = json!({
        "sampling_rate": 0.125, "noise_multiplier": 2, "clip": 1, "steps": 10, "learning_rate": 0.05,
    });
    spec.private_lead = Some(serde_json::from_value(training).unwrap());
    spec.tests.clear();
    spec.golden = 10_000;
}

impl QuestionJob {
    /// Starts a job of three rounds of at most three questions, each answered by `annotators` people within a minute.
    pub async fn new(ctx: &Ctx, annotators: u32) -> Self {
        Self::start_with_deadline(ctx, annotators, 60).await
    }

    /// Starts the same as [`QuestionJob::pooled`], each question answered by one person, with more time.
    pub async fn lasting(ctx: &Ctx, seconds: u32) -> Self {
        Self::start_with_deadline(ctx, 1, seconds).await.filled().await
    }

    async fn start_with_deadline(ctx: &Ctx, annotators: u32, seconds: u32) -> Self {
        let (world, job) = Self::queued(ctx, annotators, seconds).await;
        Self::started(world, job).await
    }

    /// Proposes the job of [`QuestionJob::new`] with `seconds` for a round, and approves it; no worker has begun.
    pub(crate) async fn queued(ctx: &Ctx, annotators: u32, seconds: u32) -> (TestConsortium, Job) {
        let world = Self::registered(ctx, Visibility::Public, &[0]).await;
        let spec = spec([0, 1, 2].map(|site| world.sites[site].dataset), annotators, seconds);
        let new = NewJob { title: "what people ask".to_owned(), spec };
        let job = jobs::propose(ctx, &world.sites[0].steward, world.consortium, new).await.unwrap();
        let job = world.approved(job).await;
        (world, job)
    }

    /// Registers queries at all sites, with labels at some, and budgets of those that are not public.
    async fn registered(ctx: &Ctx, lead: Visibility, labelled: &[usize]) -> TestConsortium {
        let mut world = TestConsortium::new(ctx, 2, 50.0).await;
        for number in 0..world.sites.len() {
            let visibility = if number == 0 { lead } else { Visibility::Private };
            let dataset =
                register_queries(ctx, &world.sites[number], usize::from(!labelled.contains(&number)), visibility).await;
            (world.sites[number].dataset, world.sites[number].lineage) = (dataset.id, dataset.lineage);
            if visibility != Visibility::Public {
                world.set_budget(&world.sites[number], 50.0).await.unwrap();
            }
        }
        world
    }

    /// Starts the job of [`QuestionJob::new`] with a private lead, without a test set.
    pub async fn led_privately(ctx: &Ctx) -> Self {
        let world = Self::registered(ctx, Visibility::Private, &[0]).await;
        let Spec::ActiveLearning(mut spec) = spec([0, 1, 2].map(|site| world.sites[site].dataset), 1, 60) else {
            panic!("it is of this kind")
        };
        lead_privately(&mut spec);
        let new = NewJob { title: "what our people ask".to_owned(), spec: Spec::ActiveLearning(spec) };
        let steward = &world.sites[0].steward;
        let job = jobs::propose(ctx, steward, world.consortium, new).await.unwrap();
        let job = approval::approve(ctx, steward, job.summary.id, world.sites[0].dataset).await.unwrap();
        let job = world.approved(job).await;
        Self::started(world, job).await
    }

    /// Starts the job of [`QuestionJob::new`], where site 2 asks nothing and holds the private test set, for two
    /// measurements. The lead is public or private.
    pub async fn measured_privately(ctx: &Ctx, lead: Visibility) -> Self {
        let world = Self::registered(ctx, lead, &[0, 2]).await;
        let datasets = [0, 1, 2].map(|site| world.sites[site].dataset);
        let Spec::ActiveLearning(mut spec) = spec(datasets, 1, 60) else { panic!("it is of this kind") };
        spec.participants.truncate(2);
        let test = json!({ "dataset": datasets[2], "noise_multiplier": 8, "measurements": 2 });
        spec.private_test = Some(serde_json::from_value(test).unwrap());
        if lead != Visibility::Public {
            lead_privately(&mut spec);
        }
        let new = NewJob { title: "what our people ask".to_owned(), spec: Spec::ActiveLearning(spec) };
        let steward = &world.sites[0].steward;
        let mut job = jobs::propose(ctx, steward, world.consortium, new).await.unwrap();
        if lead != Visibility::Public {
            job = approval::approve(ctx, steward, job.summary.id, datasets[0]).await.unwrap();
        }
        let job = world.approved(job).await;
        Self::started(world, job).await
    }

    /// Sends the lead's vector of a training, with receipts.
    pub async fn trains(&self, round: u32, receipts: Vec<Signed>) -> Result<AcceptedSubmission, Error> {
        self.sends_vector(0, TRAINING, round, receipts).await
    }

    /// Sends a site's vector of two numbers, with receipts.
    pub async fn sends_vector(
        &self,
        site: usize,
        series: &str,
        round: u32,
        receipts: Vec<Signed>,
    ) -> Result<AcceptedSubmission, Error> {
        let data: Vec<u8> = [0.5_f32, -0.25].iter().flat_map(|value| value.to_le_bytes()).collect();
        let header = VectorHeader {
            lease: self.leases[site].clone(),
            series: series.to_owned(),
            round,
            receipts,
            length: 2,
            digest: digest(&data),
            size: data.len() as u64,
            offset: 0,
        };
        let mut upload = round::begin(self.ctx(), self.world.sites[site].worker, header).await?;
        upload.write(&data).await?;
        upload.accept(self.ctx()).await
    }

    /// Starts a queued job: every worker takes up its part.
    pub(crate) async fn started(world: TestConsortium, job: Job) -> Self {
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        Self { world, job, leases }
    }

    /// Starts the same with the pools of both sites, which the lead has read: `a b c` and `b d`.
    pub async fn pooled(ctx: &Ctx, annotators: u32) -> Self {
        Self::new(ctx, annotators).await.filled().await
    }

    async fn filled(mut self) -> Self {
        self.asks(1, &["a", "b", "c"]).await.unwrap();
        self.asks(2, &["b", "d"]).await.unwrap();
        self.pools().await.unwrap();
        self
    }

    pub fn ctx(&self) -> &Ctx {
        &self.world.ctx
    }

    /// Returns a site's receipt for a pool, the next in its chain.
    pub fn receipt(&mut self, site: usize) -> Signed {
        self.receipt_in(site, "pool", 1)
    }

    /// Returns a site's receipt for a release in a series, the next in its chain.
    pub fn receipt_in(&mut self, site: usize, series: &str, round: u32) -> Signed {
        let charge = self.charge(site);
        let site = &mut self.world.sites[site];
        site.sequence += 1;
        let receipt = Receipt {
            sequence: site.sequence,
            previous: site.head.clone(),
            worker: site.worker,
            dataset: site.dataset,
            lineage: site.lineage,
            job: self.job.summary.id,
            manifest: self.job.manifest.clone(),
            series: series.to_owned(),
            round,
            attempt: 1,
            unit: charge.unit,
            adjacency: charge.adjacency,
            event: charge.event,
            evaluator: EVALUATOR_VERSION.to_owned(),
            at: time::OffsetDateTime::UNIX_EPOCH,
            tick: None,
        };
        let signed = Signed::new(&receipt, &site.key).unwrap();
        site.head = signed.digest();
        signed
    }

    pub fn charge(&self, site: usize) -> Charge {
        let own = |part: &&undertone_api::job::JobParticipant| part.dataset == self.world.sites[site].dataset;
        self.job.participants.iter().find(own).unwrap().charge.clone().unwrap()
    }

    /// Pays for a pool and sends it.
    pub async fn asks(&mut self, site: usize, texts: &[&str]) -> Result<AcceptedSubmission, Error> {
        let receipts = vec![self.receipt(site)];
        self.sends(site, &pool(texts), receipts).await
    }

    pub async fn sends(&self, site: usize, bytes: &[u8], receipts: Vec<Signed>) -> Result<AcceptedSubmission, Error> {
        let header = PoolHeader {
            lease: self.leases[site].clone(),
            series: "pool".to_owned(),
            round: 1,
            receipts,
            size: bytes.len() as u64,
            digest: digest(bytes),
        };
        let mut incoming = question::begin(self.ctx(), self.world.sites[site].worker, header).await?;
        incoming.write(bytes).await?;
        incoming.accept(self.ctx()).await
    }

    /// Returns the pools for the lead, without waiting.
    pub async fn pools(&self) -> Option<question::JobPools> {
        question::wait_for_pools(self.ctx(), self.world.sites[0].worker, &self.leases[0], 0).await.unwrap()
    }

    pub fn id(&self, site: usize, text: &str) -> QuestionId {
        id(self.job.summary.id, self.world.sites[site].dataset, text)
    }

    /// Chooses questions, the first the most uncertain.
    pub async fn chooses(&self, round: u32, chosen: &[QuestionId]) -> Result<bool, Error> {
        let uncertain = (0..).zip(chosen).map(|(place, question)| QuestionChoice {
            question: *question,
            uncertainty: 1.0 - f64::from(place) / 10.0,
        });
        let choices: Vec<QuestionChoice> = uncertain.collect();
        let worker = self.world.sites[0].worker;
        question::choose(self.ctx(), worker, &self.leases[0], round, &choices).await
    }

    /// Returns a round's answers for the lead, without waiting: question, annotator, answer.
    pub async fn answers(&self, round: u32) -> Result<Vec<AnswerLine>, (u64, u64)> {
        let worker = self.world.sites[0].worker;
        let answers = question::answers(self.ctx(), worker, &self.leases[0], round, 0).await.unwrap()?;
        assert_eq!(digest(&answers.bytes), answers.digest);
        Ok(read_answers(&answers.bytes).unwrap())
    }

    /// Returns an actor with the annotator role only.
    pub fn annotator(&self) -> Actor {
        let scope = RoleScope::Consortium(self.world.consortium);
        let mut actor = self.world.sites[1].steward.clone();
        actor.member.id = self.ctx().id::<MemberId>();
        actor.member.grants = vec![RoleGrant { scope, role: Role::Annotator }];
        actor
    }

    /// Returns a member of another consortium.
    pub fn stranger(&self) -> Actor {
        let elsewhere = self.ctx().id();
        let grants = vec![RoleGrant { scope: RoleScope::Consortium(elsewhere), role: Role::ConsortiumAdmin }];
        let mut actor = self.annotator();
        actor.member.grants = grants;
        Actor { consortia: BTreeMap::from([(elsewhere, Vec::new())]), ..actor }
    }

    pub async fn queue(&self, actor: &Actor) -> AnnotationQueue {
        question::next(self.ctx(), actor, self.job.summary.id).await.unwrap()
    }

    /// Returns the texts assigned to an actor.
    pub async fn next(&self, actor: &Actor) -> Vec<String> {
        self.queue(actor).await.questions.into_iter().map(|question| question.text).collect()
    }

    pub async fn says(&self, actor: &Actor, question: QuestionId, label: &str) -> Result<Annotation, Error> {
        let answer = match label {
            "unsure" => Answer::Unsure,
            "skip" => Answer::Skip,
            label => Answer::Label { label: label.to_owned() },
        };
        question::annotate(self.ctx(), actor, question, &NewAnnotation { answer }).await
    }

    pub async fn end(&self, site: usize, outcome: PartOutcome) {
        finish(self.ctx(), self.world.sites[site].worker, &self.leases[site], &outcome, &[]).await.unwrap();
    }

    /// Ends every part successfully.
    pub async fn finish(&self) -> Job {
        for site in [1, 2] {
            self.end(site, PartOutcome::Done(None)).await;
        }
        self.end(0, PartOutcome::Done(Some(Report::ActiveLearning(LearningReport::default())))).await;
        self.world.job(self.job.summary.id).await
    }
}

/// Registers queries at a site: those of the first one have labels.
pub async fn register_queries(ctx: &Ctx, site: &TestSite, number: usize, visibility: Visibility) -> Dataset {
    let registration = DatasetRegistration {
        name: "queries".to_owned(),
        lineage: ctx.id(),
        visibility,
        content: DatasetContent::Queries,
        inputs: 0,
        classes: if number == 0 { 3 } else { 0 },
        records: SizeClass(10_000),
        speakers: SizeClass(1),
        test_records: if number == 0 { 500 } else { 0 },
        seconds: None,
        users: None,
        table: None,
        units: vec![PrivacyUnit::Record],
        approval: None,
    };
    dataset::register(ctx, site.worker, &registration).await.unwrap()
}

pub fn pool(texts: &[&str]) -> Vec<u8> {
    write(texts.iter().map(|text| QuestionLine { text: (*text).to_owned(), count: None }).collect()).unwrap()
}

/// Returns the annotator and the label of an answer.
pub fn read_answer(answered: &AnswerLine) -> (u32, &str) {
    (answered.annotator, answered.answer.label().unwrap_or("none"))
}

/// Returns three rounds of at most three questions, over the public queries of the lead and the private ones of two
/// sites.
pub fn spec([lead, north, south]: [DatasetId; 3], annotators: u32, seconds: u32) -> Spec {
    let gate = json!({ "sampling_rate": 0.05, "threshold": 20, "epsilon": 0.25, "shown": "set" });
    serde_json::from_value(json!({ "kind": "active_learning", "spec": {
        "unit": "record",
        "participants": [{ "dataset": lead }, { "dataset": north, "gate": gate }, { "dataset": south, "gate": gate }],
        "labels": [{ "name": "what", "key": "w" }, { "name": "where" }, { "name": "when" }],
        "guidelines": "Label what is wanted.",
        "tests": [{ "name": "common", "dataset": lead }],
        "golden": 100, "rounds": 3, "batch": 3, "annotators": annotators, "deadline_seconds": seconds, "seed": 1,
    }}))
    .unwrap()
}
