//! A site's worker for tests: it enrols, registers datasets and runs parts of jobs through the server's operations, with
//! one key and one chain of receipts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use sha2::{Digest as _, Sha256};
use undertone_api::dataset::{Dataset, DatasetRegistration, Visibility};
use undertone_api::id::{OrganizationId, QuestionId, WorkerId};
use undertone_api::job::audit::{Assessment, AuditFinding};
use undertone_api::job::log::SiteEvent;
use undertone_api::job::{Charge, Job, Measurement, Report};
use undertone_api::signed::{AuditStatement, KeyChange, KeyRotation, Receipt, Signed, SiteHold};
use undertone_api::worker::{EnrolmentToken, NewEnrolment};
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use undertone_privacy::{Delta, Event};
use undertone_proto::question::{QuestionLine, id, write};

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::service::finish::{PartOutcome, finish_audited};
use crate::service::job_log::SiteLogLine;
use crate::service::model::ArtifactHeader;
use crate::service::question::{PoolHeader, QuestionChoice};
use crate::service::round::VectorHeader;
use crate::service::{dataset, job, job_log, lease, measurement, model, offer, question, round, site_key, worker};

/// A worker of a site.
pub struct TestWorker {
    /// Its id.
    pub id: WorkerId,
    key: SigningKey,
    /// The number of signed receipts.
    receipts: u64,
    /// The digest of the last receipt.
    head: String,
    key_changes: u32,
    log_lines: u64,
}

/// A part of a job that a worker runs.
pub struct TestPart {
    /// The job, as it was when the part began.
    pub job: Job,
    /// The dataset.
    pub dataset: Dataset,
    /// The fencing token.
    pub lease: String,
}

impl TestPart {
    /// Returns the charge of the dataset's releases.
    fn charge(&self) -> Charge {
        let own = self.job.participants.iter().find(|party| party.dataset == self.dataset.id);
        own.and_then(|party| party.charge.clone()).expect("the dataset is charged")
    }

    /// Returns the id of a question of this part's pool.
    pub fn question_id(&self, text: &str) -> QuestionId {
        id(self.job.summary.id, self.dataset.id, text)
    }

    /// Returns the event of one vector of a series; `None` where nothing is charged.
    fn event(&self, series: &str) -> Option<Event> {
        match self.dataset.visibility {
            Visibility::Public => None,
            Visibility::Open if series == "open" => Some(Event::NonPrivate),
            Visibility::Open | Visibility::Private => Some(self.charge().event),
        }
    }
}

impl TestWorker {
    /// Enrols a worker of an organization with a token of its admin.
    pub async fn enrol(ctx: &Ctx, admin: &Actor, organization: OrganizationId, name: &str) -> Self {
        let enrolment = worker::invite(ctx, admin, organization, &NewEnrolment { name: name.to_owned() }).await;
        let token = enrolment.expect("an admin may enrol a worker").token;
        let (_, encoded) = token.split_once('.').expect("a token has a prefix");
        let decoded = URL_SAFE_NO_PAD.decode(encoded).expect("a token is base 64");
        let token: EnrolmentToken = serde_json::from_slice(&decoded).expect("a token is JSON");
        let key = SigningKey::from_bytes(&ctx.random.bytes());
        let kinds = ["dp_sgd", "active_learning", "transcription", "evaluation", "analytics"].map(str::to_owned);
        let row = worker::enrol(ctx, &token.secret, &encode_key(&key), "0.1.0", &kinds).await.expect("the token works");
        let head = hex::encode(Sha256::digest(b""));
        Self { id: row.id, key, receipts: 0, head, key_changes: 0, log_lines: 0 }
    }

    /// Registers a dataset.
    pub async fn register(&self, ctx: &Ctx, registration: &DatasetRegistration) -> Dataset {
        dataset::register(ctx, self.id, registration).await.expect("the dataset can be registered")
    }

    /// Stores a sign of life.
    pub async fn mark_seen(&self, ctx: &Ctx) {
        offer::mark_seen(ctx, self.id).await.expect("the worker is enrolled");
    }

    /// Replaces the site's key.
    pub async fn rotate_key(&mut self, ctx: &Ctx) {
        let new = SigningKey::from_bytes(&ctx.random.bytes());
        self.key_changes += 1;
        let change = KeyChange {
            worker: self.id,
            number: self.key_changes,
            old: encode_key(&self.key),
            new: encode_key(&new),
            receipts: self.receipts,
            last: self.head.clone(),
            at: ctx.now(),
        };
        let sign = |key: &SigningKey| Signed::new(&change, key).expect("a change can be signed");
        let rotation = KeyRotation { by_old: sign(&self.key), by_new: sign(&new) };
        site_key::rotate(ctx, &rotation).await.expect("both keys signed the change");
        self.key = new;
    }

    /// Begins the part of a job for a dataset, with a new lease.
    pub async fn begin(&self, ctx: &Ctx, job: &Job, dataset: &Dataset) -> TestPart {
        self.mark_seen(ctx).await;
        let grant =
            ctx.db.write("test", async |tx| Box::pin(lease::grant(ctx, tx, self.id, job.summary.id, dataset.id)).await);
        let (_, _, lease) = grant.await.expect("there is work");
        TestPart { job: job.clone(), dataset: dataset.clone(), lease }
    }

    /// Reports events of a part, with the present time.
    pub async fn log(&mut self, ctx: &Ctx, part: &TestPart, events: &[SiteEvent]) {
        let now = ctx.now().unix_timestamp();
        let lines: Vec<SiteLogLine> = events
            .iter()
            .map(|event| {
                self.log_lines += 1;
                SiteLogLine { sequence: self.log_lines, at_unix: now, event: *event }
            })
            .collect();
        job_log::append(ctx, self.id, &part.lease, now, &lines).await.expect("the events are of the job");
    }

    /// Pays for the vector of a round and sends it; public data pay nothing. The vector is zero.
    pub async fn submit(&mut self, ctx: &Ctx, part: &TestPart, series: &str, round: u32) {
        let receipts = part.event(series).map(|event| self.sign_receipt(ctx, part, series, round, event));
        let data = 0.0_f32.to_le_bytes();
        let header = VectorHeader {
            lease: part.lease.clone(),
            series: series.to_owned(),
            round,
            receipts: receipts.into_iter().collect(),
            length: 1,
            digest: hex::encode(Sha256::digest(data)),
            size: data.len() as u64,
            offset: 0,
        };
        let mut upload = round::begin(ctx, self.id, header).await.expect("the round takes vectors");
        upload.write(&data).await.expect("the vector is short");
        upload.accept(ctx).await.expect("the vector is paid");
    }

    /// Asks for the mean of a round, which closes the round after its deadline. Returns whether the round is closed.
    pub async fn fetch_average(&self, ctx: &Ctx, part: &TestPart, series: &str, round: u32) -> bool {
        let mean = round::average(ctx, self.id, &part.lease, series, round, 0).await;
        mean.expect("the part contributes to the series").is_some()
    }

    /// Submits a measurement, as the lead.
    pub async fn measure(&self, ctx: &Ctx, part: &TestPart, figure: &Measurement) {
        measurement::measure(ctx, self.id, &part.lease, figure).await.expect("the job measures this");
    }

    /// Stores a file of the job, as the lead.
    pub async fn store_file(&self, ctx: &Ctx, part: &TestPart, name: &str, content: &[u8]) {
        let header = ArtifactHeader {
            lease: part.lease.clone(),
            name: name.to_owned(),
            size: content.len() as u64,
            digest: hex::encode(Sha256::digest(content)),
        };
        let mut upload = model::begin(ctx, self.id, header).await.expect("the lead may store files");
        upload.write(content).await.expect("the file is short");
        upload.accept(ctx).await.expect("the digest is right");
    }

    /// Pays for a pool of questions and sends it: each text with its number of occurrences.
    pub async fn submit_pool(&mut self, ctx: &Ctx, part: &TestPart, texts: &[(&str, u64)]) {
        let event = part.charge().event;
        let receipts = vec![self.sign_receipt(ctx, part, "pool", 1, event)];
        let lines = texts.iter().map(|(text, count)| QuestionLine { text: (*text).to_owned(), count: Some(*count) });
        let bytes = write(lines.collect()).expect("the texts are valid");
        let header = PoolHeader {
            lease: part.lease.clone(),
            series: "pool".to_owned(),
            round: 1,
            receipts,
            size: bytes.len() as u64,
            digest: hex::encode(Sha256::digest(&bytes)),
        };
        let mut upload = question::begin(ctx, self.id, header).await.expect("the job takes pools");
        upload.write(&bytes).await.expect("the pool is short");
        upload.accept(ctx).await.expect("the pool is paid");
    }

    /// Fetches the pools, as the lead, and opens a round with the questions, each with its uncertainty.
    pub async fn choose(&self, ctx: &Ctx, part: &TestPart, round: u32, choices: &[QuestionChoice]) {
        let pools = question::wait_for_pools(ctx, self.id, &part.lease, 0).await.expect("the lead reads pools");
        assert!(pools.is_some(), "every pool has arrived");
        question::choose(ctx, self.id, &part.lease, round, choices).await.expect("the questions are in the pools");
    }

    /// Asks for the answers of a round of questions. Returns whether the round is closed.
    pub async fn fetch_answers(&self, ctx: &Ctx, part: &TestPart, round: u32) -> bool {
        question::answers(ctx, self.id, &part.lease, round, 0).await.expect("the lead reads answers").is_ok()
    }

    /// Holds a job for a dataset at the site's terminal.
    pub async fn hold(&self, ctx: &Ctx, part: &TestPart, reason: &str) {
        let statement = SiteHold {
            manifest: part.job.manifest.clone(),
            job: part.job.summary.id,
            dataset: part.dataset.id,
            hold: true,
            reason: reason.to_owned(),
            at: ctx.now(),
        };
        let signed = Signed::new(&statement, &self.key).expect("a statement can be signed");
        job::hold::hold_by_site(ctx, self.id, &signed).await.expect("the job can be held");
    }

    /// Signs the statement of the audit of a part, whose claim is assessed at `delta`.
    pub fn sign_audit(&self, ctx: &Ctx, part: &TestPart, finding: AuditFinding, releases: u64, delta: Delta) -> Signed {
        let charge = part.charge();
        let assessment = Assessment::assess(&finding.trials, &charge.event, charge.adjacency, releases, delta);
        let statement = AuditStatement {
            worker: self.id,
            job: part.job.summary.id,
            dataset: part.dataset.id,
            lineage: part.dataset.lineage,
            manifest: part.job.manifest.clone(),
            series: "private".to_owned(),
            unit: charge.unit,
            adjacency: charge.adjacency,
            event: charge.event,
            releases,
            finding,
            assessment: assessment.expect("the counts are of an audit"),
            evaluator: EVALUATOR_VERSION.to_owned(),
            at: ctx.now(),
        };
        Signed::new(&statement, &self.key).expect("a statement can be signed")
    }

    /// Ends a part: the lead with its report, an audited part with its statement. A part that sent its release to a
    /// recipient outside the consortium pays for it now.
    pub async fn end(&mut self, ctx: &Ctx, part: &TestPart, report: Option<Report>, statement: Option<&Signed>) {
        let outside = part.job.spec.external_release().filter(|_| part.dataset.visibility != Visibility::Public);
        let receipts: Vec<Signed> = outside
            .into_iter()
            .map(|outside| self.sign_receipt(ctx, part, &outside.series, 1, part.charge().event))
            .collect();
        let outcome = PartOutcome::Done(report);
        let ending = finish_audited(ctx, self.id, &part.lease, &outcome, statement, &receipts).await;
        ending.expect("the part can end");
    }

    /// Returns the next receipt of the site's chain, for a release of a part.
    fn sign_receipt(&mut self, ctx: &Ctx, part: &TestPart, series: &str, round: u32, event: Event) -> Signed {
        let charge = part.charge();
        self.receipts += 1;
        let receipt = Receipt {
            sequence: self.receipts,
            previous: self.head.clone(),
            worker: self.id,
            dataset: part.dataset.id,
            lineage: part.dataset.lineage,
            job: part.job.summary.id,
            manifest: part.job.manifest.clone(),
            series: series.to_owned(),
            round,
            attempt: 1,
            unit: charge.unit,
            adjacency: charge.adjacency,
            event,
            evaluator: EVALUATOR_VERSION.to_owned(),
            at: ctx.now(),
            tick: None,
        };
        let signed = Signed::new(&receipt, &self.key).expect("a receipt can be signed");
        self.head = signed.digest();
        signed
    }
}

/// Returns the public half of a key, hex.
fn encode_key(key: &SigningKey) -> String {
    hex::encode(key.verifying_key().to_bytes())
}
