//! A consortium with an object at every address: a running job with questions, its datasets, a file, a draft; and every
//! kind of caller.

use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::id::{
    AccountId, ArtifactId, ConsortiumId, DatasetId, DraftId, InvitationId, JobId, OrganizationId, QuestionId,
};
use undertone_api::job::NewDraft;
use undertone_api::job::NewJob;
use undertone_api::member::{Role, RoleGrant, RoleScope};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::report::ReportFile;

use super::caller::{Caller, Means};
use crate::matrix::At;
use crate::testing::TestApp;
use undertone_server_core::auth::{Actor, Place};
use undertone_server_core::service::world::poll::QuestionJob;
use undertone_server_core::service::world::{TestConsortium, people};
use undertone_server_core::service::{api_key, dataset, invitation, job, report, session};

/// The objects and the callers.
pub(super) struct Scene {
    pub(super) consortium: ConsortiumId,
    /// The owner of `dataset`.
    pub(super) organization: OrganizationId,
    pub(super) dataset: DatasetId,
    pub(super) account: AccountId,
    pub(super) job: JobId,
    pub(super) question: QuestionId,
    pub(super) artifact: ArtifactId,
    pub(super) draft: DraftId,
    /// A link into the consortium.
    pub(super) link_over: InvitationId,
    /// A link into the organization.
    pub(super) link_into: InvitationId,
    /// A link for an operator.
    pub(super) link_operator: InvitationId,
    pub(super) new_job: NewJob,
    pub(super) report: ReportFile,
    pub(super) callers: Vec<Caller>,
    /// The author of the draft.
    author: Actor,
}

impl Scene {
    /// Creates the objects.
    pub(super) async fn set(app: &TestApp) -> Self {
        let ctx = &app.ctx;
        let poll = QuestionJob::pooled(ctx, 1).await;
        let question = poll.id(1, "a");
        poll.chooses(1, &[question]).await.expect("the lead may choose");
        let (own, peer) = (&poll.world.sites[1], &poll.world.sites[2]);
        let organization = own.steward.organizations()[0];
        let account = dataset::get(ctx, &own.steward, own.dataset).await.expect("there").accounts[0].id;
        let id = poll.job.summary.id;
        let new_job = NewJob { title: "once more".to_owned(), spec: poll.job.spec.clone() };
        let callers = callers(app, &poll.world, organization, peer.steward.organizations()[0]).await;
        let Some(Caller { means: Means::Session(everything), .. }) = callers.iter().find(|c| c.name == EVERYTHING)
        else {
            panic!("somebody has every role");
        };
        let token = people::token(ctx, *everything).await;
        let author = session::authenticate(ctx, &token).await.expect("signed in");
        let consortium = poll.world.consortium;
        let draft = draft(app, &author, consortium, &new_job).await;
        let link = async |purpose| {
            let new = NewInvitation { purpose, label: "a link".to_owned() };
            invitation::create(ctx, &author, &new).await.expect("an admin of both may").id
        };
        let link_over = link(InvitationPurpose::Organization { consortium }).await;
        let link_into = link(InvitationPurpose::Member { organization, roles: vec![Role::Researcher] }).await;
        let link_operator = link(InvitationPurpose::Operator).await;
        Self {
            consortium,
            organization,
            dataset: own.dataset,
            account,
            job: id,
            question,
            artifact: people::file(ctx, id).await,
            draft,
            link_over,
            link_into,
            link_operator,
            new_job,
            report: report::get(ctx, &own.steward, id).await.expect("every job has one"),
            callers,
            author,
        }
    }

    /// Recreates the object that a request consumes: a draft that was deleted, or has become a job.
    pub(super) async fn renew(&mut self, app: &TestApp) {
        if job::draft_get(&app.ctx, &self.author, self.draft).await.is_err() {
            self.draft = draft(app, &self.author, self.consortium, &self.new_job).await;
        }
    }

    /// Returns the place of an operation in this scene.
    pub(super) const fn place(&self, at: At) -> Place {
        match at {
            At::Server => Place::Server,
            At::Consortium => Place::Consortium(self.consortium),
            At::Organization => Place::Organization(self.organization),
        }
    }
}

const EVERYTHING: &str = "somebody with every role, who runs the server too";

async fn draft(app: &TestApp, author: &Actor, consortium: ConsortiumId, job: &NewJob) -> DraftId {
    let content = NewDraft::from_spec(&job.title, &job.spec).expect("a spec has a JSON form");
    job::draft_create(&app.ctx, author, consortium, &content).await.expect("a researcher may").id
}

/// Returns every kind of caller.
async fn callers(app: &TestApp, world: &TestConsortium, own: OrganizationId, peer: OrganizationId) -> Vec<Caller> {
    use Role::{Annotator, Auditor, ConsortiumAdmin, DataSteward, OrganizationAdmin, Researcher};
    let ctx = &app.ctx;
    let elsewhere = TestConsortium::new(ctx, 1, 1.0).await;
    let far = elsewhere.sites[1].steward.organizations()[0];
    let (here, there) = (RoleScope::Consortium(world.consortium), RoleScope::Consortium(elsewhere.consortium));
    let (own, peer, far) = (RoleScope::Organization(own), RoleScope::Organization(peer), RoleScope::Organization(far));
    let grants = |list: &[(RoleScope, Role)]| {
        list.iter().map(|(scope, role)| RoleGrant { scope: *scope, role: *role }).collect()
    };
    let every = [OrganizationAdmin, DataSteward, Researcher, Auditor, Annotator];
    let all_of = |scope: RoleScope, over: RoleScope| -> Vec<RoleGrant> {
        let within = every.map(|role| RoleGrant { scope, role });
        within.into_iter().chain([ConsortiumAdmin, Auditor].map(|role| RoleGrant { scope: over, role })).collect()
    };
    let people: Vec<(&'static str, bool, Vec<RoleGrant>)> = vec![
        ("a member without any role", false, Vec::new()),
        ("an annotator of the consortium", false, grants(&[(here, Annotator)])),
        ("a researcher of the organization", false, grants(&[(own, Researcher)])),
        ("a data steward of the organization", false, grants(&[(own, DataSteward)])),
        ("an admin of the organization", false, grants(&[(own, OrganizationAdmin)])),
        ("an auditor of the organization", false, grants(&[(own, Auditor)])),
        ("an admin of the consortium", false, grants(&[(here, ConsortiumAdmin)])),
        ("an auditor of the consortium", false, grants(&[(here, Auditor)])),
        (
            "every role in another organization of the consortium",
            false,
            every.map(|role| RoleGrant { scope: peer, role }).to_vec(),
        ),
        ("every role in another consortium", false, all_of(far, there)),
        ("the operator", true, Vec::new()),
        (EVERYTHING, true, all_of(own, here)),
    ];
    let mut callers = vec![Caller { name: "nobody", means: Means::Nobody }];
    for (name, operator, grants) in people {
        let member = people::somebody(ctx, name, operator, &grants).await;
        callers.push(Caller { name, means: Means::Session(member) });
        if name == EVERYTHING {
            let token = people::token(ctx, member).await;
            let actor = session::authenticate(ctx, &token).await.expect("signed in");
            let make = async |scopes: &[KeyScope]| {
                let new = NewApiKey { name: "a program".to_owned(), scopes: scopes.to_vec(), days: 30 };
                api_key::create(ctx, &actor, &new).await.expect("made")
            };
            let (reading, whole, revoked) =
                (make(&[KeyScope::Read]).await, make(KeyScope::ALL).await, make(KeyScope::ALL).await);
            api_key::revoke(ctx, &actor, revoked.id).await.expect("revoked");
            let secret = |key: undertone_api::api_key::ApiKey| key.secret.expect("shown once");
            callers.push(Caller { name: "a key of theirs that only reads", means: Means::Key(secret(reading)) });
            callers.push(Caller { name: "a key of theirs with every scope", means: Means::Key(secret(whole)) });
            callers.push(Caller { name: "a key of theirs that was revoked", means: Means::Revoked(secret(revoked)) });
        }
    }
    callers
}
