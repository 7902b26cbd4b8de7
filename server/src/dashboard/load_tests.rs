//! Tests that the number of queries of a page does not grow with the number of shown objects.

#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use axum::http::header;
use undertone_api::budget::NewBudget;
use undertone_api::dataset::Visibility;
use undertone_api::id::{JobId, MemberId};
use undertone_api::job::dp_sgd::Report as DpSgdReport;
use undertone_api::job::{Approval, JobState, NewApprovalLimit, NewJob, Report};
use undertone_api::member::{Role, RoleGrant, RoleScope};
use undertone_api::session::TokenPair;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use crate::testing::{TestApp, on_both};
use undertone_server_core::auth::cookie;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::finish::{PartOutcome, finish};
use undertone_server_core::service::job::{cancel, propose};
use undertone_server_core::service::version::ExpectedVersion;
use undertone_server_core::service::world::{TestConsortium, freeze_dataset, people, poll};
use undertone_server_core::service::{approval, budget, session};

/// The number of requests of each page. Concurrent work of the server only adds statements to some of them.
const TIMES: usize = 3;

/// A consortium, and a member with every role.
struct LoadedConsortium {
    world: TestConsortium,
    running: JobId,
    proposed: JobId,
    cookies: String,
}

impl LoadedConsortium {
    /// Makes a consortium with this many private datasets, each of its own organization: one job running on all of
    /// them, one that waits for all of their owners, one frozen dataset, and as many auditors. It also has as many jobs
    /// with a model, as many with questions, and as many limits of one dataset, each of which approved a job.
    async fn new(app: &TestApp, private: usize) -> Self {
        let ctx = &app.ctx;
        let mut world = TestConsortium::new(ctx, private, 50.0).await;
        leave_models(ctx, &world, private).await;
        ask_questions(ctx, &world, private).await;
        let steward_name = format!("steward of {private}");
        let scope = RoleScope::Organization(world.sites[1].steward.organizations()[0]);
        let steward =
            people::somebody(ctx, &steward_name, false, &[RoleGrant { scope, role: Role::DataSteward }]).await;
        set_limits(ctx, &world, steward, private).await;
        let running = world.queued(2).await;
        let mut leases = Vec::new();
        for site in 0..=private {
            leases.push(world.lease(site).await);
        }
        world.submit(&running, 1, &leases[1], 1, &[1.0]).await.unwrap();
        let proposed = world.propose(world.spec(1)).await.unwrap().summary.id;
        freeze_dataset(ctx, proposed, world.sites[1].dataset, "the claim does not hold").await;

        let over = RoleScope::Consortium(world.consortium);
        let mut grants = vec![RoleGrant { scope: over, role: Role::ConsortiumAdmin }];
        for organization in world.sites.iter().flat_map(|site| site.steward.organizations()) {
            let scope = RoleScope::Organization(organization);
            let roles = [Role::OrganizationAdmin, Role::DataSteward, Role::Researcher, Role::Auditor];
            grants.extend(roles.map(|role| RoleGrant { scope, role }));
        }
        // The auditor also belongs to the organization of the tested page.
        for number in 0..private {
            let grant = RoleGrant { scope: over, role: Role::Auditor };
            people::somebody(ctx, &format!("auditor {number} of {private}"), false, &[grant, grants[5]]).await;
        }
        let viewer = people::somebody(ctx, &format!("viewer of {private}"), false, &grants).await;
        let tokens = TokenPair {
            access_token: people::token(ctx, viewer).await,
            access_expires_at: ctx.now() + time::Duration::minutes(5),
            refresh_token: String::new(),
        };
        let set = cookie::store_session(ctx, &tokens);
        let cookies: Vec<&str> = set.iter().filter_map(|cookie| cookie.split(';').next()).collect();
        Self { running: running.summary.id, proposed, cookies: cookies.join("; "), world }
    }

    /// Returns every page that lists all datasets, jobs, organizations, workers or people.
    fn pages(&self) -> Vec<(&'static str, String)> {
        let home = format!("/c/{}", self.world.consortium);
        let site = &self.world.sites[1];
        let organization = site.steward.organizations()[0];
        vec![
            ("overview", home.clone()),
            ("jobs", format!("{home}/jobs")),
            ("plan", format!("{home}/plan")),
            ("plan of speech", format!("{home}/plan?kind=speech")),
            ("plan of questions", format!("{home}/plan?kind=questions")),
            ("datasets", format!("{home}/datasets")),
            ("dataset", format!("{home}/datasets/{}", site.dataset)),
            ("organizations", format!("{home}/organizations")),
            ("organization", format!("{home}/organizations/{organization}")),
            ("models", format!("{home}/models")),
            ("questions", format!("{home}/questions")),
            ("ledger", format!("{home}/ledger")),
            ("rows that were paid", format!("{home}/ledger?kind=commit")),
            ("audit log", format!("{home}/audit-log")),
            ("job at work", format!("{home}/jobs/{}", self.running)),
            ("job that waits", format!("{home}/jobs/{}", self.proposed)),
            ("log of a job", format!("{home}/jobs/{}/log", self.running)),
            ("notifications", "/notifications".to_owned()),
            ("settings", "/settings".to_owned()),
            ("founding", "/found".to_owned()),
        ]
    }

    async fn page(&self, app: &TestApp, address: &str) -> String {
        let page = app.server.get(address).add_header(header::COOKIE, self.cookies.as_str()).await;
        assert_eq!(page.status_code(), 200, "{address}: {}", page.text());
        page.text()
    }

    /// Returns the number of statements that read a page.
    async fn statements(&self, app: &TestApp, address: &str) -> usize {
        let mut least = usize::MAX;
        for _ in 0..TIMES {
            let before = app.ctx.db.statements();
            self.page(app, address).await;
            least = least.min(app.ctx.db.statements() - before);
        }
        least
    }
}

/// Makes finished jobs on public data, each with a file.
async fn leave_models(ctx: &Ctx, world: &TestConsortium, count: usize) {
    for _ in 0..count {
        let mut spec = world.spec(1);
        spec.private = None;
        spec.participants.truncate(1);
        let job = world.propose(spec).await.unwrap().summary.id;
        let worker = world.sites[0].worker;
        let lease = world.lease(0).await;
        let report = Report::DpSgd(DpSgdReport { parameters: 7, ..DpSgdReport::default() });
        finish(ctx, worker, &lease, &PartOutcome::Done(Some(report)), &[]).await.unwrap();
        assert_eq!(world.job(job).await.summary.state, JobState::Finished);
        people::file(ctx, job).await;
    }
}

/// Makes jobs with questions for annotators, and cancels them.
async fn ask_questions(ctx: &Ctx, world: &TestConsortium, count: usize) {
    let mut datasets = Vec::new();
    for (number, site) in world.sites[..3].iter().enumerate() {
        let visibility = if number == 0 { Visibility::Public } else { Visibility::Private };
        let dataset = poll::register_queries(ctx, site, number, visibility).await.id;
        datasets.push(dataset);
        if number > 0 {
            let epsilon = Epsilon::new(50.0).unwrap();
            let delta = Delta::new(1e-5).unwrap();
            let new = NewBudget { unit: PrivacyUnit::Record, epsilon, delta, filter: None };
            budget::set(ctx, &site.steward, dataset, new).await.unwrap();
        }
    }
    let lead = &world.sites[0].steward;
    let spec = poll::spec([datasets[0], datasets[1], datasets[2]], 1, 60);
    for _ in 0..count {
        let new = NewJob { title: "what people ask".to_owned(), spec: spec.clone() };
        let job = propose(ctx, lead, world.consortium, new).await.unwrap().summary.id;
        cancel(ctx, lead, job).await.unwrap();
    }
}

/// Sets limits for the first private dataset, each replacing the previous one, each with a job that it approves;
/// withdraws the last.
async fn set_limits(ctx: &Ctx, world: &TestConsortium, steward: MemberId, count: usize) {
    let steward = session::authenticate(ctx, &people::token(ctx, steward).await).await.unwrap();
    let dataset = world.sites[1].dataset;
    for _ in 0..count {
        let new = NewApprovalLimit {
            epsilon: Epsilon::new(50.0).unwrap(),
            total_epsilon: None,
            kinds: vec!["dp_sgd".to_owned()],
            until: ctx.now() + time::Duration::days(30),
        };
        approval::limit_set(ctx, &steward, dataset, &new, &ExpectedVersion::Anything).await.unwrap();
        let job = world.propose(world.spec(1)).await.unwrap();
        assert!(matches!(job.participants[1].approval, Approval::Approved { .. }), "it passes");
        cancel(ctx, &world.sites[0].steward, job.summary.id).await.unwrap();
    }
    let limits = approval::limit_withdraw(ctx, &steward, dataset).await.unwrap();
    assert_eq!(limits.iter().filter(|limit| limit.approved[0].jobs == 1).count(), count);
}

on_both! {
    async fn no_page_asks_more_of_a_large_consortium_than_of_a_small_one(app: &TestApp) {
        let small = LoadedConsortium::new(app, 3).await;
        let large = LoadedConsortium::new(app, 12).await;
        let mut wrong = Vec::new();
        for ((name, few), (_, many)) in small.pages().into_iter().zip(large.pages()) {
            let few = small.statements(app, &few).await;
            let many = large.statements(app, &many).await;
            println!("{name}: {few} statements");
            assert!(few > 0, "{name}: nothing was counted");
            if many > few {
                wrong.push(format!("{name}: {few} statements of 3 datasets, {many} of 12"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    async fn all_of_a_large_consortium_is_on_its_pages(app: &TestApp) {
        let ground = LoadedConsortium::new(app, 12).await;
        let home = format!("/c/{}", ground.world.consortium);
        let overview = ground.page(app, &home).await;
        assert_eq!(overview.matches("Approve or refuse").count(), 12, "one for each dataset that is asked about");
        assert_eq!(overview.matches("the claim does not hold").count(), 1, "one is frozen");
        let ledger = ground.page(app, &format!("{home}/ledger")).await;
        assert_eq!(ledger.matches("◔ reserved").count(), 12, "one reservation in each account");
        assert_eq!(ledger.matches("● paid").count(), 1);
        let job = ground.page(app, &format!("{home}/jobs/{}", ground.proposed)).await;
        assert_eq!(job.matches("<h2>Decide for").count(), 12, "a decision for each dataset");
        assert_eq!(job.matches("Approve and reserve").count(), 12, "each with what its account would pay");
    }
}
