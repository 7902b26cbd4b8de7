//! The responses of server functions to a browser that posts plain forms: redirects, session cookies, and messages for
//! the next page. An island, which does not accept HTML, receives the value or the problem itself.

use http::StatusCode;
use http::header::{ACCEPT, HeaderName, REFERER};
use http::request::Parts;
use leptos::prelude::{RenderHtml as _, use_context};
use leptos::view;
use leptos_axum::ResponseOptions;
use serde::Serialize;
use undertone_api::problem::{Code, Problem, Violation};

use crate::component::said::ProblemBox;
use crate::fault::Fault;
use crate::message::{PageMessage, leave, read_cookie, secure_attribute, set_cookie};
use crate::request::Answer;

const THEME: &str = "undertone-theme";

/// Ends a posted form: redirects to `to` after success, and back to the form with the problem after failure. An island,
/// which does not accept HTML, receives the problem itself.
pub(crate) fn land<T, E: Into<Problem>>(
    answer: Result<T, E>,
    to: impl FnOnce(&T) -> String,
    notice: Option<String>,
) -> Result<(), Fault> {
    match answer.map_err(Into::into) {
        Ok(value) => {
            if let Some(notice) = notice {
                leave(&PageMessage::Done(notice));
            }
            leptos_axum::redirect(&to(&value));
            Ok(())
        }
        Err(problem) if wants_html() => {
            leave(&PageMessage::Problem(problem));
            leptos_axum::redirect(&came_from());
            Ok(())
        }
        Err(problem) => Err(problem.into()),
    }
}

/// Returns whether the caller is a browser that submits a form.
pub(crate) fn wants_html() -> bool {
    read_header(&ACCEPT).is_some_and(|accept| accept.contains("text/html"))
}

/// Forwards the session's cookies.
pub(crate) fn keep(cookies: Vec<String>) {
    for cookie in cookies {
        set_cookie(&cookie);
    }
}

/// Returns the chosen theme: `light`, `dark`, or `None` for the system's.
pub(crate) fn theme() -> Option<&'static str> {
    match read_cookie(THEME)?.as_str() {
        "light" => Some("light"),
        "dark" => Some("dark"),
        _ => None,
    }
}

/// Stores the theme for a year.
pub(crate) fn keep_theme(theme: &str) -> Answer<()> {
    if !["light", "dark", "system"].contains(&theme) {
        return Err(Problem::validation(vec![Violation::new("theme", "use `light`, `dark` or `system`")]));
    }
    set_cookie(&format!("{THEME}={theme}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax{}", secure_attribute()));
    Ok(())
}

/// Returns the address of the form's page without its host, so that it cannot redirect to another site.
pub(crate) fn came_from() -> String {
    let referer = read_header(&REFERER).unwrap_or_default();
    let path = referer.split_once("://").map_or("/", |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    own_address(path)
}

/// Returns `to` if it is an address on this site, `/` otherwise.
pub(crate) fn own_address(to: &str) -> String {
    let own = to.starts_with('/') && !to.starts_with("//") && !to.contains('\\') && to.is_ascii();
    if own && !to.chars().any(char::is_control) { to.to_owned() } else { "/".to_owned() }
}

/// Encodes a value for an island as JSON.
pub(crate) fn text<T: Serialize>(value: &T) -> Answer<String> {
    serde_json::to_string(value)
        .map_err(|error| Problem::new(Code::Internal, format!("a part of the page has no JSON form: {error}")))
}

/// Renders a problem as HTML, and sets its status on the response: for islands, which insert it.
pub(crate) fn problem_html(problem: Problem) -> String {
    set_status(&problem);
    view! { <ProblemBox problem/> }.to_html()
}

/// Returns a problem's sentence, and sets its status on the response: for a script, which shows it in the form.
pub(crate) fn problem_text(problem: Problem) -> String {
    set_status(&problem);
    problem.detail
}

fn set_status(problem: &Problem) {
    if let (Some(response), Ok(status)) = (use_context::<ResponseOptions>(), StatusCode::from_u16(problem.status)) {
        response.set_status(status);
    }
}

fn read_header(name: &HeaderName) -> Option<String> {
    let parts = use_context::<Parts>()?;
    parts.headers.get(name)?.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::own_address;

    #[test]
    fn redirects_stay_on_this_site() {
        assert_eq!(own_address("/c/1?x=2"), "/c/1?x=2");
        for elsewhere in ["https://example.org/", "//example.org", "/\\example.org", "", "javascript:1", "/a\r\nb: c"] {
            assert_eq!(own_address(elsewhere), "/", "{elsewhere}");
        }
    }
}
