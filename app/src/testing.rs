//! A consortium with its dashboard, for the tests of pages: the server's operations on a database of each test's own.
//!
//! `seed` makes the consortium once, through the operations that people and workers call, and every [`TestDashboard`]
//! opens a copy of it. `example` has values for tests that render without a server. To add a state: a step in the part
//! of `seed` that it belongs to, and a field of [`SeededConsortium`].

pub(crate) mod example;
mod seed;

use std::ops::Deref;

use axum::body::Body;
use http::{HeaderMap, Request, Response, StatusCode, header};
use leptos::prelude::LeptosOptions;
use tokio::sync::OnceCell;
use undertone_api::account::NewReset;
use undertone_api::dataset::{Dataset, DatasetContent};
use undertone_api::id::{AccountId, DatasetId, JobId, SessionId};
use undertone_api::job::{Job, JobDraft, JobSummary};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::page::PageQuery;
use undertone_api::report::ReportFile;
use undertone_server_core::auth::{Actor, Origin};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{dataset, invitation, job, report, reset, session};
use undertone_server_core::testing::{AppTemplate, HERE, TestApp, freeze_dataset};

use crate::DashboardRequest;

pub(crate) use seed::{PASSKEY_SEED, SeededConsortium};

/// The consortium that every test gets a copy of.
static TEMPLATE: OnceCell<(AppTemplate, SeededConsortium)> = OnceCell::const_new();

/// A consortium with its dashboard.
pub(crate) struct TestDashboard {
    /// The consortium.
    pub(crate) app: TestApp,
    seeded: SeededConsortium,
}

impl Deref for TestDashboard {
    type Target = SeededConsortium;

    fn deref(&self) -> &SeededConsortium {
        &self.seeded
    }
}

/// A caller of the dashboard.
pub(crate) enum Caller {
    /// Someone without a sign-in.
    Visitor,
    /// The member of a session.
    Member(SessionId),
    /// The holder of a half session, whose sign-in waits for the second step.
    HalfSession(String),
}

/// The response: status, headers, body.
pub(crate) struct PageResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl PageResponse {
    /// Returns the redirect's address.
    pub(crate) fn location(&self) -> &str {
        self.headers.get(header::LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the values of `Set-Cookie`.
    pub(crate) fn cookies(&self) -> Vec<&str> {
        self.headers.get_all(header::SET_COOKIE).into_iter().filter_map(|value| value.to_str().ok()).collect()
    }

    /// Returns the message that the response leaves for the next page, as its cookie.
    pub(crate) fn message_cookie(&self) -> &str {
        let cookies = self.cookies();
        let message = cookies.into_iter().find(|cookie| cookie.starts_with("undertone-word="));
        message.and_then(|cookie| cookie.split(';').next()).expect("a message is left for the next page")
    }
}

impl TestDashboard {
    /// Opens a copy of the consortium. Its clock shows [`example::NOW`].
    pub(crate) async fn open() -> Self {
        // Fails only if another test has initialized it already.
        let _ = any_spawner::Executor::init_tokio();
        let (template, seeded) = TEMPLATE.get_or_init(|| Box::pin(seed::make_template())).await;
        Self { app: template.open().await, seeded: seeded.clone() }
    }

    /// Returns the server's state.
    pub(crate) fn ctx(&self) -> &Ctx {
        &self.app.ctx
    }

    /// Returns the member of a session, as the server knows them now.
    pub(crate) async fn actor(&self, session: SessionId) -> Actor {
        session::actor_of(self.ctx(), session).await.expect("the session is open")
    }

    /// Renders the page at `path` for the steward, or without a sign-in, with the given cookies.
    pub(crate) async fn render(&self, path: &str, signed_in: bool, cookies: &str) -> PageResponse {
        let caller = if signed_in { Caller::Member(self.session) } else { Caller::Visitor };
        self.render_for(&caller, path, cookies).await
    }

    /// Renders the page at `path` for a caller.
    pub(crate) async fn render_for(&self, caller: &Caller, path: &str, cookies: &str) -> PageResponse {
        let request = Request::get(path)
            .header(header::ACCEPT, "text/html")
            .header(header::COOKIE, cookies)
            .body(Body::empty())
            .expect("a path is an address");
        let context = self.request(caller).await.into_context();
        let page = leptos_axum::render_app_async_with_context(context, || crate::shell(options()));
        read(page(request).await).await
    }

    /// Posts a form to `/ui/<call>` from `/from?x=1`, as the steward, and returns the response.
    pub(crate) async fn send(&self, call: &str, body: &str, html: bool) -> PageResponse {
        self.send_for(&Caller::Member(self.session), call, body, html).await
    }

    /// Posts a form as a caller.
    pub(crate) async fn send_for(&self, caller: &Caller, call: &str, body: &str, html: bool) -> PageResponse {
        use axum::response::IntoResponse;
        let request = Request::post(format!("/ui/{call}"))
            .header(header::ACCEPT, if html { "text/html" } else { "application/json" })
            .header(header::REFERER, "https://undertone.example/from?x=1")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(body.to_owned()))
            .expect("a call is an address");
        let context = self.request(caller).await.into_context();
        read(leptos_axum::handle_server_fns_with_context(context, request).await.into_response()).await
    }

    async fn request(&self, caller: &Caller) -> DashboardRequest {
        let (actor, half_token) = match caller {
            Caller::Visitor => (None, None),
            Caller::Member(session) => (Some(self.actor(*session).await), None),
            Caller::HalfSession(token) => (None, Some(token.clone())),
        };
        DashboardRequest::new(self.ctx().clone(), actor, Origin::from(HERE), half_token)
    }

    /// Makes a one-time link as the steward, and returns its secret.
    pub(crate) async fn make_link(&self, purpose: InvitationPurpose) -> String {
        let steward = self.actor(self.session).await;
        let new = NewInvitation { purpose, label: "for a test".to_owned() };
        let link = invitation::create(self.ctx(), &steward, &new).await.expect("an admin may invite").link;
        secret_of(&link.expect("the answer that made it holds it"))
    }

    /// Makes a link by which a member sets a new password, and returns its secret.
    pub(crate) async fn make_reset(&self, email: &str) -> String {
        let operator = self.actor(self.operator_session).await;
        let new = NewReset { email: email.to_owned(), clear_second_factor: false };
        secret_of(&reset::create(self.ctx(), &operator, &new).await.expect("an operator may reset").link)
    }

    /// Signs in by the password as far as the second step, and returns the half session's token.
    pub(crate) async fn half_session(&self, email: &str) -> String {
        self.app.half(email).await.half_token
    }

    /// Returns the query logs of the consortium.
    pub(crate) async fn logs(&self) -> Vec<Dataset> {
        let steward = self.actor(self.session).await;
        let mut all =
            dataset::list(self.ctx(), &steward, self.consortium).await.expect("the steward sees every dataset");
        all.retain(|dataset| dataset.content == DatasetContent::Queries);
        all
    }

    /// Returns the first account of a dataset.
    pub(crate) async fn account(&self, dataset: DatasetId) -> AccountId {
        let steward = self.actor(self.session).await;
        let dataset = dataset::get(self.ctx(), &steward, dataset).await.expect("the steward sees every dataset");
        dataset.accounts.first().expect("it has a budget").id
    }

    /// Returns a job, as the steward sees it.
    pub(crate) async fn job(&self, id: JobId) -> Job {
        let steward = self.actor(self.session).await;
        job::get(self.ctx(), &steward, id).await.expect("the steward reads every job")
    }

    /// Returns the newest job of the consortium.
    pub(crate) async fn newest_job(&self) -> JobSummary {
        let steward = self.actor(self.session).await;
        let page = job::list(self.ctx(), &steward, self.consortium, &PageQuery::default()).await;
        page.expect("the steward reads the jobs").items.swap_remove(0)
    }

    /// Returns a job's report, without a page around it.
    pub(crate) async fn report(&self, job: JobId) -> ReportFile {
        let steward = self.actor(self.session).await;
        report::get(self.ctx(), &steward, job).await.expect("the steward reads every job")
    }

    /// Returns the last changed draft of the steward's organization.
    pub(crate) async fn newest_draft(&self) -> JobDraft {
        let steward = self.actor(self.session).await;
        let drafts = job::draft_list(self.ctx(), &steward, self.consortium).await;
        drafts.expect("a researcher reads the drafts").swap_remove(0)
    }

    /// Lets an audit of a job freeze one of its datasets.
    pub(crate) async fn freeze(&self, job: JobId, dataset: DatasetId, reason: &str) {
        freeze_dataset(self.ctx(), job, dataset, reason).await;
    }
}

/// Returns the value of the first hidden field of this name in the form of a call.
pub(crate) fn hidden_value<'a>(page: &'a str, call: &str, name: &str) -> &'a str {
    let form = page.split(&format!("action=\"/ui/{call}\"")).nth(1).expect("the page has the form");
    let value = form.split(&format!("name=\"{name}\" value=\"")).nth(1).and_then(|rest| rest.split('"').next());
    value.expect("the form has the field")
}

/// Returns the secret of a one-time link.
fn secret_of(link: &str) -> String {
    link.rsplit('/').next().unwrap_or_default().to_owned()
}

fn options() -> LeptosOptions {
    LeptosOptions::builder().output_name("undertone").site_pkg_dir("pkg").build()
}

async fn read(response: Response<Body>) -> PageResponse {
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, 16 << 20).await.expect("a page has a body");
    PageResponse { status: parts.status, headers: parts.headers, body: String::from_utf8_lossy(&bytes).into_owned() }
}
