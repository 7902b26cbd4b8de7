//! Construction of pages: the caller and the place are resolved once, here; the page only renders its content.

use std::future::Future;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use leptos::prelude::*;
use leptos_axum::ResponseOptions;
use leptos_router::hooks::use_params_map;
use leptos_router::params::ParamsMap;
use undertone_api::problem::{Code, Problem};
use undertone_server_core::error::Error;
use undertone_server_core::service;

use crate::component::frame::{bare, framed};
use crate::component::said::ProblemBox;
use crate::page_context::{PageContent, PageContext, PagePlace, missing};
use crate::request::{Answer, DashboardRequest};
use crate::tour::render_bar;
use crate::{message, path, reply};

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
    let message = message::take();
    Suspend::new(async move {
        let context = match load_context(place, params, query).await {
            Ok(context) => Arc::new(context),
            Err(problem) if problem.code == Code::Unauthenticated => return to_sign_in(&address),
            Err(problem) if problem.code == Code::SecondFactorMissing => return to_security(),
            Err(problem) => return bare(problem.title.clone(), message, problem_view(problem)),
        };
        let content = match build(Arc::clone(&context)).await {
            Ok(content) => with_tour(content, &context, &address).await,
            Err(problem) if problem.code == Code::Unauthenticated => return to_sign_in(&address),
            Err(problem) => PageContent::new(problem.title.clone(), problem_view(problem)),
        };
        match &context.member {
            Some(member) if place != PagePlace::Outside => framed(content, place, &context, member, message),
            _ => bare(content.title, message, content.body),
        }
    })
    .into_any()
}

/// Adds the bar of the guided tour to a page that is one of its stops. The page works without it.
async fn with_tour(content: PageContent, context: &PageContext, address: &str) -> PageContent {
    let Ok(Some(bar)) = render_bar(context, address).await else { return content };
    let body = content.body;
    PageContent { body: view! { {bar}{body} }.into_any(), ..content }
}

async fn load_context(place: PagePlace, params: ParamsMap, query: String) -> Answer<PageContext> {
    let request = DashboardRequest::from_context()?;
    let member = request.signed_in().map(service::member::me).transpose()?;
    if place != PagePlace::Outside && member.is_none() {
        return Err(Problem::new(Code::Unauthenticated, "Sign in to see this page."));
    }
    let consortia = match request.signed_in() {
        None => Vec::new(),
        Some(actor) => match service::consortium::list(request.ctx(), actor).await {
            // A member who has yet to set up a second factor may open that page, and those without a sign-in; every
            // other redirects there.
            Err(error)
                if error.code() == Code::SecondFactorMissing
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
    let unread = match request.signed_in() {
        Some(actor) => service::notification::unread(request.ctx(), actor).await.map_err(Error::into_problem),
        None => Ok(0),
    };
    Ok(PageContext {
        now: request.now(),
        request,
        member,
        consortia,
        consortium,
        params,
        query,
        unread: unread.unwrap_or_default(),
    })
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
    let to = reply::own_address(address);
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
