//! Messages from a server function to the next page.
//!
//! A message is a notice, a problem, or a one-time secret that must not be in an address. It travels in a cookie that
//! scripts cannot read, expires after a minute, and is deleted by the page that shows it. The server seals it, so that
//! no other site can place a link or a secret on a page, and binds it to the host by the `__Host-` prefix if it serves
//! TLS.

use http::header::{COOKIE, HeaderValue, SET_COOKIE};
use http::request::Parts;
use leptos::prelude::use_context;
use leptos::server_fn::error::ServerFnUrlError;
use leptos_axum::ResponseOptions;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_api::api_key::ApiKey;
use undertone_api::organization::Invitation;
use undertone_api::problem::Problem;
use undertone_api::worker::Enrolment;

use crate::fault::Fault;
use crate::request::DashboardRequest;

const MESSAGE: &str = "undertone-word";
/// The message's cookie over TLS: browsers accept the prefix from this host alone.
const HOST_MESSAGE: &str = "__Host-undertone-word";
/// The most bytes of a message. Browsers keep cookies of up to 4,096 bytes; the seal and its encoding add somewhat more
/// than a third.
const MOST: usize = 2560;

/// A message for the next page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum PageMessage {
    /// Success.
    Done(String),
    /// Failure, with the reason.
    Problem(Problem),
    /// An invitation's link, displayed once.
    Link {
        label: String,
        link: String,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
    /// A secret for an authenticator, displayed once.
    Factor { secret: String, uri: String },
    /// Recovery codes, displayed once.
    Codes { codes: Vec<String> },
    /// A worker's enrolment token, displayed once.
    Token {
        name: String,
        token: String,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
    /// An API key, displayed once.
    Key {
        name: String,
        key: String,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
}

impl PageMessage {
    /// Returns whether it contains a credential for an account, an organization or a worker.
    const fn is_secret(&self) -> bool {
        !matches!(self, Self::Done(_) | Self::Problem(_))
    }

    /// Returns the message as text to be sealed. A problem too long for a cookie loses its figures, never its sentence.
    fn encode(&self) -> String {
        let encode = |message: &Self| serde_json::to_string(message).unwrap_or_default();
        let text = encode(self);
        match self {
            Self::Problem(problem) if text.len() > MOST => {
                let detail = problem.detail.chars().take(500).collect::<String>();
                encode(&Self::Problem(Problem::new(problem.code, detail)))
            }
            _ => text,
        }
    }

    fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Leaves a message for the next page.
pub(crate) fn leave(message: &PageMessage) {
    let request = DashboardRequest::from_context().ok();
    let sealed = request.and_then(|request| request.seal_text(&message.encode(), message.is_secret()));
    if let Some(sealed) = sealed {
        let name = message_cookie();
        set_cookie(&format!("{name}={sealed}; Path=/; Max-Age=60; HttpOnly; SameSite=Lax{}", secure_attribute()));
    }
}

/// Takes and deletes the message for this page. A form that could not be parsed leaves its problem in the address.
pub(crate) fn take() -> Option<PageMessage> {
    let Some(text) = read_cookie(message_cookie()) else { return parse_address() };
    set_cookie(&format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax{}", message_cookie(), secure_attribute()));
    PageMessage::decode(&DashboardRequest::from_context().ok()?.open_text(&text)?)
}

/// Shows an invitation's link on the next page.
pub(crate) fn show_link(invitation: Invitation) {
    if let Some(link) = invitation.link {
        leave(&PageMessage::Link { label: invitation.label, link, expires_at: invitation.expires_at });
    }
}

/// Shows an enrolment token on the next page.
pub(crate) fn show_token(name: String, enrolment: Enrolment) {
    leave(&PageMessage::Token { name, token: enrolment.token, expires_at: enrolment.expires_at });
}

/// Shows an API key on the next page.
pub(crate) fn show_key(key: ApiKey) {
    if let Some(secret) = key.secret {
        leave(&PageMessage::Key { name: key.name, key: secret, expires_at: key.expires_at });
    }
}

/// Returns the name of the message's cookie.
fn message_cookie() -> &'static str {
    if secure_attribute().is_empty() { MESSAGE } else { HOST_MESSAGE }
}

/// Returns the problem that leptos left in the address.
fn parse_address() -> Option<PageMessage> {
    #[derive(Deserialize)]
    struct Query {
        __err: String,
    }
    let query = use_context::<Parts>()?.uri.query()?.to_owned();
    let Query { __err: error } = crate::query::parse(&query)?;
    let Fault(problem) = ServerFnUrlError::decode_err(&error);
    Some(PageMessage::Problem(problem))
}

/// Returns the attribute of the dashboard's own cookies that restricts them to TLS; empty if the server has none.
pub(crate) fn secure_attribute() -> &'static str {
    if DashboardRequest::from_context().is_ok_and(|request| request.is_secure()) { "; Secure" } else { "" }
}

/// Returns the value of a cookie of the request.
pub(crate) fn read_cookie(name: &str) -> Option<String> {
    let parts = use_context::<Parts>()?;
    let mut pairs =
        parts.headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// Adds a `Set-Cookie` value to the response.
pub(crate) fn set_cookie(cookie: &str) {
    if let (Some(response), Ok(value)) = (use_context::<ResponseOptions>(), HeaderValue::from_str(cookie)) {
        response.append_header(SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::problem::{Code, Problem, Violation};

    use super::{MOST, PageMessage};

    #[test]
    fn message_survives_encoding() {
        let message = PageMessage::Problem(Problem::new(Code::Forbidden, "only stewards; ε = 2, \"quoted\""));
        assert_eq!(PageMessage::decode(&message.encode()), Some(message));
    }

    #[test]
    fn long_problem_fits_in_cookie_and_keeps_its_sentence() {
        let violations = (0..200).map(|n| Violation::new(format!("spec.participants.{n}"), "wrong")).collect();
        let problem = Problem::validation(violations);
        let text = PageMessage::Problem(problem.clone()).encode();
        assert!(text.len() <= MOST);
        let Some(PageMessage::Problem(short)) = PageMessage::decode(&text) else { panic!("a problem stays a problem") };
        assert!(problem.detail.starts_with(&short.detail) && !short.detail.is_empty());
    }
}
