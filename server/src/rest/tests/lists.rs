//! Lists: page sizes and filters.

use axum::http::header;
use serde_json::{Value, json};
use undertone_api::problem::{Code, Problem};

use super::member_of;
use crate::testing::{TestApp, on_both};
use undertone_server_core::service::job::cancel;
use undertone_server_core::service::world::TestConsortium;

async fn ids(app: &TestApp, bearer: &str, path: &str) -> Vec<String> {
    let response = app.server.get(&format!("/api/v1{path}")).add_header(header::AUTHORIZATION, bearer).await;
    let body: Value = response.json();
    let items = body["items"].as_array().unwrap_or_else(|| panic!("{path}: {body}"));
    items.iter().map(|item| item["id"].as_str().unwrap_or_default().to_owned()).collect()
}

on_both! {
    async fn no_list_has_pages_of_none_or_of_more_than_200(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        let document = crate::rest::openapi::described();
        let mut lists = 0;
        for (path, operations) in document["paths"].as_object().expect("paths") {
            let parameters = operations["get"]["parameters"].as_array().cloned().unwrap_or_default();
            if !parameters.iter().any(|parameter| parameter["name"] == "limit") {
                continue;
            }
            lists += 1;
            let path = path.replace("{id}", &uuid::Uuid::nil().to_string());
            for limit in ["1", "200"] {
                let asked = app.server.get(&format!("/api/v1{path}?limit={limit}"));
                let taken = asked.add_header(header::AUTHORIZATION, &bearer).await.status_code();
                assert_ne!(taken.as_u16(), Code::ValidationFailed.http_status(), "{path} refuses {limit}");
            }
            for limit in ["0", "201", "-1", "4294967295", "9999999999"] {
                let asked = app.server.get(&format!("/api/v1{path}?limit={limit}"));
                let refused: Problem = asked.add_header(header::AUTHORIZATION, &bearer).await.json();
                assert_eq!(refused.code, Code::ValidationFailed, "{path} takes {limit}");
                assert_eq!(refused.violations[0].field, "limit");
            }
        }
        assert!(lists >= 12, "{lists}");
    }

    async fn jobs_are_narrowed_by_all_that_is_named(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let first = world.propose(world.spec(1)).await.expect("proposed");
        // Ids of one millisecond have no order.
        app.clock.advance(time::Duration::seconds(1));
        let second = world.propose(world.spec(2)).await.expect("proposed");
        app.clock.advance(time::Duration::hours(1));
        let mut third = world.spec(3);
        third.participants.truncate(2);
        let third = undertone_server_core::service::job::propose(&app.ctx, &world.sites[1].steward, world.consortium, undertone_api::job::NewJob {
            title: "100%_of! \\it".to_owned(),
            spec: undertone_api::job::Spec::DpSgd(third),
        }).await.expect("proposed");
        cancel(&app.ctx, &world.sites[0].steward, second.summary.id).await.expect("cancelled");
        // The sign-in is here because an access token does not last for the hour above.
        let bearer = member_of(app, &world, 0).await.bearer();
        let id = |job: &undertone_api::job::Job| job.summary.id.to_string();
        let list = async |query: &str| ids(app, &bearer, &format!("/consortia/{}/jobs{query}", world.consortium)).await;
        assert_eq!(list("").await, [id(&third), id(&second), id(&first)], "newest first");
        assert_eq!(list("?state=cancelled").await, [id(&second)]);
        assert_eq!(list("?state=proposed").await, [id(&third), id(&first)]);
        assert_eq!(list("?kind=active_learning").await, [""; 0]);
        assert_eq!(list("?kind=dp_sgd&limit=1").await, [id(&third)]);
        assert_eq!(list(&format!("?dataset={}", world.sites[2].dataset)).await, [id(&second), id(&first)]);
        assert_eq!(list(&format!("?proposer={}", world.sites[1].steward.id())).await, [id(&third)]);
        assert_eq!(list("?since=2026-11-20T12:30:00Z").await, [id(&third)]);
        assert_eq!(list("?text=OF!+%5Cit").await, [id(&third)], "whatever the case");
        assert_eq!(list("?text=100%25_").await, [id(&third)]);
        assert_eq!(list("?text=1%25_o").await, [""; 0], "nothing is a wildcard");
        assert_eq!(list("?text=job&state=proposed").await, [id(&first)]);
        assert_eq!(list(&format!("?cursor={}", third.summary.id)).await, [id(&second), id(&first)]);
    }

    async fn datasets_and_ledgers_are_narrowed(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let bearer = member_of(app, &world, 1).await.bearer();
        let job = world.queued(1).await.summary.id;
        let list = async |query: &str| ids(app, &bearer, &format!("/consortia/{}/datasets{query}", world.consortium)).await.len();
        assert_eq!((list("").await, list("?visibility=private").await, list("?visibility=public&text=TES").await), (3, 1, 1));
        assert_eq!((list("?content=queries").await, list("?text=nothing").await), (0, 0));
        let ledger = async |query: String| {
            let path = format!("/api/v1/datasets/{}/ledger{query}", world.sites[1].dataset);
            let page: Value = app.server.get(&path).add_header(header::AUTHORIZATION, &bearer).await.json();
            page["items"].as_array().map(Vec::len)
        };
        assert_eq!(ledger(format!("?job={job}&kind=reserve")).await, Some(1));
        assert_eq!(ledger("?kind=commit".to_owned()).await, Some(0));
        assert_eq!(ledger(format!("?job={}", uuid::Uuid::nil())).await, Some(0));
        assert_eq!(ledger("?since=2026-11-20T12:00:00Z&until=2026-11-20T12:00:01Z".to_owned()).await, Some(1));
        assert_eq!(ledger("?until=2026-11-20T12:00:00Z".to_owned()).await, Some(0));
        let models: Value = app.server.get(&format!("/api/v1/consortia/{}/models", world.consortium))
            .add_header(header::AUTHORIZATION, &bearer).await.json();
        assert_eq!(models, json!({ "items": [] }), "nothing has finished");
    }
}
