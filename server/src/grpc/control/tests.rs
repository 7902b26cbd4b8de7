#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod drafts;
mod models;
mod nul;
mod operations;
mod reflected;

use tokio_stream::StreamExt as _;
use tonic::transport::Channel;
use tonic::{Request, Status};
use undertone_api::job::{NewJob, Spec};
use undertone_api::problem::{Code, Problem};
use undertone_proto::v1::control_client::ControlClient;
use undertone_proto::{document, to_problem, v1};

use crate::rest::member_of;
use crate::testing::{Person, TestApp, on_both};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::ctx::MOST_STREAMS;
use undertone_server_core::service::world::TestConsortium;

/// Returns a channel to a gRPC server on loopback, which runs until the server stops.
async fn serve(ctx: &Ctx) -> Channel {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let ctx = ctx.clone();
    tokio::spawn(async move { crate::grpc::serve(&ctx, listener).await });
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// Makes a consortium, a member of its first organization, and a client.
async fn scene(app: &TestApp) -> (TestConsortium, Person, ControlClient<Channel>) {
    let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
    let person = member_of(app, &world, 0).await;
    let client = ControlClient::new(serve(&app.ctx).await);
    (world, person, client)
}

fn request_as<T>(person: &Person, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", person.bearer().parse().unwrap());
    request
}

fn problem<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code) -> Problem {
    let problem = to_problem(&answer.unwrap_err());
    assert_eq!(problem.code, code, "{problem:?}");
    problem
}

fn proposal(world: &TestConsortium, rounds: u32) -> v1::ProposeJobRequest {
    let new = NewJob { title: "by a program".to_owned(), spec: Spec::DpSgd(world.spec(rounds)) };
    v1::ProposeJobRequest { consortium: world.consortium.to_string(), job: document::to_struct(&new) }
}

on_both! {
    async fn a_program_looks_around_plans_proposes_and_decides(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let steward = member_of(app, &world, 1).await;
        let consortium = world.consortium.to_string();
        let me = client.who_am_i(request_as(&researcher, v1::WhoAmIRequest {})).await.unwrap().into_inner();
        assert_eq!(me.id, researcher.session.member.id.to_string());
        let reply = client.list_consortia(request_as(&researcher, v1::ListConsortiaRequest::default())).await.unwrap().into_inner();
        assert_eq!((reply.consortia.len(), &reply.consortia[0].id), (1, &consortium));
        let ask = v1::GetConsortiumRequest { consortium: consortium.clone() };
        assert_eq!(client.get_consortium(request_as(&researcher, ask)).await.unwrap().into_inner().organizations.len(), 2);
        let ask = v1::ListOrganizationsRequest { consortium: consortium.clone(), page: None };
        assert_eq!(client.list_organizations(request_as(&researcher, ask)).await.unwrap().into_inner().organizations.len(), 2);
        let page = Some(v1::PageRequest { cursor: String::new(), limit: 2 });
        let ask = v1::ListDatasetsRequest { consortium: consortium.clone(), page, ..Default::default() };
        let datasets = client.list_datasets(request_as(&researcher, ask)).await.unwrap().into_inner();
        assert!(datasets.datasets.len() == 2 && !datasets.next.is_empty());

        let v1::ProposeJobRequest { job, .. } = proposal(&world, 2);
        let ask = v1::PlanJobRequest { consortium: consortium.clone(), job };
        let plan = client.plan_job(request_as(&researcher, ask)).await.unwrap().into_inner();
        assert!(plan.admitted && plan.document.unwrap().fields.contains_key("parties"));
        let job = client.propose_job(request_as(&researcher, proposal(&world, 2))).await.unwrap().into_inner();
        assert_eq!((job.state.as_str(), job.rounds, job.kind.as_str()), ("proposed", 2, "dp_sgd"));
        let dataset = world.sites[1].dataset.to_string();
        let ask = v1::ApproveJobRequest { job: job.id.clone(), dataset: dataset.clone(), approval: String::new(), terms: String::new() };
        problem(client.approve_job(request_as(&researcher, ask.clone())).await, Code::Forbidden);
        let approved = client.approve_job(request_as(&steward, ask)).await.unwrap().into_inner();
        assert_eq!(approved.state, "queued");
        let ask = v1::ListEntriesRequest { dataset: dataset.clone(), job: job.id.clone(), ..Default::default() };
        let entries = client.list_entries(request_as(&steward, ask)).await.unwrap().into_inner().entries;
        assert_eq!(entries.iter().map(|entry| (entry.kind.as_str(), entry.count)).collect::<Vec<_>>(), [("reserve", 2)]);

        let ask = v1::PauseJobRequest { job: job.id.clone(), reason: "maintenance".to_owned(), dataset: dataset.clone() };
        assert_eq!(client.pause_job(request_as(&steward, ask)).await.unwrap().into_inner().state, "paused");
        let ask = v1::ResumeJobRequest { job: job.id.clone(), dataset };
        assert_eq!(client.resume_job(request_as(&steward, ask)).await.unwrap().into_inner().state, "queued");
        let cancelled = client.cancel_job(request_as(&researcher, v1::CancelJobRequest { job: job.id.clone() })).await.unwrap();
        assert_eq!(cancelled.into_inner().state, "cancelled");
        let again = client.retry_job(request_as(&researcher, v1::RetryJobRequest { job: job.id.clone() })).await.unwrap().into_inner();
        assert!(again.state == "proposed" && again.id != job.id);
        let ask = v1::RefuseJobRequest { job: again.id.clone(), dataset: world.sites[1].dataset.to_string(), reason: "not now".to_owned() };
        assert_eq!(client.refuse_job(request_as(&steward, ask)).await.unwrap().into_inner().state, "refused");
        let ask = v1::ListJobsRequest { consortium, state: "refused".to_owned(), ..Default::default() };
        let jobs = client.list_jobs(request_as(&researcher, ask)).await.unwrap().into_inner().jobs;
        assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), [again.id.as_str()]);
        let got = client.get_job(request_as(&researcher, v1::GetJobRequest { job: job.id })).await.unwrap().into_inner();
        assert_eq!(got.state, "cancelled");
        assert!(got.document.unwrap().fields.contains_key("manifest"));
    }

    async fn refusals_are_those_of_rest_with_the_same_codes(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let nobody = client.who_am_i(v1::WhoAmIRequest {}).await;
        assert_eq!(nobody.as_ref().unwrap_err().code(), tonic::Code::Unauthenticated);
        problem(nobody, Code::Unauthenticated);
        let mut forged = Request::new(v1::WhoAmIRequest {});
        forged.metadata_mut().insert("authorization", "Bearer udk_0_0".parse().unwrap());
        problem(client.who_am_i(forged).await, Code::Unauthenticated);
        let wrong = client.get_job(request_as(&researcher, v1::GetJobRequest { job: "x".to_owned() })).await;
        assert_eq!(problem(wrong, Code::ValidationFailed).violations[0].field, "job");
        let none = client.get_job(request_as(&researcher, v1::GetJobRequest { job: uuid::Uuid::nil().to_string() })).await;
        problem(none, Code::NotFound);
        let consortium = world.consortium.to_string();
        let page = Some(v1::PageRequest { cursor: String::new(), limit: 201 });
        let ask = v1::ListJobsRequest { consortium: consortium.clone(), page, ..Default::default() };
        assert_eq!(problem(client.list_jobs(request_as(&researcher, ask)).await, Code::ValidationFailed).violations[0].field, "page.limit");
        let ask = v1::ListJobsRequest { consortium, state: "asleep".to_owned(), ..Default::default() };
        assert_eq!(problem(client.list_jobs(request_as(&researcher, ask)).await, Code::ValidationFailed).violations[0].field, "state");
        let refused = problem(client.propose_job(request_as(&researcher, proposal(&world, 100_000))).await, Code::BudgetExceeded);
        assert_eq!(refused.refusals.len(), 1, "with the figures");
        let ask = v1::ProposeJobRequest { consortium: world.consortium.to_string(), job: None };
        assert_eq!(problem(client.propose_job(request_as(&researcher, ask)).await, Code::ValidationFailed).violations[0].field, "job");
    }

    async fn a_budget_is_set_on_the_version_that_was_read(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let steward = member_of(app, &world, 1).await;
        let dataset = world.sites[1].dataset.to_string();
        let read = client.get_dataset(request_as(&steward, v1::GetDatasetRequest { dataset: dataset.clone() })).await.unwrap().into_inner();
        let set = |epsilon, version: &str| v1::SetBudgetRequest {
            dataset: dataset.clone(),
            unit: "record".to_owned(),
            epsilon,
            delta: 1e-5,
            accounts_version: version.to_owned(),
            filter: String::new(),
        };
        problem(client.set_budget(request_as(&researcher, set(60.0, ""))).await, Code::Forbidden);
        let account = client.set_budget(request_as(&steward, set(60.0, &read.accounts_version))).await.unwrap().into_inner();
        assert_eq!((account.epsilon, account.unit.as_str()), (60.0, "record"));
        problem(client.set_budget(request_as(&steward, set(70.0, &read.accounts_version))).await, Code::PreconditionFailed);
        problem(client.set_budget(request_as(&steward, set(-1.0, ""))).await, Code::ValidationFailed);
        let named = |filter: &str| v1::SetBudgetRequest { filter: filter.to_owned(), ..set(60.0, "") };
        let unknown = problem(client.set_budget(request_as(&steward, named("zcdp"))).await, Code::ValidationFailed);
        assert_eq!(unknown.violations[0].field, "filter");
        assert!(unknown.violations[0].message.contains("expected `renyi` or `gaussian`"), "{:?}", unknown.violations);
        let account = client.set_budget(request_as(&steward, named("gaussian"))).await.unwrap().into_inner();
        assert_eq!(account.filter, "gaussian");
    }

    async fn a_proposal_with_a_key_is_made_once(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let keyed = |rounds| {
            let mut request = request_as(&researcher, proposal(&world, rounds));
            request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
            request
        };
        let first = client.propose_job(keyed(1)).await.unwrap().into_inner();
        let again = client.propose_job(keyed(1)).await.unwrap().into_inner();
        assert_eq!(first, again);
        problem(client.propose_job(keyed(2)).await, Code::ValidationFailed);
        let ask = v1::ListJobsRequest { consortium: world.consortium.to_string(), ..Default::default() };
        assert_eq!(client.list_jobs(request_as(&researcher, ask)).await.unwrap().into_inner().jobs.len(), 1);
    }

    async fn who_watches_a_job_sees_each_change_until_it_is_over(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let job = client.propose_job(request_as(&researcher, proposal(&world, 1))).await.unwrap().into_inner().id;
        let mut watch = client.watch_job(request_as(&researcher, v1::WatchJobRequest { job: job.clone() })).await.unwrap().into_inner();
        assert_eq!(watch.next().await.unwrap().unwrap().state, "proposed");
        undertone_server_core::service::approval::approve(&app.ctx, &world.sites[1].steward, job.parse().unwrap(), world.sites[1].dataset).await.unwrap();
        let mut states = Vec::new();
        while states.last().is_none_or(|state| state != "queued") {
            states.push(watch.next().await.unwrap().unwrap().state);
        }
        client.cancel_job(request_as(&researcher, v1::CancelJobRequest { job: job.clone() })).await.unwrap();
        let mut last = watch.next().await.unwrap().unwrap();
        while let Some(next) = watch.next().await {
            last = next.unwrap();
        }
        assert_eq!((last.state.as_str(), last.over), ("cancelled", true), "and the stream ended");
        let stranger = app.operator().await;
        problem(client.watch_job(request_as(&stranger, v1::WatchJobRequest { job })).await, Code::NotFound);
    }

    async fn one_member_watches_so_many_jobs_and_no_more(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let job = client.propose_job(request_as(&researcher, proposal(&world, 1))).await.unwrap().into_inner().id;
        let mut watches = Vec::new();
        for _ in 0..MOST_STREAMS {
            let mut watch = client.watch_job(request_as(&researcher, v1::WatchJobRequest { job: job.clone() })).await.unwrap().into_inner();
            watch.next().await.unwrap().unwrap();
            watches.push(watch);
        }
        problem(client.watch_job(request_as(&researcher, v1::WatchJobRequest { job: job.clone() })).await, Code::RateLimited);
        drop(watches);
        // The server notices the closed stream with the next message that it cannot send.
        client.cancel_job(request_as(&researcher, v1::CancelJobRequest { job: job.clone() })).await.unwrap();
        let free = async {
            while client.watch_job(request_as(&researcher, v1::WatchJobRequest { job: job.clone() })).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), free).await.expect("places are free again");
    }

    async fn a_watch_ends_with_the_session(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let job = client.propose_job(request_as(&researcher, proposal(&world, 1))).await.unwrap().into_inner().id;
        let mut watch = client.watch_job(request_as(&researcher, v1::WatchJobRequest { job })).await.unwrap().into_inner();
        watch.next().await.unwrap().unwrap();
        undertone_server_core::service::session::sign_out(&app.ctx, &researcher.actor(app).await).await.unwrap();
        app.ctx.changes().notify();
        problem(watch.next().await.unwrap(), Code::Unauthenticated);
        assert!(watch.next().await.is_none());
    }
}
