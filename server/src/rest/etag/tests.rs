use axum::http::{HeaderName, Method, StatusCode, header};
use axum_test::{TestResponse, TestServer};
use serde_json::{Value, json};
use undertone_api::job::{JobState, NewApprovalLimit};
use undertone_api::problem::{Code, Problem};
use undertone_privacy::Epsilon;

use crate::rest::member_of;
use crate::testing::on_both;
use undertone_server_core::service::world::TestConsortium;

struct Caller<'a> {
    server: &'a TestServer,
    bearer: String,
}

impl Caller<'_> {
    async fn ask(
        &self,
        method: Method,
        path: &str,
        named: Option<(HeaderName, &str)>,
        body: Option<&Value>,
    ) -> TestResponse {
        let request =
            self.server.method(method, &format!("/api/v1{path}")).add_header(header::AUTHORIZATION, &self.bearer);
        let request = match named {
            Some((name, value)) => request.add_header(name, value),
            None => request,
        };
        match body {
            Some(body) => request.json(body).await,
            None => request.await,
        }
    }

    async fn tag(&self, path: &str) -> String {
        let response = self.ask(Method::GET, path, None, None).await;
        response.header(header::ETAG).to_str().expect("text").to_owned()
    }
}

fn is_stale(response: &TestResponse) {
    response.assert_status(StatusCode::PRECONDITION_FAILED);
    assert_eq!(response.json::<Problem>().code, Code::PreconditionFailed);
}

on_both! {
    async fn what_is_there_already_is_not_sent_again(app: &TestApp) {
        let world = app.founded().await;
        let caller = Caller { server: &app.server, bearer: world.operator.bearer() };
        let path = format!("/consortia/{}", world.consortium);
        let tag = caller.tag(&path).await;
        for same in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            let spared = caller.ask(Method::GET, &path, Some((header::IF_NONE_MATCH, &same)), None).await;
            spared.assert_status(StatusCode::NOT_MODIFIED);
            assert_eq!(spared.header(header::ETAG), tag.as_str());
            assert_eq!(spared.text(), "");
        }
        let edit = json!({ "description": "about voices" });
        caller.ask(Method::PATCH, &path, None, Some(&edit)).await.assert_status_ok();
        let sent = caller.ask(Method::GET, &path, Some((header::IF_NONE_MATCH, &tag)), None).await;
        sent.assert_status_ok();
        assert_eq!(sent.json::<Value>()["description"], "about voices");
        assert_ne!(sent.header(header::ETAG), tag.as_str());
        let none = caller.ask(Method::GET, "/nothing", Some((header::IF_NONE_MATCH, "*")), None).await;
        none.assert_status(StatusCode::NOT_FOUND);
    }

    async fn two_who_edit_a_consortium_do_not_overwrite_each_other(app: &TestApp) {
        let world = app.founded().await;
        let caller = Caller { server: &app.server, bearer: world.operator.bearer() };
        let path = format!("/consortia/{}", world.consortium);
        let read = caller.tag(&path).await;
        let first = json!({ "name": "Speech in care" });
        caller.ask(Method::PATCH, &path, Some((header::IF_MATCH, &read)), Some(&first)).await.assert_status_ok();
        let second = json!({ "name": "Voices" });
        is_stale(&caller.ask(Method::PATCH, &path, Some((header::IF_MATCH, &read)), Some(&second)).await);
        is_stale(&caller.ask(Method::PATCH, &path, Some((header::IF_MATCH, "W/\"x\"")), Some(&second)).await);
        let now: Value = caller.ask(Method::GET, &path, None, None).await.json();
        assert_eq!(now["name"], "Speech in care");
        caller.ask(Method::PATCH, &path, Some((header::IF_MATCH, "*")), Some(&second)).await.assert_status_ok();
        let long = json!({ "name": "", "description": "x".repeat(1001) });
        let refused: Problem = caller.ask(Method::PATCH, &path, None, Some(&long)).await.json();
        let fields: Vec<&str> = refused.violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["name", "description"]);
        let stranger = Caller { server: &app.server, bearer: world.north.1.bearer() };
        stranger.ask(Method::PATCH, &path, None, Some(&second)).await.assert_status(StatusCode::FORBIDDEN);
    }

    async fn two_who_declare_an_overlap_read_each_other_first(app: &TestApp) {
        let world = app.founded().await;
        let caller = Caller { server: &app.server, bearer: world.operator.bearer() };
        let path = format!("/consortia/{}/overlap", world.consortium);
        let read = caller.tag(&path).await;
        let rule = json!({ "overlap": "disjoint", "statement": "each serves a region of its own" });
        let declare = async |tag: &str| caller.ask(Method::POST, &path, Some((header::IF_MATCH, tag)), Some(&rule)).await;
        declare(&read).await.assert_status(StatusCode::CREATED);
        is_stale(&declare(&read).await);
        declare(&caller.tag(&path).await).await.assert_status(StatusCode::CREATED);
    }

    async fn a_budget_is_not_set_on_one_that_somebody_else_has_set(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 3.0).await;
        let steward = member_of(app, &world, 1).await;
        let caller = Caller { server: &app.server, bearer: steward.bearer() };
        let path = format!("/datasets/{}/budgets", world.sites[1].dataset);
        let read = caller.tag(&path).await;
        let limit = |epsilon: f64| json!({ "unit": "record", "epsilon": epsilon, "delta": 1e-5 });
        let set = async |tag: &str, epsilon| caller.ask(Method::PUT, &path, Some((header::IF_MATCH, tag)), Some(&limit(epsilon))).await;
        set(&read, 4.0).await.assert_status_ok();
        is_stale(&set(&read, 5.0).await);
        let accounts: Value = caller.ask(Method::GET, &path, None, None).await.json();
        assert_eq!(accounts[0]["epsilon"], 4.0);
        let balances: Value = caller.ask(Method::GET, &path.replace("budgets", "balances"), None, None).await.json();
        assert_eq!((&balances[0]["unit"], balances[0]["balance"].is_object()), (&json!("record"), true));
    }

    async fn a_job_that_passes_between_reading_and_setting_a_limit_refuses_nobody(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let steward = member_of(app, &world, 1).await;
        let caller = Caller { server: &app.server, bearer: steward.bearer() };
        let path = format!("/datasets/{}/approval-limits", world.sites[1].dataset);
        let limit = |epsilon: f64| {
            let (epsilon, kinds) = (Epsilon::new(epsilon).expect("an ε"), vec!["dp_sgd".to_owned()]);
            let until = app.ctx.now() + time::Duration::days(30);
            json!(NewApprovalLimit { epsilon, total_epsilon: None, kinds, until })
        };
        let set = async |tag: &str, epsilon| caller.ask(Method::POST, &path, Some((header::IF_MATCH, tag)), Some(&limit(epsilon))).await;
        let none = caller.tag(&path).await;
        set(&none, 50.0).await.assert_status(StatusCode::CREATED);
        is_stale(&set(&none, 40.0).await);
        let read = caller.tag(&path).await;
        assert_eq!(world.propose(world.spec(2)).await.expect("a job").summary.state, JobState::Queued, "it passes");
        let again = caller.ask(Method::GET, &path, Some((header::IF_NONE_MATCH, &read)), None).await;
        again.assert_status_ok();
        assert_eq!(again.json::<Value>()[0]["approved"][0]["jobs"], 1, "who reads again is sent what has passed");
        let spared = caller.ask(Method::GET, &path, Some((header::IF_NONE_MATCH, &caller.tag(&path).await)), None).await;
        spared.assert_status(StatusCode::NOT_MODIFIED);
        set(&read, 40.0).await.assert_status(StatusCode::CREATED);
        is_stale(&set(&read, 30.0).await);
    }
}
