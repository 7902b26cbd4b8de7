//! The consortium of the tests, made through the server's operations: three organizations, datasets of every content, and
//! jobs of every kind in different states.

mod account;
mod data;
mod learning;
mod people;
mod training;
mod transcription;

use time::OffsetDateTime;
use time::macros::datetime;
use undertone_api::dataset::Dataset;
use undertone_api::id::{
    ArtifactId, ConsortiumId, DatasetId, DraftId, JobId, MemberId, OrganizationId, QuestionId, SessionId,
};
use undertone_api::job::{Job, NewJob, Spec};
use undertone_server_core::auth::Actor;
use undertone_server_core::config::{Config, ProviderConfig};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{approval, job, lease, model};
use undertone_server_core::testing::{AppTemplate, TestApp, TestPart, TestWorker};

use super::example::NOW;
use people::People;

pub(crate) use account::PASSKEY_SEED;

/// The identifiers of the consortium.
#[derive(Clone)]
pub(crate) struct SeededConsortium {
    pub(crate) consortium: ConsortiumId,
    /// The steward's organization.
    pub(crate) own: OrganizationId,
    /// A steward, researcher and admin of the second organization, who also administers the consortium.
    pub(crate) steward: MemberId,
    /// The steward's current session.
    pub(crate) session: SessionId,
    /// Another session of the steward.
    pub(crate) other_session: SessionId,
    /// A session of the server's operator.
    pub(crate) operator_session: SessionId,
    /// A member of the steward's organization.
    pub(crate) colleague: MemberId,
    speech: Vec<DatasetId>,
    recordings: Vec<DatasetId>,
    questions: Vec<QuestionId>,
    /// A question of the first round, which is closed.
    pub(crate) closed_question: QuestionId,
    /// A job that waits for approval.
    pub(crate) proposed: JobId,
    /// A running job.
    pub(crate) running: JobId,
    /// A paused job.
    pub(crate) paused: JobId,
    /// A finished job.
    pub(crate) finished: JobId,
    /// The model of the finished job.
    pub(crate) model: ArtifactId,
    /// A job with open questions.
    pub(crate) asking: JobId,
    /// A finished job with questions.
    pub(crate) asked: JobId,
    /// A transcription that waits for the approval of the recordings' steward.
    pub(crate) offered: JobId,
    /// A running transcription.
    pub(crate) hearing: JobId,
    /// A finished transcription of private recordings.
    pub(crate) heard: JobId,
    /// A finished transcription of public recordings.
    pub(crate) heard_public: JobId,
    /// A complete draft.
    pub(crate) complete: DraftId,
    /// An incomplete draft.
    pub(crate) begun: DraftId,
    /// A draft of a job with questions.
    pub(crate) question_draft: DraftId,
}

impl SeededConsortium {
    /// Returns the id of the `index`th speech dataset: 0 is public, 1 to 3 are not.
    pub(crate) fn dataset(&self, index: usize) -> DatasetId {
        self.speech[index]
    }

    /// Returns the id of the `index`th recordings: 0 are public, 1 are private and the steward's own.
    pub(crate) fn recordings_id(&self, index: usize) -> DatasetId {
        self.recordings[index]
    }

    /// Returns the id of the `index`th open question, the most uncertain first.
    pub(crate) fn question(&self, index: usize) -> QuestionId {
        self.questions[index]
    }
}

/// The consortium while it is made.
struct Seeding {
    app: TestApp,
    people: People,
    /// A worker of each organization.
    workers: [TestWorker; 3],
    /// The speech datasets: a public one, two of the steward's organization, one of the third.
    speech: Vec<Dataset>,
    /// The query logs, one of each organization, the first public.
    logs: Vec<Dataset>,
    /// The recordings: public ones of the first organization, private ones of the second.
    recordings: Vec<Dataset>,
    /// The parts that run at the end.
    running: Vec<(usize, TestPart)>,
}

/// Makes the consortium and closes it.
pub(super) async fn make_template() -> (AppTemplate, SeededConsortium) {
    let app = TestApp::sqlite_at(datetime!(2026-11-01 09:00 UTC), configure).await;
    let (people, workers) = Box::pin(people::invite(&app)).await;
    let mut seeding = Seeding {
        app,
        people,
        workers,
        speech: Vec::new(),
        logs: Vec::new(),
        recordings: Vec::new(),
        running: Vec::new(),
    };
    seeding.move_to(datetime!(2026-11-02 10:00 UTC));
    seeding.register_datasets().await;
    seeding.move_to(datetime!(2026-11-08 10:00 UTC));
    seeding.attest_overlap().await;
    let finished = Box::pin(seeding.finish_training()).await;
    let files = model::list(&seeding.app.ctx, &seeding.people.steward, finished).await.expect("a steward sees files");
    let model = files.iter().find(|file| file.name == "model.safetensors").expect("the lead stored it").id;
    seeding.move_to(datetime!(2026-11-13 12:00 UTC));
    seeding.change_key_and_set_limit().await;
    let asked = Box::pin(seeding.finish_asking()).await;
    let [heard, heard_public] = Box::pin(seeding.finish_transcribing()).await;
    seeding.prepare_account().await;
    seeding.move_to(datetime!(2026-11-20 10:00 UTC));
    let paused = seeding.pause_training().await;
    seeding.raise_budget().await;
    let (asking, questions, closed_question) = Box::pin(seeding.begin_asking()).await;
    let [offered, hearing] = Box::pin(seeding.begin_transcribing()).await;
    seeding.move_to(datetime!(2026-11-20 17:35 UTC));
    let [complete, begun, question_draft] = seeding.write_drafts().await;
    let running = Box::pin(seeding.run_training()).await;
    let proposed = seeding.propose_training().await;
    seeding.move_to(NOW);
    seeding.renew_leases().await;
    seeding.leave_links().await;
    let [other_session, session, operator_session] = seeding.sign_in().await;
    seeding.read_notifications(proposed).await;
    let ids = |datasets: &[Dataset]| datasets.iter().map(|dataset| dataset.id).collect();
    let seeded = SeededConsortium {
        consortium: seeding.people.consortium,
        own: seeding.people.organizations[1],
        steward: seeding.people.steward.id(),
        session,
        other_session,
        operator_session,
        colleague: seeding.people.colleague.id(),
        speech: ids(&seeding.speech),
        recordings: ids(&seeding.recordings),
        questions,
        closed_question,
        proposed,
        running,
        paused,
        finished,
        model,
        asking,
        asked,
        offered,
        hearing,
        heard,
        heard_public,
        complete,
        begun,
        question_draft,
    };
    (seeding.app.into_template().await, seeded)
}

/// Adds two identity providers to a configuration.
fn configure(config: &mut Config) {
    config.oidc.issuer = Some("https://login.clinic.example".to_owned());
    "undertone".clone_into(&mut config.oidc.client_id);
    "Clinic login".clone_into(&mut config.oidc.name);
    config.providers.push(ProviderConfig {
        id: "university".to_owned(),
        issuer: "https://login.university.example".to_owned(),
        client_id: "undertone".to_owned(),
        client_secret_file: None,
        name: "University login".to_owned(),
        scopes: "openid email profile".to_owned(),
        allow_signup: false,
        domains: String::new(),
    });
}

impl Seeding {
    const fn ctx(&self) -> &Ctx {
        &self.app.ctx
    }

    /// Advances the clock to a time.
    fn move_to(&self, time: OffsetDateTime) {
        self.app.clock.advance(time - self.app.clock.now());
    }

    /// Proposes a job as the researcher of the third organization.
    async fn propose(&self, title: &str, spec: Spec) -> Job {
        let new = NewJob { title: title.to_owned(), spec };
        let proposal = job::propose(self.ctx(), &self.people.researcher, self.people.consortium, new).await;
        proposal.expect("the job can be proposed")
    }

    /// Approves a job for every dataset that still waits, and returns it as it is then.
    async fn approve(&self, job: Job) -> Job {
        for dataset in pending(&job) {
            let own = self.organization_of(dataset) == self.people.organizations[1];
            let steward: &Actor = if own { &self.people.steward } else { &self.people.other_steward };
            approval::approve(self.ctx(), steward, job.summary.id, dataset).await.expect("a steward may approve");
        }
        job::get(self.ctx(), &self.people.steward, job.summary.id).await.expect("the steward reads every job")
    }

    /// Begins the part of a job for a dataset at the worker of an organization.
    async fn begin(&self, worker: usize, job: &Job, dataset: &Dataset) -> TestPart {
        self.workers[worker].begin(self.ctx(), job, dataset).await
    }

    /// Renews the leases of the running parts. Only the third organization's worker is silent.
    async fn renew_leases(&self) {
        for (worker, part) in &self.running {
            if *worker != 2 {
                let worker = &self.workers[*worker];
                worker.mark_seen(self.ctx()).await;
                // A paused job's lease is lost.
                let _ = lease::renew(self.ctx(), worker.id, &part.lease).await;
            }
        }
    }

    fn organization_of(&self, dataset: DatasetId) -> OrganizationId {
        let all = [&self.speech, &self.logs, &self.recordings].into_iter().flatten();
        all.into_iter().find(|known| known.id == dataset).map(|known| known.organization).expect("it is registered")
    }
}

/// Returns the datasets whose owners have not answered a job.
fn pending(job: &Job) -> Vec<DatasetId> {
    let waits = |party: &&undertone_api::job::JobParticipant| party.approval == undertone_api::job::Approval::Pending;
    job.participants.iter().filter(waits).map(|party| party.dataset).collect()
}
