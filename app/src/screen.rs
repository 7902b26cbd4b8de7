//! Construction of pages: the caller and the place are resolved once, here; the page only renders its content.

use std::future::Future;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use leptos::prelude::*;
use leptos_axum::ResponseOptions;
use leptos_router::hooks::use_params_map;
use leptos_router::params::ParamsMap;
use time::OffsetDateTime;
use undertone_api::consortium::Consortium;
use undertone_api::member::Member;
use undertone_api::problem::{Code, Problem};

use crate::backend::{Answer, Backend, backend};
use crate::call::native;
use crate::component::frame::{bare, framed};
use crate::component::said::ProblemBox;
use crate::path;

/// The place of a page in the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PagePlace {
    /// Before sign-in: no navigation.
    Outside,
    /// Not in any consortium.
    Nowhere,
    /// Overview.
    Overview,
    /// Jobs.
    Jobs,
    /// Datasets.
    Datasets,
    /// Organizations.
    Organizations,
    /// Questions.
    Questions,
    /// Models.
    Models,
    /// Ledger.
    Ledger,
    /// Audit log.
    AuditLog,
    /// Notifications.
    Notifications,
    /// Settings.
    Settings,
}

/// The context of a page.
pub(crate) struct PageContext {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) now: OffsetDateTime,
    member: Option<Member>,
    pub(crate) consortia: Vec<Consortium>,
    consortium: Option<Consortium>,
    params: ParamsMap,
    pub(crate) query: String,
    /// The number of the member's unread notifications.
    pub(crate) unread: u64,
}

impl PageContext {
    /// Returns the signed-in member.
    pub(crate) fn member(&self) -> Answer<&Member> {
        self.member.as_ref().ok_or_else(|| Problem::new(Code::Unauthenticated, "Sign in to see this page."))
    }

    /// Returns the consortium in the address.
    pub(crate) fn consortium(&self) -> Answer<&Consortium> {
        self.consortium.as_ref().ok_or_else(missing)
    }

    /// Returns an id in the address.
    pub(crate) fn id<T: std::str::FromStr>(&self, name: &str) -> Answer<T> {
        self.params.get(name).and_then(|text| text.parse().ok()).ok_or_else(missing)
    }

    /// Returns a text in the address.
    pub(crate) fn text(&self, name: &str) -> String {
        self.params.get(name).unwrap_or_default()
    }
}

fn missing() -> Problem {
    Problem::new(Code::NotFound, "The address may be mistyped, or what it named is not yours to see.")
}

/// A page: its title and its content.
pub(crate) struct PageContent {
    pub(crate) title: String,
    pub(crate) body: AnyView,
    /// Keys of this page alone, with their actions.
    pub(crate) keys: Vec<(String, String)>,
}

impl PageContent {
    pub(crate) fn new(title: impl Into<String>, body: impl IntoAny) -> Self {
        Self { title: title.into(), body: body.into_any(), keys: Vec::new() }
    }

    /// Adds keys of its own to the list of keys.
    pub(crate) fn with_keys(self, keys: &[(&str, &str)]) -> Self {
        Self { keys: keys.iter().map(|(key, what)| ((*key).to_owned(), (*what).to_owned())).collect(), ..self }
    }
}

/// Renders a page: resolves the caller, redirects to the sign-in if required, frames the content, and shows problems
/// with their status.
pub(crate) fn render_page<F, Fut>(place: PagePlace, build: F) -> AnyView
where
    F: FnOnce(Arc<PageContext>) -> Fut + Send + 'static,
    Fut: Future<Output = Answer<PageContent>> + Send + 'static,
{
    render_page_with(place, use_params_map().get_untracked(), build)
}

/// Renders like [`render_page`], with given parameters of the address: for an address without a page.
pub(crate) fn render_page_with<F, Fut>(place: PagePlace, params: ParamsMap, build: F) -> AnyView
where
    F: FnOnce(Arc<PageContext>) -> Fut + Send + 'static,
    Fut: Future<Output = Answer<PageContent>> + Send + 'static,
{
    let (address, query) = use_context::<Parts>().map_or_else(Default::default, |parts| {
        (parts.uri.to_string(), parts.uri.query().unwrap_or_default().to_owned())
    });
    let word = native::take();
    Suspend::new(async move {
        let desk = match desk(place, params, query).await {
            Ok(desk) => Arc::new(desk),
            Err(problem) if problem.code == Code::Unauthenticated => return to_sign_in(&address),
            Err(problem) if problem.code == Code::SecondFactorMissing => return to_security(),
            Err(problem) => return bare(problem.title.clone(), word, problem_view(problem)),
        };
        let sheet = match build(Arc::clone(&desk)).await {
            Ok(sheet) => sheet,
            Err(problem) if problem.code == Code::Unauthenticated => return to_sign_in(&address),
            Err(problem) => PageContent::new(problem.title.clone(), problem_view(problem)),
        };
        match &desk.member {
            Some(member) if place != PagePlace::Outside => framed(sheet, place, &desk, member, word),
            _ => bare(sheet.title, word, sheet.body),
        }
    })
    .into_any()
}

async fn desk(place: PagePlace, params: ParamsMap, query: String) -> Answer<PageContext> {
    let backend = backend()?;
    let now = backend.now();
    let member = backend.me().await?;
    if place != PagePlace::Outside && member.is_none() {
        return Err(Problem::new(Code::Unauthenticated, "Sign in to see this page."));
    }
    let consortia = match member.as_ref() {
        None => Vec::new(),
        Some(_) => match backend.consortia().await {
            // A member who has yet to set up a second factor may open that page, and those without a sign-in; every
            // other redirects there.
            Err(problem)
                if problem.code == Code::SecondFactorMissing
                    && matches!(place, PagePlace::Settings | PagePlace::Outside) =>
            {
                Vec::new()
            }
            consortia => consortia?,
        },
    };
    let consortium = match params.get("consortium") {
        Some(text) => Some(consortia.iter().find(|c| c.id.to_string() == text).cloned().ok_or_else(missing)?),
        None => None,
    };
    // The page works without this number.
    let unread = if member.is_some() { backend.unread().await.unwrap_or_default() } else { 0 };
    Ok(PageContext { backend, now, member, consortia, consortium, params, query, unread })
}

/// Renders a problem on a page, and sets its status on the response.
fn problem_view(problem: Problem) -> AnyView {
    if let (Some(response), Ok(status)) = (use_context::<ResponseOptions>(), StatusCode::from_u16(problem.status)) {
        response.set_status(status);
    }
    view! { <ProblemBox problem/><p><a href="/">"Go to the overview"</a></p> }.into_any()
}

fn to_security() -> AnyView {
    leptos_axum::redirect(path::SECURITY);
    view! { <p><a href=path::SECURITY>"Set up a second factor"</a></p> }.into_any()
}

fn to_sign_in(address: &str) -> AnyView {
    let to = native::own_address(address);
    let encoded: String = to
        .bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    leptos_axum::redirect(&if to == "/" {
        path::SIGN_IN.to_owned()
    } else {
        format!("{}?to={encoded}", path::SIGN_IN)
    });
    view! { <p><a href=path::SIGN_IN>"Sign in"</a></p> }.into_any()
}
