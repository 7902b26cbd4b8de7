//! Sends requests to every address of REST as every kind of caller, to a complete server. The response must be the one
//! of the matrix, and the policy checks must be those that the matrix lists. Requests are made from the OpenAPI
//! document.

mod caller;
mod fuzz;
mod request;
mod scene;

use std::collections::{BTreeMap, BTreeSet};

use axum::body::to_bytes;
use axum::http::StatusCode;
use tower::ServiceExt as _;
use undertone_api::api_key::KeyScope;

use self::caller::{CallerCredential, TestCaller};
use self::request::RequestBuilder;
use self::scene::TestScene;
use super::MatrixRow;
use super::rest::REST;
use crate::testing::TestApp;
use undertone_server_core::auth::policy::check_log::{self, PolicyCheck};
use undertone_server_core::auth::{Actor, Operation, policy};
use undertone_server_core::config::RateConfig;
use undertone_server_core::service::session;

/// Codes of responses to an authenticated caller with a wrong code, password or passkey.
const WRONG_PROOFS: [&str; 3] =
    [r#""code":"wrong_code""#, r#""code":"wrong_credentials""#, r#""code":"wrong_passkey""#];

/// The expectation of the matrix for one caller at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedAnswer {
    /// No authentication is required.
    Open,
    /// The caller is not authenticated: 401.
    Unknown,
    /// The policy refuses: 403, or 404 if the place is hidden.
    Refused(u16),
    /// The policy permits; the operation decides the rest.
    Admitted,
}

impl ExpectedAnswer {
    fn from_row(row: &MatrixRow, actor: Option<&Actor>, scene: &TestScene) -> Self {
        if row.open.is_some() {
            return Self::Open;
        }
        let Some(actor) = actor else { return Self::Unknown };
        let refusal =
            row.asks.iter().find_map(|(operation, at)| policy::check(actor, *operation, scene.place(*at)).err());
        refusal.map_or(Self::Admitted, |error| Self::Refused(error.code().http_status()))
    }

    /// Returns the mark in the grid.
    const fn mark(self) -> char {
        match self {
            Self::Open => 'o',
            Self::Unknown => '!',
            Self::Refused(404) => '.',
            Self::Refused(_) => '-',
            Self::Admitted => 'y',
        }
    }

    /// Describes the difference between a response and this expectation; `None` if they agree.
    fn differs(self, row: &MatrixRow, status: StatusCode, why: &str, checks: &[PolicyCheck]) -> Option<String> {
        let right = match self {
            Self::Open => !status.is_server_error(),
            Self::Unknown => status == StatusCode::UNAUTHORIZED && checks.is_empty(),
            // If the service loads the object first, it hides the object instead of forbidding the operation.
            Self::Refused(code) => status.as_u16() == code || status == StatusCode::NOT_FOUND,
            Self::Admitted => {
                let is_admitted = checks.iter().all(|check| check.allowed) && !checks.is_empty();
                match status {
                    // The caller was authenticated; the additional proof of identity is wrong.
                    StatusCode::UNAUTHORIZED => is_admitted && WRONG_PROOFS.iter().any(|code| why.contains(code)),
                    StatusCode::FORBIDDEN => row.only.is_some(),
                    StatusCode::NOT_FOUND => is_admitted || row.only.is_some(),
                    other => !other.is_server_error(),
                }
            }
        };
        (!right).then(|| format!("{self:?} in the matrix, answered with {status} after {checks:?}"))
    }
}

/// Sends a request as a caller; returns the status, the beginning of an error's body, and the policy checks.
async fn send(
    app: &TestApp,
    requests: &RequestBuilder,
    scene: &TestScene,
    row: &MatrixRow,
    caller: &TestCaller,
) -> (StatusCode, String, Vec<PolicyCheck>) {
    let token = caller.token(&app.ctx).await;
    let request = requests.build(row, scene, token.as_deref());
    let (response, checks) = check_log::record_checks(app.router.clone().oneshot(request)).await;
    let response = response.expect("a router answers");
    let status = response.status();
    // A streaming response has begun with success; only errors are read.
    let why = if status.is_success() {
        String::new()
    } else {
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap_or_default();
        String::from_utf8_lossy(&body).chars().take(300).collect()
    };
    (status, why, checks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_address_answers_every_caller_as_the_matrix_says() {
    let app = TestApp::sqlite_with(|config| {
        config.rates = RateConfig { by_caller: 0, by_address: 0, by_worker: 0, by_organization: 0 }
    })
    .await;
    let mut scene = Box::pin(TestScene::set(&app)).await;
    let callers = std::mem::take(&mut scene.callers);
    let requests = RequestBuilder::new();
    let mut wrong = Vec::new();
    let mut grid = Vec::new();
    let mut reached: BTreeMap<&str, BTreeSet<Operation>> = BTreeMap::new();
    for row in REST {
        let mut marks = String::new();
        for caller in &callers {
            scene.renew(&app).await;
            let actor = match (&caller.means, caller.token(&app.ctx).await) {
                (CallerCredential::Nobody | CallerCredential::Revoked(_), _) | (_, None) => None,
                (_, Some(token)) => Some(session::authenticate(&app.ctx, &token).await.expect("signed in")),
            };
            let verdict = ExpectedAnswer::from_row(row, actor.as_ref(), &scene);
            marks.push(verdict.mark());
            let (status, why, checks) = send(&app, &requests, &scene, row, caller).await;
            if let Some(difference) = verdict.differs(row, status, &why, &checks) {
                wrong.push(format!("{} as {}: {difference}: {why}", row.name, caller.name));
            }
            reached.entry(row.name).or_default().extend(checks.iter().map(|check| check.operation));
        }
        grid.push(format!("{marks}  {}", row.name));
    }
    for row in REST.iter().filter(|row| row.open.is_none()) {
        let listed: BTreeSet<Operation> = row.asks.iter().map(|(operation, _)| *operation).collect();
        let checks = reached.remove(row.name).unwrap_or_default();
        wrong.extend(listed.difference(&checks).map(|never| format!("{} never asks {never:?}", row.name)));
        // Before the listed checks, an operation may check that the caller can see the object.
        let seeing = |operation: &Operation| operation.scope() == Some(KeyScope::Read);
        let is_expected =
            |operation: &&Operation| listed.contains(operation) || row.then.contains(operation) || seeing(operation);
        wrong.extend(
            checks.iter().filter(|check| !is_expected(check)).map(|more| format!("{} also asks {more:?}", row.name)),
        );
    }
    let endpoints = REST.len();
    let kinds = callers.len();
    println!("{endpoints} endpoints x {kinds} callers = {} requests", endpoints * kinds);
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    let mut legend = vec!["o open  ! 401  y admitted  - 403  . 404".to_owned()];
    legend.extend(callers.iter().enumerate().map(|(column, caller)| format!("{:>2} {}", column + 1, caller.name)));
    insta::assert_snapshot!(legend.into_iter().chain(grid).collect::<Vec<_>>().join("\n"));
    drop(scene);
    app.close().await;
}
