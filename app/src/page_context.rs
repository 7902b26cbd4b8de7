//! The context of a page, and its content.

use std::sync::Arc;

use leptos::prelude::*;
use leptos_router::params::ParamsMap;
use time::OffsetDateTime;
use undertone_api::consortium::Consortium;
use undertone_api::member::Member;
use undertone_api::problem::{Code, Problem};
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;

use crate::request::{Answer, DashboardRequest};

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
    /// The request, with its caller.
    pub(crate) request: Arc<DashboardRequest>,
    pub(crate) now: OffsetDateTime,
    pub(crate) member: Option<Member>,
    pub(crate) consortia: Vec<Consortium>,
    pub(crate) consortium: Option<Consortium>,
    pub(crate) params: ParamsMap,
    pub(crate) query: String,
    /// The number of the member's unread notifications.
    pub(crate) unread: u64,
}

impl PageContext {
    /// Returns the server's state, the first argument of every operation.
    pub(crate) fn ctx(&self) -> &Ctx {
        self.request.ctx()
    }

    /// Returns the caller, the second argument of most operations.
    pub(crate) fn actor(&self) -> Answer<&Actor> {
        self.request.actor()
    }

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

/// Returns the problem of an address whose object does not exist or is hidden from the caller.
pub(crate) fn missing() -> Problem {
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
